//! How a reconcile ended, by what is to happen next.

use std::time::Duration;

/// What is to happen after a reconcile that did not fail. An error is tried again with back-off.
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "Result")]
#[must_use]
pub enum Outcome {
    /// All is as it should be; nothing happens until something changes.
    #[doc(alias = "await_change")]
    Done,
    /// All is as it should be for now; look again after so long.
    RequeueAfter(Duration),
    /// Not done yet, without anything being wrong; try again with the back-off of errors.
    #[doc(alias = "Requeue")]
    BackOff,
    /// It cannot be done, for this reason. Not tried again until something changes; shown in the health of the controller.
    #[doc(alias = "TerminalError")]
    GiveUp(String),
}

impl Outcome {
    /// Looks again after so long.
    pub fn requeue_after(delay: Duration) -> Self {
        Outcome::RequeueAfter(delay)
    }

    /// Gives up for this reason.
    pub fn give_up(reason: impl Into<String>) -> Self {
        Outcome::GiveUp(reason.into())
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::Done
    }
}

/// What reconcilers may return as errors: anything that can be shown.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a reconcile went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Error(BoxError),
    #[error("the reconcile took longer than {0:?}")]
    Timeout(Duration),
    #[error("the cache could not decode the newest state of the object")]
    Undecodable,
    #[error("the reconcile panicked: {0}")]
    Panic(String),
}
