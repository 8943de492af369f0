//! Manager errors.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use kubewright_cache::Unsynced;
use kubewright_core::Str;

use crate::controller::{BoxError, text_of};

/// Why a manager ended, or could not be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A name is used twice.
    #[error("a controller or task {name} already exists")]
    DuplicateName {
        /// The name.
        name: Str,
    },
    /// A controller or a task failed.
    #[error("{name} failed")]
    Failed {
        /// Its name.
        name: Str,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// Caches with indices did not sync in time.
    #[error("not synced within {timeout:?}: {}", text_of(.unsynced))]
    NotSynced {
        /// The time limit.
        timeout: Duration,
        /// The kinds that have not synced, each with its last failure.
        unsynced: Vec<Unsynced>,
    },
    /// The election ended without a leadership, so no controller was started.
    #[error("leader election ended without leadership")]
    NotElected,
    /// The lease could not be renewed. Unfinished work was dropped, since another process may lead
    /// by now.
    #[error("leader election lost")]
    LeadershipLost,
    /// Not everything stopped within the grace period; the rest was dropped.
    #[error("not everything had stopped {grace:?} after the shutdown")]
    GracePeriodOver {
        /// The grace period.
        grace: Duration,
    },
    /// Webhooks cannot be served.
    #[cfg(feature = "webhook")]
    #[error("webhooks cannot be served")]
    Webhook(#[from] crate::webhook::WebhookError),
    /// The certificate of the metrics is unusable.
    #[cfg(feature = "secure-metrics")]
    #[error("the certificate of the metrics is not usable")]
    Certificate(#[source] crate::https::ServingCertificateError),
    /// The address of the endpoints cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
}
