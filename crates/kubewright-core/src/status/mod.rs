//! `Status`: the response without an object, and the error of failed requests.

mod cause;
mod predicates;
mod reason;

use std::{error::Error, fmt};

pub use cause::CauseType;
pub use reason::StatusReason;

use crate::meta::v1::{Status, StatusCause, StatusDetails};
use crate::names::quote::Quoted;
use crate::{GroupKind, GroupResource, List, Str};

/// Maximum number of listed causes. An array in a request can have a hundred thousand invalid
/// items.
const MAX_CAUSES: usize = 100;

/// Constructors of common failures with the server's messages.
///
/// ```
/// use kubewright_core::{GroupResource, meta::v1::Status};
/// let missing = Status::not_found(&GroupResource::new("apps", "deployments"), "web");
/// assert_eq!(missing.to_string(), "deployments.apps \"web\" not found");
/// assert!(missing.is_not_found());
/// ```
impl Status {
    /// The response to a successful request without an object, such as a deletion.
    #[inline]
    pub fn success() -> Self {
        Status { status: Some(Str::from_static("Success")), ..Default::default() }
    }

    /// A failure with this reason and its HTTP code, without details.
    pub fn failure(reason: StatusReason, message: impl Into<Str>) -> Self {
        Status {
            status: Some(Str::from_static("Failure")),
            message: Some(message.into()),
            reason: (!reason.as_str().is_empty()).then(|| Str::from(reason.as_str())),
            code: Some(reason.code()),
            ..Default::default()
        }
    }

