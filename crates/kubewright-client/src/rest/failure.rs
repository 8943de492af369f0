//! Interprets unsuccessful responses.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use kubewright_core::meta::v1::{Status, StatusCause};
use kubewright_core::protobuf::Envelope;
use kubewright_core::stream::Encoding;
use kubewright_core::{CauseType, Decoder, GroupResource};
use tokio::time::timeout;

use super::negotiation::encoding_of;
use super::whole_body::collect;
use kubewright_net::transport::Body;

/// How much of a failed response is read for its message.
const MAX_FAILURE: usize = 3 << 20;
/// How long to wait for the message of a failure; its code says most of it.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a body that is not a `Status` is repeated in the error.
const MAX_TEXT: usize = 2048;

/// Whether the response is successful.
pub(super) fn is_success(code: StatusCode) -> bool {
    (200..=206).contains(&code.as_u16())
}

/// The body of a failure; empty if it is incomplete.
pub(super) async fn message(body: Body) -> Bytes {
    let collected = timeout(FAILURE_TIMEOUT, collect(body, MAX_FAILURE)).await;
    collected.ok().and_then(Result::ok).unwrap_or_default()
}

/// The `Status` of a failed response, or one derived from its code.
pub(super) fn status(
    method: &str,
    resource: &GroupResource,
    name: &str,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Box<Status> {
    if let Some(mut status) = status_within(encoding_of(headers), body, body.len()).filter(Status::is_failure) {
        status.code.get_or_insert(i32::from(code.as_u16()));
        return Box::new(status);
    }
    let is_text = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_none_or(|media| media.starts_with("text/") || media.contains("json"));
    let text = String::from_utf8_lossy(&body[..body.len().min(MAX_TEXT)]);
    let text = if is_text && !text.is_empty() { text.trim() } else { "unknown" };
    let mut status = Status::from_code(code.as_u16(), method, resource, name, text);
    status = status.with_cause(StatusCause::of(CauseType::UnexpectedServerResponse, text));
    let seconds = headers.get(http::header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    if let Some(seconds) = seconds {
        status = status.with_retry_after_seconds(seconds);
    }
    Box::new(status)
}

/// The failure of an upgrade request that was answered without an upgrade.
#[cfg(feature = "ws")]
pub(crate) async fn of_answer(resource: &GroupResource, name: &str, answer: http::Response<Body>) -> Box<Status> {
    let (head, body) = answer.into_parts();
    status("GET", resource, name, head.status, &head.headers, &message(body).await)
}

/// The `Status` in a body, which may also contain a requested object.
pub(super) fn status_in(encoding: Encoding, body: &[u8]) -> Option<Status> {
    // Objects usually start with their kind, so a large object need not be parsed.
    status_within(encoding, body, 256)
}

/// Like [`status_in`], with the kind anywhere in the first `bytes`: failures are small, and not all
/// servers write the kind first.
fn status_within(encoding: Encoding, body: &[u8], bytes: usize) -> Option<Status> {
    let mut decoder = Decoder::new();
    match encoding {
        Encoding::Json => {
            let head = String::from_utf8_lossy(&body[..body.len().min(bytes)]);
            let status: Status = head.contains("\"Status\"").then(|| decoder.json(body).ok()).flatten()?;
            status.status.is_some().then_some(status)
        }
        Encoding::Protobuf => {
            let envelope = Envelope::decode(body).ok()?;
            (envelope.kind == "Status").then(|| decoder.protobuf(body).ok()).flatten()
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{CONTENT_TYPE, RETRY_AFTER};

    use super::*;

    fn failure(code: u16, body: &str) -> Box<Status> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let pods = GroupResource::from_static("", "pods");
        status("GET", &pods, "web", StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn a_failure_without_a_status_body_is_described_by_its_code() {
        // RC-7
        let status = failure(404, "nothing here");
        assert!(status.is_not_found() && status.is_unexpected_server_error());
        assert_eq!(status.to_string(), "the server could not find the requested resource (get pods web)");
        let status = failure(503, &"x".repeat(5000));
        assert_eq!(status.causes()[0].message.as_deref().map(str::len), Some(2048));
        assert_eq!(status.retry_after().map(|wait| wait.as_secs()), Some(7));
    }

    #[test]
    fn a_status_body_is_used_only_if_it_describes_a_failure() {
        // RC-7
        let json = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","message":"m"}"#;
        let status = failure(409, json);
        assert_eq!((status.is_conflict(), status.message.as_deref(), status.code), (true, Some("m"), Some(409)));
        let json = r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#;
        assert!(failure(500, json).is_internal_error());
    }

    #[test]
    fn a_status_is_recognised_regardless_of_field_order() {
        let causes = [r#"{"field":"spec.image","message":"Invalid value","reason":"FieldValueInvalid"}"#; 9].join(",");
        let json = format!(
            r#"{{"apiVersion":"v1","code":422,"details":{{"causes":[{causes}]}},"kind":"Status","message":"m","status":"Failure"}}"#
        );
        let status = failure(422, &json);
        assert_eq!((status.message.as_deref(), status.causes().len()), (Some("m"), 9));
    }
}
