//! The handle that all clients stand on.

use std::fmt;
use std::sync::Arc;

use crate::transport::Transport;

/// A way to one API server. A handle: clones share connections, limits and credentials.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Box<dyn Transport>,
    default_namespace: String,
}

impl Client {
    /// A client over `transport`, whose default namespace is `default`.
    pub fn over(transport: impl Transport) -> Self {
        Client { shared: Arc::new(Shared { transport: Box::new(transport), default_namespace: "default".to_owned() }) }
    }

    /// What carries the requests.
    pub fn transport(&self) -> &dyn Transport {
        &*self.shared.transport
    }

    /// The namespace of requests that name none: the one of the kubeconfig's context, or of the pod.
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("default_namespace", &self.shared.default_namespace).finish_non_exhaustive()
    }
}