    /// 404: the object does not exist.
    #[doc(alias = "NewNotFound")]
    #[inline]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", Quoted(name));
        Status::failure(StatusReason::NotFound, message).about(resource, name)
    }

    /// 409: the object already exists.
    #[doc(alias = "NewAlreadyExists")]
    #[inline]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", Quoted(name));
        Status::failure(StatusReason::AlreadyExists, message).about(resource, name)
    }

    /// 409: no free name was found for `generateName`; the client may retry immediately.
    #[doc(alias = "NewGenerateNameConflict")]
    #[inline]
    pub fn generate_name_conflict(resource: &GroupResource, name: &str) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            Quoted(name)
        );
        Status::failure(StatusReason::AlreadyExists, message).about(resource, name).with_retry_after_seconds(1)
    }

    /// 409: the object cannot be changed as requested, for example because it has changed.
    #[doc(alias = "NewConflict")]
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", Quoted(name));
        Status::failure(StatusReason::Conflict, message).about(resource, name)
    }

    /// 409: the object is not at the version that the writer has seen.
    #[doc(alias = "OptimisticLockErrorMsg")]
    #[inline]
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(resource, name, why)
    }

    /// 409: server-side apply conflicts with other managers, one cause per field.
    #[doc(alias = "NewApplyConflict")]
    pub fn apply_conflict(causes: impl Into<List<StatusCause>>, message: impl Into<Str>) -> Self {
        let details = StatusDetails { causes: causes.into(), ..Default::default() };
        Status { details: Some(details.into()), ..Status::failure(StatusReason::Conflict, message) }
    }

    /// 422: the object is invalid, one cause per violation. Causes beyond the first hundred are
    /// only counted.
    ///
    /// ```
    /// use kubewright_core::{GroupKind, meta::v1::{Status, StatusCause}};
    /// let invalid = Status::invalid(&GroupKind::new("", "Pod"), "x", [StatusCause::required("spec.foo", "")]);
    /// assert_eq!(invalid.to_string(), "Pod \"x\" is invalid: spec.foo: Required value");
    /// ```
    #[doc(alias = "NewInvalid")]
    pub fn invalid(kind: &GroupKind, name: &str, causes: impl Into<List<StatusCause>>) -> Self {
        let causes: List<StatusCause> = causes.into();
        let dropped = causes.len().saturating_sub(MAX_CAUSES);
        let causes: List<StatusCause> = causes.into_iter().take(MAX_CAUSES).collect();
        let mut complaints: Vec<String> = Vec::new();
        for cause in &causes {
            let text = |part: &Option<Str>| part.clone().unwrap_or_default();
            let complaint = format!("{}: {}", text(&cause.field), text(&cause.message));
            if !complaints.contains(&complaint) {
                complaints.push(complaint);
            }
        }
        if dropped > 0 {
            complaints.push(format!("and {dropped} more errors"));
        }
        let mut message = format!("{kind} {} is invalid", Quoted(name));
        match &complaints[..] {
            [] => {}
            [one] => message.extend([": ", one]),
            many => message.extend([": [", &many.join(", "), "]"]),
        }
        let details = StatusDetails {
            name: some_text(name),
            group: some_text(&kind.group),
            kind: some_text(&kind.kind),
            causes,
            ..Default::default()
        };
        Status { details: Some(details.into()), ..Status::failure(StatusReason::Invalid, message) }
    }

    /// 403: the user lacks permission. `name` may be empty; without a resource it concerns a path.
    #[doc(alias = "NewForbidden")]
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.is_empty(), name) {
            (true, _) => format!("forbidden: {why}"),
            (false, "") => format!("{resource} is forbidden: {why}"),
            (false, name) => format!("{resource} {} is forbidden: {why}", Quoted(name)),
        };
        Status::failure(StatusReason::Forbidden, message).about(resource, name)
    }

    /// 401: the requester is not authenticated.
    #[doc(alias = "NewUnauthorized")]
    pub fn unauthorized(message: impl Into<Str>) -> Self {
        Status::failure(StatusReason::Unauthorized, message)
    }

    /// 400: the request is malformed.
    #[doc(alias = "NewBadRequest")]
    pub fn bad_request(message: impl Into<Str>) -> Self {
        Status::failure(StatusReason::BadRequest, message)
    }

    /// 410: the resource is permanently gone.
    #[doc(alias = "NewGone")]
    pub fn gone(message: impl Into<Str>) -> Self {
        Status::failure(StatusReason::Gone, message)
    }

    /// 410: the version or the continue token is too old; a new list is required.
    #[doc(alias = "NewResourceExpired")]
    pub fn expired(message: impl Into<Str>) -> Self {
        Status::failure(StatusReason::Expired, message)
    }

    /// 429: retry after this many seconds.
    #[doc(alias = "NewTooManyRequests")]
    pub fn too_many_requests(message: impl Into<Str>, retry_after_seconds: i32) -> Self {
        Status::failure(StatusReason::TooManyRequests, message).with_retry_after_seconds(retry_after_seconds)
    }

    /// 405: the resource does not support this action.
    #[doc(alias = "NewMethodNotSupported")]
    #[inline]
    pub fn method_not_allowed(resource: &GroupResource, action: &str) -> Self {
        let kind = resource.to_string();
        let message = format!("{action} is not supported on resources of kind {}", Quoted(&kind));
        Status::failure(StatusReason::MethodNotAllowed, message).about(resource, "")
    }

    /// 406: the client accepts none of the available media types, which are listed.
    #[inline]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::failure(StatusReason::NotAcceptable, message)
    }

    /// 415: the media type of the body is not one of these.
    #[inline]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Status::failure(StatusReason::UnsupportedMediaType, message)
    }

    /// 413: the request body is too large.
    #[doc(alias = "NewRequestEntityTooLargeError")]
    pub fn request_entity_too_large(why: impl fmt::Display) -> Self {
        Status::failure(StatusReason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
    }

    /// 500: internal error.
    #[doc(alias = "NewInternalError")]
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        let message = format!("Internal error occurred: {why}");
        let cause = StatusCause { message: Some(why.into()), ..Default::default() };
        Status::failure(StatusReason::InternalError, message).with_cause(cause)
    }

    /// 504: the request timed out, and may still take effect.
    #[doc(alias = "NewTimeoutError")]
    pub fn timeout(why: impl fmt::Display, retry_after_seconds: i32) -> Self {
        let message = format!("Timeout: {why}");
        Status::failure(StatusReason::Timeout, message).with_retry_after_seconds(retry_after_seconds)
    }

    /// 500: the operation timed out; the client should retry.
    #[doc(alias = "NewServerTimeout")]
    #[inline]
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: i32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        Status::failure(StatusReason::ServerTimeout, message)
            .about(resource, operation)
            .with_retry_after_seconds(retry_after_seconds)
    }

    /// 504: the client requested a version that the server has not reached yet.
    #[doc(alias = "NewTooLargeResourceVersionError")]
    #[inline]
    pub fn too_large_resource_version(asked: u64, current: u64, retry_after_seconds: i32) -> Self {
        let why = format!("Too large resource version: {asked}, current: {current}");
        let cause = StatusCause::of(CauseType::ResourceVersionTooLarge, "Too large resource version");
        Status::timeout(why, retry_after_seconds).with_cause(cause)
    }

    /// 503: the server, or a dependency of it, is unavailable.
    #[doc(alias = "NewServiceUnavailable")]
    pub fn service_unavailable(message: impl Into<Str>) -> Self {
        Status::failure(StatusReason::ServiceUnavailable, message)
    }

    /// Interprets a response that is not a `Status`, by its HTTP code.
    ///
    /// `verb` is the HTTP method, `body` the response body, shortened by the caller. An empty
    /// `resource` or `name` is omitted from the message. The client adds the body as a cause of
    /// type [`UnexpectedServerResponse`](CauseType::UnexpectedServerResponse), and the Retry-After.
    #[doc(alias = "NewGenericServerResponse")]
    #[inline]
    pub fn from_code(code: u16, verb: &str, resource: &GroupResource, name: &str, body: &str) -> Self {
        let reason = StatusReason::from_code(code, verb);
        let mut message = match code {
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            404 => "the server could not find the requested resource".to_owned(),
            405 => "the server does not allow this method on the requested resource".to_owned(),
            406 if body.is_empty() || body == "unknown" => {
                "the server was unable to respond with a content type that the client supports".to_owned()
            }
            409 => "the server reported a conflict".to_owned(),
            422 => "the server rejected our request due to an error in our request".to_owned(),
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => "the server was unable to return a response in the time allotted, but may still be processing the \
                request"
                .to_owned(),
            403 | 406 | 415 => body.to_owned(),
            500.. => format!("an error on the server ({}) has prevented the request from succeeding", Quoted(body)),
            _ => format!("the server responded with the status code {code} but did not return more information"),
        };
        let verb = verb.to_ascii_lowercase();
        match (resource.is_empty(), name) {
            (true, _) => {}
            (false, "") => message += &format!(" ({verb} {resource})"),
            (false, name) => message += &format!(" ({verb} {resource} {name})"),
        }
        let mut status = Status::failure(reason, message).about(resource, name);
        status.code = Some(code.into());
        status
    }

    #[inline]
    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details_mut();
        details.group = some_text(&resource.group);
        details.kind = some_text(&resource.resource);
        details.name = some_text(name);
        self
    }

    /// Adds a cause.
    #[must_use]
    #[inline]
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        self.details_mut().causes.push(cause);
        self
    }

    /// Sets the Retry-After in seconds; 0 means none.
    #[must_use]
    #[inline]
    pub fn with_retry_after_seconds(mut self, seconds: i32) -> Self {
        self.details_mut().retry_after_seconds = (seconds != 0).then_some(seconds);
        self
    }

    #[inline]
    fn details_mut(&mut self) -> &mut StatusDetails {
        self.details.get_or_insert_default()
    }
}

/// The server's message, or else the reason or code.
impl fmt::Display for Status {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.message, &self.reason, self.code) {
            (Some(message), ..) if !message.is_empty() => f.write_str(message),
            (_, Some(reason), _) if !reason.is_empty() => f.write_str(reason),
            (_, _, Some(code)) => write!(f, "status code {code}"),
            _ => f.write_str("unknown status"),
        }
    }
}

impl Error for Status {}

#[inline]
fn some_text(text: &str) -> Option<Str> {
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests;
