//! Status reasons.

use std::fmt;

/// The reason of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StatusReason {
    /// No reason, or an unknown one; use the code.
    Unknown,
    /// 401: the requester is not authenticated.
    Unauthorized,
    /// 403: the requester lacks permission.
    Forbidden,
    /// 404: the object or resource does not exist.
    NotFound,
    /// 409: the object already exists.
    AlreadyExists,
    /// 409: the object is not in the state that the request assumes.
    Conflict,
    /// 410: the resource is permanently gone.
    Gone,
    /// 422: the object is invalid.
    Invalid,
    /// 500: the operation timed out; retry.
    ServerTimeout,
    /// 500: the stored object is unreadable.
    StoreReadError,
    /// 504: the request timed out, and may still take effect.
    Timeout,
    /// 429: the server is overloaded; retry later.
    TooManyRequests,
    /// 400: the request is malformed.
    BadRequest,
    /// 405: the resource does not support this verb.
    MethodNotAllowed,
    /// 406: the server supports no media type that the client accepts.
    NotAcceptable,
    /// 413: the request body is too large.
    RequestEntityTooLarge,
    /// 415: the server does not support the body's media type.
    UnsupportedMediaType,
    /// 500: internal error.
    InternalError,
    /// 410: the requested version has expired.
    Expired,
    /// 503: the server, or a dependency of it, is unavailable.
    ServiceUnavailable,
}

impl StatusReason {
    const ALL: [StatusReason; 20] = {
        use StatusReason::*;
        [
            Unknown,
            Unauthorized,
            Forbidden,
            NotFound,
            AlreadyExists,
            Conflict,
            Gone,
            Invalid,
            ServerTimeout,
            StoreReadError,
            Timeout,
            TooManyRequests,
            BadRequest,
            MethodNotAllowed,
            NotAcceptable,
            RequestEntityTooLarge,
            UnsupportedMediaType,
            InternalError,
            Expired,
            ServiceUnavailable,
        ]
    };

    /// The name in a `Status`; empty for [`Unknown`](StatusReason::Unknown).
    #[inline]
    pub const fn as_str(self) -> &'static str {
        match self {
            StatusReason::Unknown => "",
            StatusReason::Unauthorized => "Unauthorized",
            StatusReason::Forbidden => "Forbidden",
            StatusReason::NotFound => "NotFound",
            StatusReason::AlreadyExists => "AlreadyExists",
            StatusReason::Conflict => "Conflict",
            StatusReason::Gone => "Gone",
            StatusReason::Invalid => "Invalid",
            StatusReason::ServerTimeout => "ServerTimeout",
            StatusReason::StoreReadError => "StorageReadError",
            StatusReason::Timeout => "Timeout",
            StatusReason::TooManyRequests => "TooManyRequests",
            StatusReason::BadRequest => "BadRequest",
            StatusReason::MethodNotAllowed => "MethodNotAllowed",
            StatusReason::NotAcceptable => "NotAcceptable",
            StatusReason::RequestEntityTooLarge => "RequestEntityTooLarge",
            StatusReason::UnsupportedMediaType => "UnsupportedMediaType",
            StatusReason::InternalError => "InternalError",
            StatusReason::Expired => "Expired",
            StatusReason::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// Its HTTP code.
    #[inline]
    pub const fn code(self) -> i32 {
        match self {
            StatusReason::BadRequest => 400,
            StatusReason::Unauthorized => 401,
            StatusReason::Forbidden => 403,
            StatusReason::NotFound => 404,
            StatusReason::MethodNotAllowed => 405,
            StatusReason::NotAcceptable => 406,
            StatusReason::AlreadyExists | StatusReason::Conflict => 409,
            StatusReason::Gone | StatusReason::Expired => 410,
            StatusReason::RequestEntityTooLarge => 413,
            StatusReason::UnsupportedMediaType => 415,
            StatusReason::Invalid => 422,
            StatusReason::TooManyRequests => 429,
            StatusReason::Unknown
            | StatusReason::ServerTimeout
            | StatusReason::StoreReadError
            | StatusReason::InternalError => 500,
            StatusReason::ServiceUnavailable => 503,
            StatusReason::Timeout => 504,
        }
    }

    /// The reason of an HTTP code in a response without a reason; a conflict of `POST` means that
    /// the name exists.
    #[inline]
    pub fn from_code(code: u16, verb: &str) -> Self {
        match code {
            400 => StatusReason::BadRequest,
            401 => StatusReason::Unauthorized,
            403 => StatusReason::Forbidden,
            404 => StatusReason::NotFound,
            405 => StatusReason::MethodNotAllowed,
            406 => StatusReason::NotAcceptable,
            409 if verb.eq_ignore_ascii_case("POST") => StatusReason::AlreadyExists,
            409 => StatusReason::Conflict,
            415 => StatusReason::UnsupportedMediaType,
            422 => StatusReason::Invalid,
            429 => StatusReason::TooManyRequests,
            503 => StatusReason::ServiceUnavailable,
            504 => StatusReason::Timeout,
            500.. => StatusReason::InternalError,
            _ => StatusReason::Unknown,
        }
    }
}

impl From<&str> for StatusReason {
    #[inline]
    fn from(text: &str) -> Self {
        StatusReason::ALL.into_iter().find(|reason| reason.as_str() == text).unwrap_or(StatusReason::Unknown)
    }
}

impl fmt::Display for StatusReason {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.as_str() {
            "" => "Unknown",
            text => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_parses_from_its_name() {
        for reason in StatusReason::ALL {
            assert_eq!(StatusReason::from(reason.as_str()), reason);
        }
        assert_eq!(StatusReason::from("NewInTheNextRelease"), StatusReason::Unknown);
    }
}
