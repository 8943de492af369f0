//! Errors that a reflector reports.

use kubewright_client::Error;
use kubewright_core::stream::Undecodable;
use kubewright_core::{ObjectKey, ResourceVersion};

use super::backoff::FailureKind;
use crate::queue::TransformError;

/// An error of a reflector. The reflector always continues: it retries, or skips an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// A list failed.
    #[error("cannot list")]
    List(#[source] Error),
    /// A watch was refused, ended with an ERROR event, lost its connection, or is unreadable.
    #[error("cannot watch")]
    Watch(#[source] Error),
    /// A watch ended in less than a second without events.
    #[error("very short watch: it ended unexpectedly without events")]
    #[doc(alias = "VeryShortWatchError")]
    VeryShortWatch,
    /// An object cannot be decoded. Its last good state stays in the cache until it can be decoded
    /// or is deleted.
    #[error(transparent)]
    Undecodable(Box<Undecodable>),
    /// An object has an unexpected kind or no name, and is skipped.
    #[error("unexpected object {key} of kind {kind}")]
    Unexpected {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
    },
    /// A bookmark has an unexpected kind and is skipped.
    #[error("unexpected bookmark of kind {kind}")]
    UnexpectedBookmark {
        /// Its kind.
        kind: String,
    },
    /// A streaming list and a plain list of the same version differ, which is a server bug.
    #[error("a streaming list at version {version} differs from a plain one, in {key} for example")]
    Inconsistent {
        /// An object in which they differ.
        key: ObjectKey,
        /// The version of both.
        version: ResourceVersion,
    },
    /// An object cannot be transformed. Its last good state stays in the cache until it can be
    /// transformed or is deleted.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

impl ReflectorError {
    /// Whether the resource does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        matches!(self, ReflectorError::List(error) | ReflectorError::Watch(error) if error.is_not_found())
    }

    /// Whether the user lacks permission to list or watch.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, ReflectorError::List(error) | ReflectorError::Watch(error) if error.is_forbidden())
    }

    pub(super) fn is_expired_watch(&self) -> bool {
        matches!(self, ReflectorError::Watch(error) if error.is_expired())
    }

    /// The kind of failure, which bounds the back-off.
    pub(super) fn failure(&self) -> FailureKind {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) => failure_of(error),
            _ => FailureKind::Refused,
        }
    }

    pub(super) fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// Classifies a failure for the back-off.
pub(super) fn failure_of(error: &Error) -> FailureKind {
    let is_unavailable = match error {
        Error::Transport(_) => true,
        error => error.is_retriable() && !error.is_too_many_requests(),
    };
    if is_unavailable { FailureKind::Unavailable } else { FailureKind::Refused }
}
