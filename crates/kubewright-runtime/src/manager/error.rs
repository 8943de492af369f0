//! Errors of a manager.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kubewright_cache::Unsynced;
use kubewright_core::Str;

use crate::controller::{BoxError, text_of};

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
    /// Caches that have indices were not complete in time.
    #[error("not synced within {timeout:?}: {}", text_of(.unsynced))]
    NotSynced {
        /// How long was waited.
        timeout: Duration,
        /// The kinds that have not synced, each with its last failure.
        unsynced: Vec<Unsynced>,
    },
    /// The election ended without making this process the leader, so that no controller was
    /// started.
    #[error("leader election ended without a leader")]
    NotElected,
    /// The lease could not be renewed. Unfinished work was dropped, since another process may lead
    /// by now.
    #[error("leader election lost")]
    LeadershipLost,
    /// Not everything had stopped within the grace period; the rest was dropped.
    #[error("not everything had stopped {grace:?} after the shutdown")]
    GracePeriodOver {
        /// The grace period.
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
