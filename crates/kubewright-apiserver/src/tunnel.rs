//! Connections that take over those of clients after an upgrade.

use std::sync::{Arc, Mutex, PoisonError};

use kubewright_net::transport::Upgraded;

/// The place of a request for a connection to a kubelet or pod. The connection of the client copies
/// its bytes after the response.
#[derive(Clone, Default)]
pub(crate) struct Tunnel(Arc<Mutex<Option<Upgraded>>>);

impl Tunnel {
    pub(crate) fn put(&self, stream: Upgraded) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }

    pub(crate) fn take(&self) -> Option<Upgraded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
