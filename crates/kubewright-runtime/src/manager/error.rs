//! Why a manager ended without being told to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kubewright_core::Str;

use crate::controller::BoxError;

/// Why a manager ended, or could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// Two controllers or tasks have one name.
    #[error("there is a controller or task {name} already")]
    DuplicateName {
        /// The name.
        name: Str,
    },
    /// A controller or a task failed.
    #[error("{name} failed")]
    Failed {
        /// Which.
        name: Str,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The lease could not be renewed. What was in hand was dropped, since somebody else may act by now.
    #[error("leader election lost")]
    LeadershipLost,
    /// What was in hand was not finished in time, and dropped.
    #[error("not all work had ended {grace:?} after the shutdown")]
    GracePeriodOver {
        /// How long was waited.
        grace: Duration,
    },
    /// Webhooks cannot be served.
    #[cfg(feature = "webhook")]
    #[error("webhooks cannot be served")]
    Webhook(#[from] crate::webhook::WebhookError),
    /// The address of the endpoints is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
