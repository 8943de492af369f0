//! Request errors.

use std::time::Duration;

use kubewright_core::DecodeError;
use kubewright_core::meta::v1::Status;
use kubewright_core::stream::{StreamError, Undecodable};

use kubewright_net::config::ConfigError;
use kubewright_net::transport::{TransportError, TransportErrorKind};

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed.
///
/// Predicates tell how to react: [`is_conflict`](Self::is_conflict) requires another read,
/// [`is_expired`](Self::is_expired) another list, [`is_retriable`](Self::is_retriable) a retry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server rejected the request.
    #[error("{0}")]
    Status(Box<Status>),
    /// The server was unreachable, or the connection was lost.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The response cannot be decoded.
    #[error("cannot decode the answer of the server")]
    Decode(#[from] DecodeError),
    /// One object of a list or watch cannot be decoded. The stream continues after it.
    #[error(transparent)]
    Undecodable(Box<Undecodable>),
    /// The request is invalid and was not sent.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// There is no client, because its configuration is missing or invalid.
    #[error(transparent)]
    Config(Box<ConfigError>),
}

/// Forwards a predicate to the status, if there is one.
macro_rules! questions {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        $($(#[$meta])* #[inline] pub fn $name(&self) -> bool {
            self.status().is_some_and(Status::$name)
        })*
    };
}

impl Error {
    /// The server's status, if there is one.
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
        /// Whether the object already exists.
        #[doc(alias = "IsAlreadyExists")]
        is_already_exists,
        /// Whether the object has changed: read it again and retry.
        #[doc(alias = "IsConflict")]
        is_conflict,
        /// Whether the object is invalid.
        #[doc(alias = "IsInvalid")]
        is_invalid,
        /// Whether the requested version has expired, so that a new list is required.
        #[doc(alias = "IsResourceExpired")]
        #[doc(alias = "IsGone")]
        is_expired,
        /// Whether the server has not reached the requested version yet.
        #[doc(alias = "IsTooLargeResourceVersionError")]
        is_too_large_resource_version,
        /// Whether the requester lacks permission.
        #[doc(alias = "IsForbidden")]
        is_forbidden,
        /// Whether the requester is not authenticated.
        #[doc(alias = "IsUnauthorized")]
        is_unauthorized,
        /// Whether the request is malformed.
        #[doc(alias = "IsBadRequest")]
        is_bad_request,
        /// Whether the resource does not support this verb.
        #[doc(alias = "IsMethodNotSupported")]
        is_method_not_allowed,
        /// Whether the server supports none of the accepted media types.
        #[doc(alias = "IsNotAcceptable")]
        is_not_acceptable,
        /// Whether the server does not support the media type of the body.
        #[doc(alias = "IsUnsupportedMediaType")]
        is_unsupported_media_type,
        /// Whether the server is overloaded.
        #[doc(alias = "IsTooManyRequests")]
        is_too_many_requests,
        /// Whether the request body is too large.
        #[doc(alias = "IsRequestEntityTooLargeError")]
        is_request_entity_too_large,
        /// Whether this is an internal server error.
        #[doc(alias = "IsInternalError")]
        is_internal_error,
        /// Whether the server, or a dependency of it, is unavailable.
        #[doc(alias = "IsServiceUnavailable")]
        is_service_unavailable,
        /// Whether the server timed out and asks for a retry.
        #[doc(alias = "IsServerTimeout")]
        is_server_timeout,
    }

    /// Whether it timed out, at the server or locally; a write may still take effect.
    #[doc(alias = "IsTimeout")]
    #[inline]
    pub fn is_timeout(&self) -> bool {
        self.is_of(TransportErrorKind::Timeout) || self.status().is_some_and(Status::is_timeout)
    }

    /// Whether no connection was established: the server has not seen the request.
    #[doc(alias = "IsConnectionRefused")]
    #[inline]
    pub fn is_connection_refused(&self) -> bool {
        self.is_of(TransportErrorKind::Connect)
    }

    /// Whether the connection broke: the server may or may not have processed the request.
    #[doc(alias = "IsConnectionReset")]
    #[doc(alias = "IsProbableEOF")]
    #[inline]
    pub fn is_disconnected(&self) -> bool {
        self.is_of(TransportErrorKind::Disconnected)
    }

    /// Whether the same request may succeed later, with nothing changed in it.
    ///
    /// True for a server that is overloaded, restarting, unreachable or not yet at the requested
    /// version; false for conflicts, which need another read first, and for permanent errors. A
    /// request that is not idempotent may already have been processed if
    /// [`is_disconnected`](Self::is_disconnected) or
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
            Error::Decode(_) | Error::Undecodable(_) | Error::InvalidRequest(_) | Error::Config(_) => false,
        }
    }

    /// The server's Retry-After, if there is one.
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

/// So that a function that creates a client and sends requests returns one error type.
impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Error::Config(Box::new(error))
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
    fn only_transient_errors_are_retriable() {
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
            (ConfigError::Empty.into(), false),
        ] {
            assert_eq!(error.is_retriable(), retriable, "{error}");
        }
        let busy = Error::from(Status::too_many_requests("busy", 3));
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
    }
}
