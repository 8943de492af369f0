//! Responses before encoding of their headers.

use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use kubewright_core::meta::v1::Status;
use kubewright_net::transport::Body;

use super::{ChunkSource, MemoryBudget, ResponseBody};
use crate::registry::RegistryWatch;
use crate::warnings::Warnings;
use kubewright_objects::encoding::{self, ListBody, Wanted};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::accept::Format;

/// Memory is reserved for larger responses.
const RESERVED_MIN: usize = 32 << 10;

/// 429 because responses in transfer use up their budget.
pub(crate) fn too_many_bytes() -> Rejection {
    let message = "too many bytes of responses are in memory, please try again later";
    Status::too_many_requests(message, 1).into()
}

/// A response without its common headers.
pub(crate) struct ApiResponse {
    status: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Memory of the body that this response does not share with stored objects, in bytes.
    private_length: usize,
}

impl ApiResponse {
    /// An encoded object or other document. A newline follows JSON, unless it is indented, as after
    /// Go's encoder.
    pub(crate) fn document(status: StatusCode, wanted: Wanted, body: Bytes) -> Self {
        let is_line = wanted.format == Format::Json && !wanted.pretty;
        // The text of a stored object is shared.
        let private_length = if body.is_unique() { body.len() } else { 0 };
        ApiResponse {
            status,
            content_type: wanted.content_type(),
            body: if is_line { ResponseBody::line(body) } else { body.into() },
            headers: Vec::new(),
            private_length,
        }
    }

    /// A list.
    pub(crate) fn list(wanted: Wanted, list: ListBody) -> Self {
        let (body, length) = match list {
            ListBody::Whole(bytes) => {
                let length = bytes.len();
                (ResponseBody::from(bytes), length)
            }
            ListBody::Streamed(list) => {
                let length = list.private_length();
                (list.into(), length)
            }
        };
        let content_type = wanted.content_type();
        ApiResponse { status: StatusCode::OK, content_type, body, headers: Vec::new(), private_length: length }
    }

    /// A successful Status.
    pub(crate) fn status(code: StatusCode, wanted: Wanted, status: &Status) -> Self {
        ApiResponse::document(code, wanted.as_object(), encoding::status(wanted, status))
    }

    /// Plain text.
    pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Self {
        let (content_type, body) = ("text/plain; charset=utf-8", text.into());
        // Prevents content sniffing by browsers.
        let headers = vec![(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))];
        ApiResponse { status, content_type, body: body.into(), headers, private_length: 0 }
    }

    /// A binary document.
    pub(crate) fn binary(content_type: &'static str, body: Vec<u8>) -> Self {
        ApiResponse {
            status: StatusCode::OK,
            content_type,
            body: Bytes::from(body).into(),
            headers: Vec::new(),
            private_length: 0,
        }
    }

    /// A body that is encoded while it is sent.
    pub(crate) fn streamed(content_type: &'static str, source: impl ChunkSource + 'static) -> Self {
        let body = ResponseBody::chunked(source);
        ApiResponse { status: StatusCode::OK, content_type, body, headers: Vec::new(), private_length: 0 }
    }

    /// A response that another server sends.
    pub(crate) fn forwarded(status: StatusCode, headers: HeaderMap, body: Body) -> Self {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        ApiResponse { status, content_type: "", body: ResponseBody::forwarded(body), headers, private_length: 0 }
    }

    /// A stream of watch events.
    pub(crate) fn watch(content_type: &'static str, stream: RegistryWatch) -> Self {
        ApiResponse {
            status: StatusCode::OK,
            content_type,
            body: stream.into(),
            headers: Vec::new(),
            private_length: 0,
        }
    }

    /// An error response.
    pub(crate) fn rejection(rejection: Rejection, wanted: Wanted) -> Self {
        let status = match rejection {
            Rejection::NoSuchPage => return ApiResponse::text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Rejection::Status(status) => status,
            // Unreachable: callers handle it, or write resources without webhooks.
            Rejection::NeedsWebhook | Rejection::NeedsAuthorization(_) => {
                Box::new(Status::internal("a webhook was not called"))
            }
        };
        let code =
            status.code.and_then(|code| u16::try_from(code).ok()).and_then(|code| StatusCode::from_u16(code).ok());
        let mut answer = ApiResponse::status(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), wanted, &status);
        let seconds = status.details.as_ref().and_then(|details| details.retry_after_seconds);
        if let Some(seconds) = seconds {
            answer.headers.push((RETRY_AFTER, HeaderValue::from(seconds)));
        }
        answer
    }

    /// Adds `Warning` headers.
    #[must_use]
    pub(crate) fn with_warnings(mut self, warnings: &Warnings) -> Self {
        for warning in warnings.texts() {
            let text: String = warning.chars().filter(|c| !c.is_control()).collect();
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
                self.headers.push((WARNING, value));
            }
        }
        self
    }

    /// A response without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        ApiResponse { status, content_type: "", body: Bytes::new().into(), headers: Vec::new(), private_length: 0 }
    }

    /// Reserves the memory of a large response until it is sent.
    ///
    /// # Errors
    ///
    /// 429 if responses in transfer use up the budget.
    pub(crate) fn within(mut self, budget: &MemoryBudget) -> Result<Self, Rejection> {
        if self.private_length >= RESERVED_MIN {
            let memory = budget.reserve(self.private_length).ok_or_else(too_many_bytes)?;
            self.body = self.body.holding(memory);
        }
        Ok(self)
    }

    /// Like [`within`](Self::within), for a request that has been executed and cannot be refused
    /// any more.
    pub(crate) fn holding_rest(mut self, budget: &MemoryBudget) -> Self {
        if self.private_length >= RESERVED_MIN {
            self.body = self.body.holding(budget.reserve_rest(self.private_length));
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Builds the HTTP response.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if !self.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        for (name, value) in self.headers {
            match name {
                // A specific `Cache-Control` replaces the default.
                CACHE_CONTROL => {
                    headers.insert(name, value);
                }
                name => {
                    headers.append(name, value);
                }
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reserved_for_large_bodies_that_are_not_shared() {
        let budget = MemoryBudget::new(100 << 10);
        let answer = |body: &Bytes| ApiResponse::document(StatusCode::OK, Wanted::JSON, body.clone());
        let stored = Bytes::from(vec![b' '; 80 << 10]);
        assert!((0..3).map(|_| answer(&stored).within(&budget)).collect::<Result<Vec<_>, _>>().is_ok());
        let private = || ApiResponse::document(StatusCode::OK, Wanted::JSON, vec![b' '; 80 << 10].into());
        let first = private().within(&budget);
        assert!(first.is_ok() && private().within(&budget).is_err());
        let executed = private().holding_rest(&budget);
        assert!(budget.is_exhausted());
        drop((first, executed));
        assert!(private().within(&budget).is_ok());
    }
}
