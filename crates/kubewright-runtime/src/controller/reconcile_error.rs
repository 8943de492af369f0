//! Errors that say when their key is retried.
//!
//! A reconciler returns any error with `?`, and its key is retried with back-off. Three sources
//! decide differently, the first that applies wins:
//!
//! 1. A [`ReconcileError`] in the chain of sources, so a library can decide below the reconciler.
//!    controller-runtime has this for `TerminalError` only.
//! 2. The [`error_policy`](crate::Controller::error_policy) of the controller. kube-rs requires
//!    one; here it is optional.
//! 3. Back-off by the rate limiter.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::outcome::ReconcileFailure;
use crate::error::BoxError;
use crate::unwind::caught;

/// The treatment of a key after a failed reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorAction {
    /// Retried when the rate limiter allows it. The default.
    #[default]
    BackOff,
    /// Retried after this duration. The failure does not count for the rate limiter.
    RetryAfter(Duration),
    /// Not retried until something changes. Shown in the health of the controller.
    Terminal,
}

/// An error that says when its key is retried. Created from any error, often by [`ResultExt`].
#[doc(alias = "TerminalError")]
pub struct ReconcileError {
    action: ErrorAction,
    error: BoxError,
}

impl ReconcileError {
    /// An error that retries cannot repair: the key waits until something changes.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        ReconcileError { action: ErrorAction::Terminal, error: error.into() }
    }

    /// An error whose key is retried after `delay`.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        ReconcileError { action: ErrorAction::RetryAfter(delay), error: error.into() }
    }

    /// An error whose key is retried with back-off, whatever the error policy says.
    pub fn back_off(error: impl Into<BoxError>) -> Self {
        ReconcileError { action: ErrorAction::BackOff, error: error.into() }
    }

    /// The treatment of the key.
    pub fn action(&self) -> ErrorAction {
        self.action
    }
}

/// Says when a key is retried, on the way through `?`.
///
/// ```
/// use kubewright_runtime::{BoxError, Outcome, ResultExt};
/// use std::time::Duration;
///
/// fn reconcile(replicas: &str) -> Result<Outcome, BoxError> {
///     let replicas: u32 = replicas.parse().terminal()?;
///     std::fs::read("/etc/hosts").retry_after(Duration::from_secs(60))?;
///     Ok(if replicas > 0 { Outcome::Done } else { Outcome::requeue() })
/// }
/// assert!(reconcile("many").is_err());
/// ```
pub trait ResultExt<T>: Sized {
    /// Retries cannot repair the error: the key waits until something changes.
    ///
    /// # Errors
    /// The error of `self`.
    #[doc(alias = "TerminalError")]
    fn terminal(self) -> Result<T, ReconcileError>;

    /// After an error, the key is retried after `delay`.
    ///
    /// # Errors
    /// The error of `self`.
    fn retry_after(self, delay: Duration) -> Result<T, ReconcileError>;

    /// After an error, the key is retried with back-off, whatever the error policy says.
    ///
    /// # Errors
    /// The error of `self`.
    fn back_off(self) -> Result<T, ReconcileError>;
}

impl<T, E: Into<BoxError>> ResultExt<T> for Result<T, E> {
    fn terminal(self) -> Result<T, ReconcileError> {
        self.map_err(ReconcileError::terminal)
    }

    fn retry_after(self, delay: Duration) -> Result<T, ReconcileError> {
        self.map_err(|error| ReconcileError::retry_after(delay, error))
    }

    fn back_off(self) -> Result<T, ReconcileError> {
        self.map_err(ReconcileError::back_off)
    }
}

/// Decides about errors that do not decide themselves.
pub(super) type ErrorPolicy = Arc<dyn Fn(&BoxError, &Context) -> ErrorAction + Send + Sync>;

/// The treatment of the key after this failure.
pub(super) fn action_after(
    failure: &ReconcileFailure,
    policy: Option<&ErrorPolicy>,
    context: Option<&Context>,
) -> ErrorAction {
    let ReconcileFailure::Error(error) = failure else { return ErrorAction::BackOff };
    if let Some(action) = action_in(&**error) {
        return action;
    }
    let Some((policy, context)) = policy.zip(context) else { return ErrorAction::BackOff };
    caught(|| policy(error, context)).unwrap_or_else(|panic| {
        tracing::error!(key = %context.key(), panic, "the error policy panicked");
        ErrorAction::BackOff
    })
}

/// The action of the outermost [`ReconcileError`] in the chain.
fn action_in(error: &(dyn Error + 'static)) -> Option<ErrorAction> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<ReconcileError>() {
            return Some(error.action);
        }
        next = error.source();
    }
    None
}

// Prints as the error that it contains, so that a chain says everything once.
impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError").field("action", &self.action).field("error", &self.error).finish()
    }
}

impl Error for ReconcileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot call the provider")]
    struct Provider(#[source] ReconcileError);

    #[test]
    fn the_outermost_decision_in_the_chain_counts() {
        let terminal = || ReconcileError::terminal("the name is taken");
        assert_eq!(action_in(&Provider(terminal())), Some(ErrorAction::Terminal));
        assert_eq!(action_in(&ReconcileError::back_off(Provider(terminal()))), Some(ErrorAction::BackOff));
        assert_eq!(action_in(&std::io::Error::other("broken")), None);
    }

    #[test]
    fn a_decision_changes_neither_message_nor_causes() {
        let error: BoxError =
            ReconcileError::retry_after(Duration::ZERO, Provider(ReconcileError::terminal("no"))).into();
        assert_eq!(crate::error::chain(&*error), "cannot call the provider: no");
    }
}
