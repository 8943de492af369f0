//! Predicates on a failure.

use std::time::Duration;

use super::{CauseType, StatusReason};
use crate::meta::v1::{Status, StatusCause};

/// The message of servers without cause types for a version that they have not reached.
const TOO_LARGE_RESOURCE_VERSION: &str = "Too large resource version";

/// Predicates on a failure.
///
/// The reason decides; the HTTP code only if there is no known reason.
impl Status {
    /// Whether it is a failure; a deletion, for example, returns a success.
    #[inline]
    pub fn is_failure(&self) -> bool {
        self.status.as_deref() == Some("Failure")
    }

    /// Its reason, or `Unknown`.
    #[doc(alias = "ReasonForError")]
    #[inline]
    pub fn status_reason(&self) -> StatusReason {
        self.reason.as_deref().map_or(StatusReason::Unknown, StatusReason::from)
    }

    /// The object or resource does not exist.
    #[inline]
    pub fn is_not_found(&self) -> bool {
        self.is(StatusReason::NotFound)
    }

    /// The object already exists.
    #[inline]
    pub fn is_already_exists(&self) -> bool {
        self.status_reason() == StatusReason::AlreadyExists
    }

    /// The object is not in the state that the request assumed: read it again and retry.
    #[inline]
    pub fn is_conflict(&self) -> bool {
        self.is(StatusReason::Conflict)
    }

    /// The object is invalid.
    #[inline]
    pub fn is_invalid(&self) -> bool {
        self.is(StatusReason::Invalid)
    }

    /// The requested version has expired, reported as `Expired` or `Gone`: list again.
    #[doc(alias = "IsResourceExpired")]
    #[doc(alias = "IsGone")]
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.status_reason() == StatusReason::Expired || self.is(StatusReason::Gone)
    }

    /// The requester lacks permission.
    #[inline]
    pub fn is_forbidden(&self) -> bool {
        self.is(StatusReason::Forbidden)
    }

    /// The requester is not authenticated.
    #[inline]
    pub fn is_unauthorized(&self) -> bool {
        self.is(StatusReason::Unauthorized)
    }

    /// The request is malformed.
    #[inline]
    pub fn is_bad_request(&self) -> bool {
        self.is(StatusReason::BadRequest)
    }

    /// The resource does not support this verb.
    #[doc(alias = "IsMethodNotSupported")]
    #[inline]
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(StatusReason::MethodNotAllowed)
    }

    /// The server supports no media type that the client accepts.
    #[inline]
    pub fn is_not_acceptable(&self) -> bool {
        self.is(StatusReason::NotAcceptable)
    }

    /// The server does not support the body's media type.
    #[inline]
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(StatusReason::UnsupportedMediaType)
    }

    /// The request timed out, and may still take effect.
    #[inline]
    pub fn is_timeout(&self) -> bool {
        self.is(StatusReason::Timeout)
    }

    /// The server timed out and asks for a retry. No HTTP code implies this.
    #[inline]
    pub fn is_server_timeout(&self) -> bool {
        self.status_reason() == StatusReason::ServerTimeout
    }

    /// The server is overloaded, by reason or by code 429.
    #[inline]
    pub fn is_too_many_requests(&self) -> bool {
        self.status_reason() == StatusReason::TooManyRequests || self.code == Some(429)
    }

    /// The request body is too large, by reason or by code 413.
    #[doc(alias = "IsRequestEntityTooLargeError")]
    #[inline]
    pub fn is_request_entity_too_large(&self) -> bool {
        self.status_reason() == StatusReason::RequestEntityTooLarge || self.code == Some(413)
    }

    /// An internal server error.
    #[inline]
    pub fn is_internal_error(&self) -> bool {
        self.is(StatusReason::InternalError)
    }

    /// The server, or a dependency of it, is unavailable.
    #[inline]
    pub fn is_service_unavailable(&self) -> bool {
        self.is(StatusReason::ServiceUnavailable)
    }

    /// The response was not an API status; a proxy may have sent it.
    #[inline]
    pub fn is_unexpected_server_error(&self) -> bool {
        self.has_cause(CauseType::UnexpectedServerResponse)
    }

    /// The server has not reached the requested version yet, as reported by any server version.
    ///
    /// Newer servers have a cause type, older ones a cause message in a timeout, and the oldest
    /// only the message.
    #[doc(alias = "IsTooLargeResourceVersion")]
    #[inline]
    pub fn is_too_large_resource_version(&self) -> bool {
        if self.has_cause(CauseType::ResourceVersionTooLarge) {
            return true;
        }
        let says_so = |text: &str| text.contains(TOO_LARGE_RESOURCE_VERSION);
        self.is_timeout()
            && (self.causes().iter().any(|cause| cause.message.as_deref() == Some(TOO_LARGE_RESOURCE_VERSION))
                || self.message.as_deref().is_some_and(says_so))
    }

    /// The server's Retry-After; zero if it asks for a retry without a delay.
    #[doc(alias = "SuggestsClientDelay")]
    #[inline]
    pub fn retry_after(&self) -> Option<Duration> {
        let details = self.details.as_ref()?;
        match details.retry_after_seconds.unwrap_or(0) {
            seconds if seconds > 0 => Some(Duration::from_secs(seconds.unsigned_abs().into())),
            _ if self.is_server_timeout() => Some(Duration::ZERO),
            _ => None,
        }
    }

    /// Whether it has a cause of this type.
    #[doc(alias = "HasStatusCause")]
    #[inline]
    pub fn has_cause(&self, cause: CauseType) -> bool {
        self.cause(cause).is_some()
    }

    /// The first cause of this type.
    #[doc(alias = "StatusCause")]
    #[inline]
    pub fn cause(&self, cause: CauseType) -> Option<&StatusCause> {
        self.causes().iter().find(|one| one.reason.as_deref() == Some(cause.as_str()))
    }

    /// All causes.
    #[inline]
    pub fn causes(&self) -> &[StatusCause] {
        self.details.as_ref().map_or(&[], |details| &details.causes)
    }

    #[inline]
    fn is(&self, reason: StatusReason) -> bool {
        match self.status_reason() {
            StatusReason::Unknown => self.code == Some(reason.code()),
            given => given == reason,
        }
    }
}
