//! Outcomes of a successful reconcile.

use std::time::Duration;

use crate::error::BoxError;

/// The next step after a successful reconcile. After an error the key is retried: see
/// [`ReconcileError`](super::ReconcileError).
///
/// ```
/// # use kubewright_runtime::Outcome;
/// # use std::time::Duration;
/// let later = Outcome::requeue_after(Duration::from_secs(300)).priority(-10);
/// # assert_ne!(later, Outcome::Done);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "Result")]
#[must_use]
pub enum Outcome {
    /// Done; reconciled again when something changes.
    #[doc(alias = "await_change")]
    Done,
    /// Done for now; reconciled again without a change.
    Requeue {
        /// The delay; `None` for that of the rate limiter, which grows with each requeue.
        after: Option<Duration>,
        /// The priority; `None` for that of the current reconcile.
        priority: Option<i32>,
    },
}

impl Outcome {
    /// Reconcile again with back-off, without an error.
    #[doc(alias = "Requeue")]
    pub fn requeue() -> Self {
        Outcome::Requeue { after: None, priority: None }
    }

    /// Reconcile again after this duration.
    #[doc(alias = "RequeueAfter")]
    pub fn requeue_after(delay: Duration) -> Self {
        Outcome::Requeue { after: Some(delay), priority: None }
    }

    /// Sets the priority of a requeue; higher goes first. By default the key keeps its priority.
    ///
    /// [`Done`](Outcome::Done) is not requeued, and stays as it is.
    #[doc(alias = "Priority")]
    pub fn priority(self, priority: i32) -> Self {
        match self {
            Outcome::Done => Outcome::Done,
            Outcome::Requeue { after, .. } => Outcome::Requeue { after, priority: Some(priority) },
        }
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::Done
    }
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileFailure {
    #[error(transparent)]
    Error(BoxError),
    #[error("the reconcile took longer than {0:?}")]
    Timeout(Duration),
    #[error("the cache could not decode the newest state of the object")]
    Undecodable,
    #[error("the reconcile panicked: {0}")]
    Panic(String),
}
