//! Compresses large responses.

use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Response};

use super::ResponseBody;

/// Smaller responses are not compressed.
const THRESHOLD: usize = 128 << 10;

/// Compresses a large response to a read if the client accepts it.
pub(crate) fn compress(
    method: &Method,
    accepted: bool,
    mut response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    let is_large = response.body().length().is_some_and(|length| length >= THRESHOLD);
    if !accepted || !is_large || method != Method::GET {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response.map(ResponseBody::compressed)
}

/// Whether a client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        name.trim() == "gzip" && quality.trim().strip_prefix("q=").is_none_or(|q| q.parse().is_ok_and(|q: f32| q > 0.0))
    })
}
