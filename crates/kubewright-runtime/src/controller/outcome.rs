//! Outcomes of a reconcile.

use std::time::Duration;

use crate::error::BoxError;

/// The next step after a successful reconcile. An error is retried with back-off.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "Result")]
#[must_use]
pub enum Outcome {
    /// Done; reconciled again when something changes.
    #[doc(alias = "await_change")]
    Done,
    /// Done for now; reconcile again after this duration.
    RequeueAfter(Duration),
    /// Not done yet, without an error; retry with back-off.
    #[doc(alias = "Requeue")]
    BackOff,
    /// Cannot be done, for this reason. Not retried until something changes; shown in the
    /// controller's health.
    #[doc(alias = "TerminalError")]
    GiveUp(String),
}

impl Outcome {
    /// Reconcile again after this duration.
    pub fn requeue_after(delay: Duration) -> Self {
        Outcome::RequeueAfter(delay)
    }

    /// Give up for this reason.
    pub fn give_up(reason: impl Into<String>) -> Self {
        Outcome::GiveUp(reason.into())
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
