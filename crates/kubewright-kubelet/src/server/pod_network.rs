//! The HTTP servers of simulated pods, for port-forward and the proxies of the API server.
//!
//! A running container answers every request with the annotations `http-status` and
//! `http-response`; without them, with a file if it serves files, and else with the name of its
//! pod. It listens on its ports. If no
//! container of the pod names a port, the first one listens on all.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubewright_api::core::v1::{Container, ContainerStatus, Pod};
use kubewright_core::Object;
use kubewright_net::transport::{Body, TransportError};
use kubewright_streaming::port_forward::Connect;
use tokio::io::duplex;

use super::{ClusterNetwork, refused, respond, unreachable};
use crate::behaviour::Behaviour;
use crate::container_files::program_files;
use crate::files::File;
use crate::image::served_folder;
use crate::probes::served_file;

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
    let path = request.uri().path();
    let (status, body) = response(network, &pod, container, path);
    Ok(respond(status, content_type(path), body))
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
            let network_of_session = network.clone();
            let serving = async move {
                let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (network, pod) = (network_of_session.clone(), Arc::clone(&pod));
                    async move {
                        let path = request.uri().path();
                        let found = listener(&pod, port).map(|container| response(&network, &pod, container, path));
                        let (status, body) = found.unwrap_or((StatusCode::SERVICE_UNAVAILABLE, Bytes::new()));
                        let content_type = HeaderValue::from_static(content_type(path));
                        let mut response = Response::new(Full::new(body));
                        response.headers_mut().insert(CONTENT_TYPE, content_type);
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
    let spec = pod.spec.as_ref()?;
    let is_running = |container: &&Container| {
        let state = status_of(pod, container).and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.running.is_some())
    };
    let all = || spec.containers.iter().chain(&spec.init_containers);
    if all().all(|container| container.ports.is_empty()) {
        return spec.containers.iter().find(is_running);
    }
    let listens =
        |container: &&Container| container.ports.iter().any(|listened| listened.container_port == i32::from(port));
    all().filter(listens).find(is_running)
}

fn status_of<'a>(pod: &'a Pod, container: &Container) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mut statuses = status.init_container_statuses.iter().chain(&status.container_statuses);
    statuses.find(|status| status.name == container.name)
}

fn response(network: &ClusterNetwork, pod: &Pod, container: &Container, path: &str) -> (StatusCode, Bytes) {
    let behaviour = Behaviour::of(pod, &container.name);
    let status = behaviour.http_status.and_then(|status| StatusCode::from_u16(status).ok());
    if behaviour.http_response.is_none()
        && let Some((status_of_file, body)) = served(network, pod, container, path)
    {
        return (status.unwrap_or(status_of_file), body);
    }
    let body = behaviour.http_response.unwrap_or_else(|| format!("{}\n", pod.name()));
    (status.unwrap_or(StatusCode::OK), body.into())
}

/// The content type of a response: HTML if the name says so, and else text.
fn content_type(path: &str) -> &'static str {
    if path.ends_with(".html") { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" }
}

/// The response of a container that serves files. `None` for folders and other containers.
fn served(network: &ClusterNetwork, pod: &Pod, container: &Container, path: &str) -> Option<(StatusCode, Bytes)> {
    let folder = served_folder(pod, container)?;
    let status = status_of(pod, container)?;
    let files = network.files().get(pod, container, status);
    let files = files.unwrap_or_else(|| Arc::new(Mutex::new(program_files(pod, container, status).0)));
    let files = files.lock().unwrap_or_else(PoisonError::into_inner);
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
    match served_file(&files, &folder, &path) {
        Some(File::Regular { content, .. }) => Some((StatusCode::OK, content.clone())),
        Some(File::Folder) => None,
        None => Some((StatusCode::NOT_FOUND, Bytes::from_static(b"404 page not found\n"))),
    }
}
