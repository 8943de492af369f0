//! The retry policy of requests.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

use kubewright_net::transport::{TransportError, TransportErrorKind};

/// The longest wait before a retry. If the server asks for more, the request fails with its
/// response.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The delay before a retry; `None` if the request must not be retried.
///
/// A `Retry-After` date is ignored, because it depends on two clocks.
pub(super) fn after_answer(method: &Method, code: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let code = code.as_u16();
    let asks = code == 429 || code >= 500;
    // Only these two codes guarantee that nothing was done. After any other code the server may
    // have executed a write. Repeating it, even a PUT or DELETE, could overwrite or delete what
    // another client has written since.
    let safe = is_read(method) || matches!(code, 429 | 503);
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse::<u32>().ok()?;
    let wait = Duration::from_secs(seconds.into());
    (asks && safe && wait <= MAX_RETRY_AFTER).then_some(wait)
}

/// Like [`after_answer`], if the connection broke before a response. The server may have executed a
/// write.
pub(super) fn after_failure(method: &Method, error: &TransportError) -> Option<Duration> {
    let broken = error.kind() == TransportErrorKind::Disconnected;
    (broken && *method == Method::GET).then_some(Duration::from_secs(1))
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_safe_requests_with_retry_after_are_retried() {
        // RC-3
        for (method, code, after, want) in [
            (Method::GET, 429, Some("1"), Some(1)),
            (Method::POST, 429, Some("0"), Some(0)),
            (Method::POST, 503, Some("2"), Some(2)),
            (Method::POST, 500, Some("1"), None),
            (Method::PATCH, 504, Some("1"), None),
            (Method::PUT, 504, Some("1"), None),
            (Method::DELETE, 500, Some("1"), None),
            (Method::PUT, 503, Some("1"), Some(1)),
            (Method::DELETE, 429, Some("1"), Some(1)),
            (Method::PUT, 503, None, None),
            (Method::GET, 504, Some("1"), Some(1)),
            (Method::GET, 429, None, None),
            (Method::GET, 503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), None),
            (Method::GET, 503, Some("-1"), None),
            (Method::GET, 409, Some("1"), None),
            (Method::GET, 429, Some("600"), Some(600)),
            (Method::GET, 429, Some("4294967295"), None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(after));
            }
            let got = after_answer(&method, StatusCode::from_u16(code).unwrap(), &headers);
            assert_eq!(got, want.map(Duration::from_secs), "{method} {code} {after:?}");
        }
    }
}
