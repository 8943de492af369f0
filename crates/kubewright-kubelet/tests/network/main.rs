//! Logs, exec, attach, port-forward and HTTP of simulated pods, with the streams of our client.

mod command;
mod http;
mod logs;
mod ports;

use std::sync::{Arc, Mutex};

use ::http::Request;
use bytes::Bytes;
use kubewright_api::core::v1::{Node, Pod};
use kubewright_client::transport::{Body, Transport, Upgrade, Upgraded};
use kubewright_core::json::Reader;
use kubewright_core::{Decoder, Object};
use kubewright_kubelet::{ClusterNetwork, ClusterView};

/// A cluster of one node.
#[derive(Clone, Default)]
struct Cluster {
    pods: Arc<Mutex<Vec<Arc<Pod>>>>,
}

impl ClusterView for Cluster {
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods.lock().unwrap().iter().find(|pod| pod.namespace() == namespace && pod.name() == name).cloned()
    }

    fn pod_of_address(&self, address: &str) -> Option<Arc<Pod>> {
        let address_of = |pod: &Arc<Pod>| pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        self.pods.lock().unwrap().iter().find(|pod| address_of(pod).as_deref() == Some(address)).cloned()
    }

    fn pods_of_node(&self, _node: &str) -> Vec<Arc<Pod>> {
        self.pods.lock().unwrap().clone()
    }

    fn node(&self, name: &str) -> Option<Arc<Node>> {
        (name == "node").then(|| Arc::new(decoded(r#"{"metadata":{"name":"node"}}"#, Node::default())))
    }

    fn slowdown(&self, _node: &str) -> f64 {
        1.0
    }
}

impl Cluster {
    /// Creates or replaces a running pod. Its container has these fields, and the pod these
    /// annotations.
    fn run(&self, name: &str, annotations: &str, container: &str) -> ClusterNetwork {
        let started = now();
        self.set(name, annotations, container, &format!(r#"{{"running":{{"startedAt":"{started}"}}}}"#), 0);
        ClusterNetwork::new(self.clone(), Arc::default())
    }

    fn set(&self, name: &str, annotations: &str, container: &str, state: &str, restarts: u32) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"uid-{name}","annotations":{annotations}}},
            "spec":{{"nodeName":"node","containers":[{{"name":"main"{container}}}]}},
            "status":{{"podIP":"10.0.0.7","containerStatuses":[{{"name":"main","restartCount":{restarts},"state":{state}}}]}}}}"#
        );
        let pod = Arc::new(decoded(&text, Pod::default()));
        let mut pods = self.pods.lock().unwrap();
        pods.retain(|known| known.name() != name);
        pods.push(pod);
    }
}

/// The time of day. `clock::now` may be a second behind it while the clock is paused.
fn now() -> kubewright_core::Time {
    kubewright_client::clock::now_micros().into()
}

fn decoded<T: kubewright_core::message::Message>(text: &str, mut object: T) -> T {
    let mut decoder = Decoder::default();
    Reader::new(text.as_bytes(), &mut decoder).message(&mut object).expect("a valid object");
    object
}

/// Asks for an upgrade, and returns the negotiated protocol with the connection.
async fn upgraded(
    network: &ClusterNetwork,
    path: &str,
    upgrade: &str,
    protocol: &str,
) -> Result<(String, Upgraded), String> {
    let mut request = Request::post(format!("https://node:10250{path}"))
        .header("connection", "Upgrade")
        .header("upgrade", upgrade)
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(Bytes::new())
        .unwrap();
    let header = if upgrade == "websocket" { "sec-websocket-protocol" } else { "x-stream-protocol-version" };
    request.headers_mut().insert(header, protocol.parse().unwrap());
    match network.upgrade(request).await.map_err(|error| error.to_string())? {
        Upgrade::Switched(response, stream) => Ok((response.headers()[header].to_str().unwrap().to_owned(), stream)),
        Upgrade::Refused(response) => {
            let (head, body) = response.into_parts();
            Err(format!("{}: {}", head.status.as_u16(), read(body).await))
        }
    }
}

async fn read(mut body: Body) -> String {
    let mut text = Vec::new();
    while let Some(chunk) = body.chunk().await.expect("it does not break") {
        text.extend(chunk);
    }
    String::from_utf8(text).expect("it is text")
}

/// The status code and text of a GET.
async fn get(network: &ClusterNetwork, url: &str) -> Result<(u16, String), String> {
    let request = Request::get(url).body(Bytes::new()).unwrap();
    let response = network
        .send(request)
        .await
        .map_err(|error| format!("{:?}", std::error::Error::source(&error).unwrap().to_string()))?;
    let (head, body) = response.into_parts();
    Ok((head.status.as_u16(), read(body).await))
}
