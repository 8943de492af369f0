//! The paths of a kubelet.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use kubewright_api::core::v1::{Node, Pod};
use kubewright_core::options::QueryParameters;
use kubewright_core::{Object, json};
use kubewright_net::transport::{Body, Upgrade, Upgraded};
use kubewright_streaming::handshake::{Handshake, Refusal, accept, is_upgrade};
use kubewright_streaming::{command, port_forward};
use tokio::io::duplex;

use super::{ClusterNetwork, command as container_command, logs, pod_network, respond, stats, text};

/// Buffer of a session, in each direction.
const PIPE: usize = 64 << 10;

/// Answers a request to the kubelet of a node.
pub(super) fn answer(network: &ClusterNetwork, node: &Node, request: &Request<Bytes>) -> Response<Body> {
    let path = percent_decoded(request.uri().path());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
    match parts[..] {
        ["exec" | "attach" | "portForward", ..] => match upgrade(network, request) {
            Ok(_) => text(StatusCode::BAD_REQUEST, "Upgrade request required"),
            Err(response) => *response,
        },
        _ if request.method() != Method::GET && request.method() != Method::HEAD => {
            text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed")
        }
        ["healthz" | "livez" | "readyz", ..] => text(StatusCode::OK, "ok"),
        ["containerLogs", namespace, pod, container] => match network.view().pod(namespace, pod) {
            Some(pod) => logs::answer(network, &pod, container, &query),
            None => text(StatusCode::NOT_FOUND, format!("pod {pod:?} does not exist")),
        },
        ["pods" | "runningpods"] => pods(&network.view().pods_of_node(node.name())),
        ["stats", "summary"] => stats::summary(node, &network.view().pods_of_node(node.name())),
        ["metrics", "resource"] => stats::metrics(node, &network.view().pods_of_node(node.name())),
        ["configz"] => {
            let config = json!({"kubeletconfig": {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "nodeStatusUpdateFrequency": "10s"}});
            respond(StatusCode::OK, "application/json", config.to_string())
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// The pods of a node as a list.
fn pods(pods: &[Arc<Pod>]) -> Response<Body> {
    let mut list = br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#.to_vec();
    for (index, pod) in pods.iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        kubewright_core::json::Writer::new(&mut list).as_server().object(&**pod);
    }
    list.extend(b"]}\n");
    respond(StatusCode::OK, "application/json", list)
}

/// Answers an upgrade request for `exec`, `attach` or `portForward`. The error is another response.
pub(super) fn upgrade(network: &ClusterNetwork, request: &Request<Bytes>) -> Result<Upgrade, Box<Response<Body>>> {
    let path = percent_decoded(request.uri().path());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
    let ([kind @ ("exec" | "attach" | "portForward"), namespace, name, ..], true) =
        (&parts[..], is_upgrade(request.headers()))
    else {
        return Err(refusal(StatusCode::BAD_REQUEST, "Upgrade request required"));
    };
    let not_found = || refusal(StatusCode::NOT_FOUND, "pod does not exist");
    let pod = network.view().pod(namespace, name).ok_or_else(not_found)?;
    let refuse = |why: Refusal| refusal(why.status, format!("{}\n", why.message));
    let (ours, theirs) = duplex(PIPE);
    let network_of_session = network.clone();
    let has_place = if *kind == "portForward" {
        let (web_socket, spdy) = (port_forward::WEB_SOCKET_PROTOCOLS, port_forward::SPDY_PROTOCOLS);
        let handshake = accept(request.headers(), web_socket, spdy).map_err(refuse)?;
        // Only streams of SPDY name their ports.
        let has_ports = !handshake.protocol.ends_with(".channel.k8s.io");
        let ports = match port_forward::ports(query.all("port")) {
            Ok(ports) => ports,
            Err(_) if has_ports => Vec::new(),
            Err(message) => return Err(refusal(StatusCode::BAD_REQUEST, message)),
        };
        let connect = pod_network::connector(network_of_session, pod);
        let response = cloned(&handshake);
        let session = async move { drop(port_forward::serve(theirs, &handshake, &ports, &connect).await) };
        network.spawn(session).then_some(response)
    } else {
        let container = parts.get(3).copied().unwrap_or_default();
        let options = command::CommandOptions {
            stdin: query.flag("input") == Some(true),
            stdout: query.flag("output") == Some(true),
            stderr: query.flag("error") == Some(true),
            tty: query.flag("tty") == Some(true),
        };
        if !(options.stdin || options.stdout || options.stderr) {
            let message = "you must specify at least 1 of stdin, stdout, stderr";
            return Err(refusal(StatusCode::BAD_REQUEST, message));
        }
        let words: Vec<String> = query.all("command").map(str::to_owned).collect();
        let run = match *kind {
            "exec" => container_command::exec(network, &pod, container, words),
            _ => container_command::attach(network, &pod, container),
        };
        let run = run.map_err(|message| refusal(StatusCode::INTERNAL_SERVER_ERROR, message))?;
        let handshake =
            accept(request.headers(), command::WEB_SOCKET_PROTOCOLS, command::SPDY_PROTOCOLS).map_err(refuse)?;
        let response = cloned(&handshake);
        let session = async move {
            let process = |streams| run.run(streams, options.tty);
            drop(command::serve(theirs, &handshake, options, process).await);
        };
        network.spawn(session).then_some(response)
    };
    match has_place {
        Some(response) => Ok(Upgrade::Switched(response, Upgraded::new(ours))),
        None => Err(refusal(StatusCode::TOO_MANY_REQUESTS, "too many sessions of exec, attach and port-forward")),
    }
}

fn refusal(status: StatusCode, message: impl Into<Bytes>) -> Box<Response<Body>> {
    Box::new(text(status, message))
}

fn cloned(handshake: &Handshake) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = handshake.response.status();
    *response.headers_mut() = handshake.response.headers().clone();
    response
}

/// A path without percent escapes. Malformed ones stay.
fn percent_decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}
