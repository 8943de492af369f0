//! What a reflector meets that somebody may want to know of.

use kubewright_client::Error;
use kubewright_core::stream::Undecodable;
use kubewright_core::{ObjectKey, ResourceVersion};

use super::backoff::Failure;
use crate::queue::TransformError;

/// An error of a reflector. The reflector continues in any case: it tries again, or skips an
/// object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReflectorError {
    /// Objects cannot be listed.
    #[error("cannot list")]
    List(#[source] Error),
    /// Objects cannot be watched: a watch was refused, ended with an ERROR event, broke, or cannot
    /// be read.
    #[error("cannot watch")]
    Watch(#[source] Error),
    /// A watch ended in less than a second and brought nothing.
    #[error("very short watch: it ended unexpectedly without events")]
    #[doc(alias = "VeryShortWatchError")]
    VeryShortWatch,
    /// An object cannot be decoded. Its last good state stays in the cache until it can be, or is
    /// deleted.
    #[error(transparent)]
    Undecodable(Box<Undecodable>),
    /// An object is not of the kind that was asked for, or has no name, and is skipped.
    #[error("unexpected object {key} of kind {kind}")]
    Unexpected {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
    },
    /// A bookmark is not of the kind that was asked for, and is skipped.
    #[error("unexpected bookmark of kind {kind}")]
    UnexpectedBookmark {
        /// Its kind.
        kind: String,
    },
    /// A streaming list and a plain one of the same version differ, which is a fault of the server.
    #[error("a streaming list at version {version} differs from a plain one, in {key} for example")]
    Inconsistent {
        /// An object in which they differ.
        key: ObjectKey,
        /// The version of both.
        version: ResourceVersion,
    },
    /// An object cannot be transformed. Its last good state stays in the cache until it can be, or
    /// is deleted.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

impl ReflectorError {
    /// Whether the resource does not exist, or not any more.
    pub fn is_not_found(&self) -> bool {
        matches!(self, ReflectorError::List(error) | ReflectorError::Watch(error) if error.is_not_found())
    }

    /// Whether the user may not list or watch.
    #[inline]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, ReflectorError::List(error) | ReflectorError::Watch(error) if error.is_forbidden())
    }

    pub(super) fn is_expired_watch(&self) -> bool {
        matches!(self, ReflectorError::Watch(error) if error.is_expired())
    }

    /// The kind of failure, which bounds the delay before the next try.
    pub(super) fn failure(&self) -> Failure {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) => failure_of(error),
            _ => Failure::Refused,
        }
    }

    pub(super) fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            ReflectorError::List(error) | ReflectorError::Watch(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// Whether the server cannot be reached or fails, or refuses.
pub(super) fn failure_of(error: &Error) -> Failure {
    let is_unavailable = match error {
        Error::Transport(_) => true,
        error => error.is_retriable() && !error.is_too_many_requests(),
    };
    if is_unavailable { Failure::Unavailable } else { Failure::Refused }
}
