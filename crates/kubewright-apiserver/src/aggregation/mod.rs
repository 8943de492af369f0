//! The aggregation layer: APIServices, and API servers that answer part of the requests.
//!
//! As in kube-apiserver, each served group version has an APIService (`registration`). One with a
//! Service belongs to another API server: its health is checked (`availability`), and requests for
//! the group version are forwarded to it with the identity of the caller (`forwarding`). A single
//! task follows the objects (`controller`).
//!
//! Not forwarded are upgrades (`exec`), and OpenAPI documents of such servers are not merged.

mod availability;
mod backend;
mod controller;
mod forwarding;
mod front_proxy;
mod registration;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use kubewright_core::Str;
use kubewright_net::transport::Transport;
use kubewright_resources::discovery::RemoteVersion;

use backend::Backend;
pub(crate) use backend::endpoint_of;
pub(crate) use controller::run;
pub(crate) use forwarding::answer;
pub(crate) use front_proxy::FrontProxy;
pub(crate) use registration::register_all;

/// The storage name of APIServices.
const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";

/// The aggregated API servers, by the names of their APIServices (`VERSION.GROUP`).
#[derive(Default)]
pub(crate) struct Aggregation {
    servers: RwLock<Arc<BTreeMap<Str, Arc<AggregatedServer>>>>,
}

/// An aggregated API server, as of its last check.
struct AggregatedServer {
    backend: Backend,
    /// `None` while it is unavailable.
    connection: Option<Connection>,
    version: RemoteVersion,
}

/// Connections to a server.
#[derive(Clone)]
struct Connection {
    /// Host and port.
    authority: String,
    transport: Arc<dyn Transport>,
}

impl AggregatedServer {
    /// A server before its first check.
    fn unchecked(backend: &Backend) -> Self {
        let version = RemoteVersion { group: backend.group.clone(), version: backend.version.clone(), resources: None };
        AggregatedServer { backend: backend.clone(), connection: None, version }
    }
}

impl Aggregation {
    /// The server that answers requests for this path, if it is not this one.
    fn find(&self, path: &str) -> Option<Arc<AggregatedServer>> {
        let servers = self.servers();
        if servers.is_empty() {
            return None;
        }
        let mut parts = path.strip_prefix("/apis/")?.split('/');
        let (group, version) = (parts.next()?, parts.next()?);
        servers.get(format!("{version}.{group}").as_str()).cloned()
    }

    fn servers(&self) -> Arc<BTreeMap<Str, Arc<AggregatedServer>>> {
        Arc::clone(&self.servers.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, servers: BTreeMap<Str, Arc<AggregatedServer>>) {
        *self.servers.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(servers);
    }
}
