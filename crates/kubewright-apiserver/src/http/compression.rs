//! Large answers are compressed for those who accept it.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Response};

use super::Body;

/// Answers below this size are sent as they are.
const THRESHOLD: usize = 128 << 10;

/// Compresses the answer to a read, if it is worth it and the client can take it.
pub(crate) fn compress(method: &Method, accepted: bool, response: Response<Body>) -> Response<Body> {
    let is_large = response.body().as_bytes().is_some_and(|bytes| bytes.len() >= THRESHOLD);
    if !accepted || !is_large || method != Method::GET {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = body.as_bytes().cloned().unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let compressed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(compressed) = compressed else { return Response::from_parts(parts, bytes.into()) };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, bytes::Bytes::from(compressed).into())
}

/// Whether a client accepts compressed answers.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        name.trim() == "gzip" && quality.trim().strip_prefix("q=").is_none_or(|q| q.parse().is_ok_and(|q: f32| q > 0.0))
    })
}
