//! What callers ask of a failure.

use std::time::Duration;

use super::{CauseType, StatusReason};
use crate::meta::v1::{Status, StatusCause};

/// The text by which servers before cause types told that they have not reached a version.
const TOO_LARGE_RESOURCE_VERSION: &str = "Too large resource version";

/// Questions about a failure.
///
/// The reason counts; the HTTP code does only where no known reason is given.
impl Status {
    /// Whether it tells of a failure at all; a deletion, for example, is answered with a success.
    #[inline]
    pub fn is_failure(&self) -> bool {
        self.status.as_deref() == Some("Failure")
    }

    /// The reason it gives, or `Unknown`.
    #[doc(alias = "ReasonForError")]
    #[inline]
    pub fn status_reason(&self) -> StatusReason {
        self.reason.as_deref().map_or(StatusReason::Unknown, StatusReason::from)
    }

    /// There is no such object or resource.
    #[inline]
    pub fn is_not_found(&self) -> bool {
        self.is(StatusReason::NotFound)
    }

    /// There is such an object already.
    #[inline]
    pub fn is_already_exists(&self) -> bool {
        self.status_reason() == StatusReason::AlreadyExists
    }

    /// The object is not in the state that the request assumed: read it again and retry.
    #[inline]
    pub fn is_conflict(&self) -> bool {
        self.is(StatusReason::Conflict)
    }

    /// The object breaks rules of its kind.
    #[inline]
    pub fn is_invalid(&self) -> bool {
        self.is(StatusReason::Invalid)
    }

    /// The asked version is no longer remembered, whether the server says `Expired` or `Gone`: list afresh.
    #[doc(alias = "IsResourceExpired")]
    #[doc(alias = "IsGone")]
    #[inline]
    pub fn is_expired(&self) -> bool {
        self.status_reason() == StatusReason::Expired || self.is(StatusReason::Gone)
    }

    /// Who asked may not do this.
    #[inline]
    pub fn is_forbidden(&self) -> bool {
        self.is(StatusReason::Forbidden)
    }

    /// The server does not know who asked.
    #[inline]
    pub fn is_unauthorized(&self) -> bool {
        self.is(StatusReason::Unauthorized)
    }

    /// The request cannot be understood.
    #[inline]
    pub fn is_bad_request(&self) -> bool {
        self.is(StatusReason::BadRequest)
    }

    /// The resource is not served with this verb.
    #[doc(alias = "IsMethodNotSupported")]
    #[inline]
    pub fn is_method_not_allowed(&self) -> bool {
        self.is(StatusReason::MethodNotAllowed)
    }

    /// The server cannot answer in any media type that the client accepts.
    #[inline]
    pub fn is_not_acceptable(&self) -> bool {
        self.is(StatusReason::NotAcceptable)
    }

    /// The server cannot read the body's media type.
    #[inline]
    pub fn is_unsupported_media_type(&self) -> bool {
        self.is(StatusReason::UnsupportedMediaType)
    }

    /// The request took too long, and may still take effect.
    #[inline]
    pub fn is_timeout(&self) -> bool {
        self.is(StatusReason::Timeout)
    }

    /// The server could not do it in time and asks to try again. No HTTP code says so by itself.
    #[inline]
    pub fn is_server_timeout(&self) -> bool {
        self.status_reason() == StatusReason::ServerTimeout
    }

    /// The server has too much to do, by its reason or by code 429 whatever the reason.
    #[inline]
    pub fn is_too_many_requests(&self) -> bool {
        self.status_reason() == StatusReason::TooManyRequests || self.code == Some(429)
    }

    /// The body of the request is too large, by its reason or by code 413 whatever the reason.
    #[doc(alias = "IsRequestEntityTooLargeError")]
    #[inline]
    pub fn is_request_entity_too_large(&self) -> bool {
        self.status_reason() == StatusReason::RequestEntityTooLarge || self.code == Some(413)
    }

    /// Something broke within the server.
    #[inline]
    pub fn is_internal_error(&self) -> bool {
        self.is(StatusReason::InternalError)
    }

    /// The server, or a part that it needs, is not there.
    #[inline]
    pub fn is_service_unavailable(&self) -> bool {
        self.is(StatusReason::ServiceUnavailable)
    }

    /// The answer was not of the API; something between client and server may have given it.
    #[inline]
    pub fn is_unexpected_server_error(&self) -> bool {
        self.has_cause(CauseType::UnexpectedServerResponse)
    }

    /// The server has not reached the asked version yet, in the words of any server generation.
    ///
    /// Newer servers name the cause, those before them put the text in a cause of a timeout, and the
    /// oldest only in the message.
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

    /// How long the server asks to wait; zero where it asks to retry and does not say when.
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

    /// Whether a cause of this type is given.
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

    /// All causes that are given.
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
