//! Why a request failed, in one word.

use std::fmt;

/// The reason of a failed request, as its `Status` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StatusReason {
    /// No reason was given, or one that is not known here; go by the code.
    Unknown,
    /// 401: the server does not know who asks.
    Unauthorized,
    /// 403: who asks may not do this.
    Forbidden,
    /// 404: there is no such object or resource.
    NotFound,
    /// 409: there is such an object already.
    AlreadyExists,
    /// 409: the object is not in the state that the request assumes.
    Conflict,
    /// 410: what was here is gone for good.
    Gone,
    /// 422: the object breaks rules of its kind.
    Invalid,
    /// 500: the server could not do it in time; try again.
    ServerTimeout,
    /// 500: what is stored cannot be read.
    StoreReadError,
    /// 504: the request took too long, and may still take effect.
    Timeout,
    /// 429: the server has too much to do; try again later.
    TooManyRequests,
    /// 400: the request cannot be understood.
    BadRequest,
    /// 405: the resource is not served with this verb.
    MethodNotAllowed,
    /// 406: the server cannot answer in any media type that the client accepts.
    NotAcceptable,
    /// 413: the body of the request is too large.
    RequestEntityTooLarge,
    /// 415: the server cannot read the body's media type.
    UnsupportedMediaType,
    /// 500: something broke within the server.
    InternalError,
    /// 410: the asked version is no longer remembered.
    Expired,
    /// 503: the server, or a part that it needs, is not there.
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

    /// The word in a `Status`; empty for [`Unknown`](StatusReason::Unknown).
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

    /// The HTTP code that goes with it.
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

    /// What an HTTP code means where the answer named no reason; a conflict of `POST` is a name that is taken.
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
    fn each_reason_is_found_by_its_word() {
        for reason in StatusReason::ALL {
            assert_eq!(StatusReason::from(reason.as_str()), reason);
        }
        assert_eq!(StatusReason::from("NewInTheNextRelease"), StatusReason::Unknown);
    }
}
