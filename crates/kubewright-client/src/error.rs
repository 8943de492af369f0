//! Why a request failed, by what a caller can do about it.

use std::time::Duration;

use kubewright_core::DecodeError;
use kubewright_core::meta::v1::Status;
use kubewright_core::stream::{StreamError, Undecodable};

use crate::transport::{TransportError, TransportErrorKind};

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed.
///
/// What a caller can do is a question to it: [`is_conflict`](Self::is_conflict) asks for another read,
/// [`is_expired`](Self::is_expired) for a fresh list, [`is_retriable`](Self::is_retriable) for patience.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered that it will not do it.
    #[error("{0}")]
    Status(Box<Status>),
    /// The server was not reached, or was lost on the way.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server's answer is not what was asked for.
    #[error("cannot decode the answer of the server")]
    Decode(#[from] DecodeError),
    /// One object of a list or watch cannot be decoded. The stream continues behind it.
    #[error(transparent)]
    Undecodable(Box<Undecodable>),
    /// The request makes no sense and was not sent.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
}

/// Asks the same question of the server's answer, if it gave one.
macro_rules! questions {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        $($(#[$meta])* #[inline] pub fn $name(&self) -> bool {
            self.status().is_some_and(Status::$name)
        })*
    };
}

impl Error {
    /// The server's answer, if it gave one.
    #[doc(alias = "APIStatus")]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Status(status) => Some(status),
            _ => None,
        }
    }

    questions! {
        /// Whether the object or the resource does not exist.
        #[doc(alias = "IsNotFound")]
        is_not_found,
        /// Whether there is such an object already.
        #[doc(alias = "IsAlreadyExists")]
        is_already_exists,
        /// Whether the object was changed by somebody else meanwhile: read it again and retry.
        #[doc(alias = "IsConflict")]
        is_conflict,
        /// Whether the object breaks rules of its kind.
        #[doc(alias = "IsInvalid")]
        is_invalid,
        /// Whether the asked-for version is no longer remembered, so that only a fresh list helps.
        #[doc(alias = "IsResourceExpired")]
        #[doc(alias = "IsGone")]
        is_expired,
        /// Whether the server has not reached the asked-for version yet.
        #[doc(alias = "IsTooLargeResourceVersionError")]
        is_too_large_resource_version,
        /// Whether who asked may not do this.
        #[doc(alias = "IsForbidden")]
        is_forbidden,
        /// Whether the server does not know who asked.
        #[doc(alias = "IsUnauthorized")]
        is_unauthorized,
        /// Whether the server cannot understand the request.
        #[doc(alias = "IsBadRequest")]
        is_bad_request,
        /// Whether the resource is not served with this verb.
        #[doc(alias = "IsMethodNotSupported")]
        is_method_not_allowed,
        /// Whether the server cannot answer in any media type that was accepted.
        #[doc(alias = "IsNotAcceptable")]
        is_not_acceptable,
        /// Whether the server cannot read the media type of the body.
        #[doc(alias = "IsUnsupportedMediaType")]
        is_unsupported_media_type,
        /// Whether the server has too much to do.
        #[doc(alias = "IsTooManyRequests")]
        is_too_many_requests,
        /// Whether the body of the request is too large.
        #[doc(alias = "IsRequestEntityTooLargeError")]
        is_request_entity_too_large,
        /// Whether something broke within the server.
        #[doc(alias = "IsInternalError")]
        is_internal_error,
        /// Whether the server, or a part that it needs, is not there.
        #[doc(alias = "IsServiceUnavailable")]
        is_service_unavailable,
        /// Whether the server could not do it in time and asks to try again.
        #[doc(alias = "IsServerTimeout")]
        is_server_timeout,
    }

    /// Whether it took too long, by the server's word or by our clock; a write may still take effect.
    #[doc(alias = "IsTimeout")]
    #[inline]
    pub fn is_timeout(&self) -> bool {
        self.is_of(TransportErrorKind::Timeout) || self.status().is_some_and(Status::is_timeout)
    }

    /// Whether no connection came about: the server has not seen the request.
    #[doc(alias = "IsConnectionRefused")]
    #[inline]
    pub fn is_connection_refused(&self) -> bool {
        self.is_of(TransportErrorKind::Connect)
    }

    /// Whether the connection broke: the server may or may not have done its work.
    #[doc(alias = "IsConnectionReset")]
    #[doc(alias = "IsProbableEOF")]
    #[inline]
    pub fn is_disconnected(&self) -> bool {
        self.is_of(TransportErrorKind::Disconnected)
    }

    /// Whether the same request may succeed later, with nothing changed in it.
    ///
    /// True for a server that is busy, restarting, out of reach or not yet at the asked-for version; false for
    /// conflicts, which need another read first, and for all that only somebody else can mend. A request that is
    /// not idempotent may have been done already where [`is_disconnected`](Self::is_disconnected) or
    /// [`is_timeout`](Self::is_timeout) hold.
    #[inline]
    pub fn is_retriable(&self) -> bool {
        match self {
            Error::Status(status) => {
                self.retry_after().is_some()
                    || status.is_too_many_requests()
                    || status.is_server_timeout()
                    || status.is_timeout()
                    || status.is_internal_error()
                    || status.is_service_unavailable()
                    || status.code.is_some_and(|code| matches!(code, 500 | 502..=504))
            }
            Error::Transport(error) => matches!(
                error.kind(),
                TransportErrorKind::Connect | TransportErrorKind::Timeout | TransportErrorKind::Disconnected
            ),
            Error::Decode(_) | Error::Undecodable(_) | Error::InvalidRequest(_) => false,
        }
    }

    /// How long the server asks to wait before another try, if it does.
    #[doc(alias = "SuggestsClientDelay")]
    pub fn retry_after(&self) -> Option<Duration> {
        self.status().and_then(Status::retry_after)
    }

    fn is_of(&self, kind: TransportErrorKind) -> bool {
        matches!(self, Error::Transport(error) if error.kind() == kind)
    }
}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Undecodable(object) => Error::Undecodable(object),
            StreamError::Unreadable(error) => Error::Decode(error),
        }
    }
}

impl From<Box<Status>> for Error {
    #[inline]
    fn from(status: Box<Status>) -> Self {
        Error::Status(status)
    }
}

impl From<Status> for Error {
    #[inline]
    fn from(status: Status) -> Self {
        Error::Status(Box::new(status))
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::GroupResource;

    use super::*;

    #[test]
    fn what_may_succeed_later_is_retriable_and_the_rest_is_not() {
        let pods = GroupResource::from_static("", "pods");
        let broken = |kind| Error::from(TransportError::new(kind, "cut"));
        for (error, retriable) in [
            (Error::from(Status::too_many_requests("busy", 3)), true),
            (Status::service_unavailable("restarting").into(), true),
            (Status::too_large_resource_version(9, 7, 1).into(), true),
            (Status::internal("oops").into(), true),
            (Status::conflict(&pods, "web", "changed").into(), false),
            (Status::not_found(&pods, "web").into(), false),
            (Status::expired("too old").into(), false),
            (broken(TransportErrorKind::Connect), true),
            (broken(TransportErrorKind::Disconnected), true),
            (broken(TransportErrorKind::Tls), false),
            (broken(TransportErrorKind::Credentials), false),
            (Error::InvalidRequest("no name".into()), false),
        ] {
            assert_eq!(error.is_retriable(), retriable, "{error}");
        }
        let busy = Error::from(Status::too_many_requests("busy", 3));
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
    }
}
