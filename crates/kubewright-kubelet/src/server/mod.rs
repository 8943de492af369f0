//! The network of a simulated cluster: kubelets and pods, as an API server reaches them.
//!
//! [`ClusterNetwork`] is a transport for requests with absolute URLs. `https://NODE:10250/…` is the
//! kubelet of a node, with the paths of a real one; `http://ADDRESS:PORT/…` is a pod. There are no
//! sockets: an API server in the same process sends its requests here, where kube-apiserver dials.
//! Authentication is left to it, as nobody else can connect.

mod command;
mod kubelet;
mod logs;
mod pod_network;
mod stats;
mod terminal;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use kubewright_api::core::v1::{Container, Node, Pod};
use kubewright_net::transport::{
    Body, ResponseFuture, Transport, TransportError, TransportErrorKind, Upgrade, UpgradeFuture,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::container_files::ContainerFiles;

/// Maximum number of sessions of exec, attach and port-forward at a time.
const SESSIONS_MAX: usize = 512;

/// Finds pods and nodes for the network.
pub trait ClusterView: Send + Sync + 'static {
    /// A pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>>;
    /// The pod with this address. Pods in the network of their node have none.
    fn pod_of_address(&self, address: &str) -> Option<Arc<Pod>>;
    /// The pods of a node.
    fn pods_of_node(&self, node: &str) -> Vec<Arc<Pod>>;
    /// A simulated node. `None` if it does not answer.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
    /// The factor by which a node is slow; 1 by default.
    fn slowdown(&self, node: &str) -> f64;
}

/// The simulated network. Clones share the sessions, and the files of containers.
#[derive(Clone)]
pub struct ClusterNetwork {
    shared: Arc<SharedNetwork>,
}

struct SharedNetwork {
    view: Box<dyn ClusterView>,
    files: Arc<ContainerFiles>,
    places: Arc<Semaphore>,
    sessions: Mutex<JoinSet<()>>,
}

impl ClusterNetwork {
    /// The network of this cluster, whose probes see the same files.
    pub fn new(view: impl ClusterView, files: Arc<ContainerFiles>) -> Self {
        let shared = SharedNetwork {
            view: Box::new(view),
            files,
            places: Arc::new(Semaphore::new(SESSIONS_MAX)),
            sessions: Mutex::default(),
        };
        ClusterNetwork { shared: Arc::new(shared) }
    }

    fn view(&self) -> &dyn ClusterView {
        &*self.shared.view
    }

    fn files(&self) -> &ContainerFiles {
        &self.shared.files
    }

    /// Runs a session until it ends. `false` if there are too many.
    fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) -> bool {
        let Ok(place) = Arc::clone(&self.shared.places).try_acquire_owned() else { return false };
        let mut sessions = self.shared.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        while sessions.try_join_next().is_some() {}
        sessions.spawn(async move {
            session.await;
            drop(place);
        });
        true
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Response<Body>, TransportError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        if is_address(&host) {
            return pod_network::answer(self, &host, &request);
        }
        let Some(node) = self.view().node(&host) else { return Err(unreachable(&request)) };
        Ok(kubelet::answer(self, &node, &request))
    }

    async fn switch(&self, request: Request<Bytes>) -> Result<Upgrade, TransportError> {
        let host = request.uri().host().unwrap_or_default();
        if is_address(host) {
            return self.answer(request).await.map(Upgrade::Refused);
        }
        if self.view().node(host).is_none() {
            return Err(unreachable(&request));
        }
        Ok(kubelet::upgrade(self, &request).unwrap_or_else(|response| Upgrade::Refused(*response)))
    }
}

impl Transport for ClusterNetwork {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let network = self.clone();
        Box::pin(async move { network.answer(request).await })
    }

    fn upgrade(&self, request: Request<Bytes>) -> UpgradeFuture {
        let network = self.clone();
        Box::pin(async move { network.switch(request).await })
    }
}

impl fmt::Debug for ClusterNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterNetwork")
    }
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
}

/// The error of a dial to a host that does not answer.
fn unreachable(request: &Request<Bytes>) -> TransportError {
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    TransportError::new(TransportErrorKind::Connect, format!("dial tcp {authority}: connect: no route to host"))
}

/// The error of a dial to a port on which nobody listens.
fn refused(authority: &str) -> TransportError {
    TransportError::new(TransportErrorKind::Connect, format!("dial tcp {authority}: connect: connection refused"))
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let chunk = std::iter::once(Ok(body.into()));
    let mut response = Response::new(Body::new(futures_util::stream::iter(chunk)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    respond(status, "text/plain; charset=utf-8", body)
}

/// The container of a pod, of any kind.
fn find_container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().chain(&spec.containers).find(|container| container.name == *name)
}
