//! The HTTP servers of simulated pods, for port-forward and the proxies of the API server.
//!
//! A running container answers every request with the annotations `http-status` and
//! `http-response`; without them, with the name of its pod. It listens on its ports. If no
//! container of the pod names a port, the first one listens on all.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubewright_api::core::v1::{Container, Pod};
use kubewright_core::Object;
use kubewright_net::transport::{Body, TransportError};
use kubewright_streaming::port_forward::Connect;
use tokio::io::duplex;

use super::{ClusterNetwork, refused, text, unreachable};
use crate::behaviour::Behaviour;

/// Buffer of a connection, in each direction.
const PIPE: usize = 64 << 10;
/// The port of URLs that name none.
const HTTP: u16 = 80;

/// Answers a request to the address of a pod.
pub(super) fn answer(
    network: &ClusterNetwork,
    address: &str,
    request: &Request<Bytes>,
) -> Result<Response<Body>, TransportError> {
    let Some(pod) = network.view().pod_of_address(address.trim_matches(['[', ']'])) else {
        return Err(unreachable(request));
    };
    let default = if request.uri().scheme_str() == Some("https") { 443 } else { HTTP };
    let port = request.uri().port_u16().unwrap_or(default);
    let Some(container) = listener(&pod, port) else {
        return Err(refused(&format!("{address}:{port}")));
    };
    let (status, body) = response(&pod, container);
    Ok(text(status, body))
}

/// Connects to the ports of a pod.
pub(super) fn connector(network: ClusterNetwork, pod: Arc<Pod>) -> Connect {
    Arc::new(move |port| {
        let (network, pod) = (network.clone(), Arc::clone(&pod));
        Box::pin(async move {
            let newest = network.view().pod(pod.namespace(), pod.name()).filter(|newest| newest.uid() == pod.uid());
            let Some(pod) = newest.filter(|pod| listener(pod, port).is_some()) else {
                return Err(format!(
                    "failed to connect to localhost:{port} inside namespace \"simulated\": dial tcp 127.0.0.1:{port}: \
                     connect: connection refused"
                ));
            };
            let (ours, theirs) = duplex(PIPE);
            let serving = async move {
                let answer = service_fn(move |_: Request<hyper::body::Incoming>| {
                    let pod = Arc::clone(&pod);
                    async move {
                        let found = listener(&pod, port).map(|container| response(&pod, container));
                        let (status, body) = found.unwrap_or((StatusCode::SERVICE_UNAVAILABLE, Bytes::new()));
                        let mut response = Response::new(Full::new(body));
                        *response.status_mut() = status;
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
                // A client that breaks off is no concern of the container.
                let _ = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(theirs), answer).await;
            };
            if network.spawn(serving) { Ok(ours) } else { Err("too many connections".to_owned()) }
        })
    })
}

/// The running container that listens on a port.
fn listener(pod: &Pod, port: u16) -> Option<&Container> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    let statuses = || status.init_container_statuses.iter().chain(&status.container_statuses);
    let is_running = |container: &&Container| {
        let status = statuses().find(|status| status.name == container.name);
        status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
    };
    let all = || spec.containers.iter().chain(&spec.init_containers);
    if all().all(|container| container.ports.is_empty()) {
        return spec.containers.iter().find(is_running);
    }
    let listens =
        |container: &&Container| container.ports.iter().any(|listened| listened.container_port == i32::from(port));
    all().filter(listens).find(is_running)
}

fn response(pod: &Pod, container: &Container) -> (StatusCode, Bytes) {
    let behaviour = Behaviour::of(pod, &container.name);
    let status = behaviour.http_status.and_then(|status| StatusCode::from_u16(status).ok());
    let body = behaviour.http_response.unwrap_or_else(|| format!("{}\n", pod.name()));
    (status.unwrap_or(StatusCode::OK), body.into())
}
