//! A transport that records requests and responses.
//!
//! Lists and watches of caches are recorded without their bodies, because a recording has the
//! changes of caches. The transport is above that of the credentials, so it never sees them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Method, Request, Response};
use kubewright_net::observation;
use kubewright_net::transport::{Body, ResponseFuture, Transport, TransportError, UpgradeFuture};
use serde_json::value::RawValue;

use crate::entry::{self, Entry};
use crate::recorder::{RecordingLog, now};
use crate::redaction::SecretPart;

/// Maximum size of a recorded body.
const MAX_BODY: usize = 32 << 20;

/// Records the requests that it passes on.
pub(crate) struct RecordedTransport {
    inner: Arc<dyn Transport>,
    log: Arc<RecordingLog>,
}

impl RecordedTransport {
    pub(crate) fn new(inner: Arc<dyn Transport>, log: Arc<RecordingLog>) -> Self {
        RecordedTransport { inner, log }
    }
}

impl Transport for RecordedTransport {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let reconcile = observation::current().map(|work| work.number());
        let (number, path) = (self.log.next_request(), request.uri().to_string());
        let secret = SecretPart::at(&path).filter(|_| self.log.redaction.is_on());
        self.log.append(&Entry::Request(entry::Request {
            at: now(),
            request: number,
            reconcile,
            method: request.method().to_string(),
            content_type: header(request.headers(), CONTENT_TYPE),
            body: self.log.body(request.body(), secret),
            path: path.clone(),
        }));
        let is_open_ended = is_open_ended(&path);
        let is_of_cache = reconcile.is_none() && request.method() == Method::GET && is_collection(&path);
        let sending = {
            let _left = observation::enter(None);
            self.inner.send(request)
        };
        let log = self.log.clone();
        Box::pin(async move {
            let answered = match observation::unobserved(sending).await {
                Ok(response) => response,
                Err(error) => {
                    log.append(&Entry::Response(entry::Response { error: Some(chain(&error)), ..empty(number) }));
                    return Err(error);
                }
            };
            let (head, mut body) = answered.into_parts();
            let mut recorded = entry::Response {
                status: head.status.as_u16(),
                content_type: header(&head.headers, CONTENT_TYPE),
                retry_after: header(&head.headers, RETRY_AFTER),
                ..empty(number)
            };
            if is_open_ended || is_of_cache {
                let length = header(&head.headers, CONTENT_LENGTH).and_then(|length| length.parse().ok());
                recorded.body = Some(entry::Body::Omitted(length));
                log.append(&Entry::Response(recorded));
                return Ok(Response::from_parts(head, body));
            }
            // Complete before the reconcile continues, so that the log has the order of its inputs.
            let mut read = Vec::new();
            let ended = loop {
                match observation::unobserved(body.chunk()).await {
                    Ok(Some(chunk)) => read.extend_from_slice(&chunk),
                    Ok(None) => break Ok(false),
                    Err(error) => break Err(error),
                }
                if read.len() > MAX_BODY {
                    break Ok(true);
                }
            };
            recorded.at = now();
            recorded.body = match &ended {
                Ok(false) => log.body(&read, secret),
                Ok(true) | Err(_) => Some(entry::Body::Omitted(None)),
            };
            recorded.error = ended.as_ref().err().map(|error| chain(error));
            log.append(&Entry::Response(recorded));
            let rest = match ended {
                Ok(false) => Rest::None,
                Ok(true) => Rest::More(body),
                Err(error) => Rest::Failed(error),
            };
            let body = Body::new(Resumed { read: Some(read.into()), rest });
            Ok(Response::from_parts(head, body))
        })
    }

    fn host(&self) -> Option<String> {
        self.inner.host()
    }

    fn upgrade(&self, request: Request<Bytes>) -> UpgradeFuture {
        self.inner.upgrade(request)
    }
}

impl RecordingLog {
    /// A body as it is written.
    fn body(&self, bytes: &[u8], secret: Option<SecretPart>) -> Option<entry::Body> {
        if bytes.is_empty() {
            return None;
        }
        let omitted = || entry::Body::Omitted(Some(bytes.len() as u64));
        let text = match secret {
            Some(part) => match self.redaction.text(bytes, part) {
                Some(text) => String::from_utf8(text).ok(),
                None => return Some(omitted()),
            },
            None => std::str::from_utf8(bytes).ok().map(str::to_owned),
        };
        let Some(text) = text else { return Some(omitted()) };
        // A line break would end the entry.
        let is_one_line = !text.contains(['\n', '\r']);
        Some(match RawValue::from_string(text) {
            Ok(json) if is_one_line => entry::Body::Json(json),
            Ok(json) => one_line(&json).map_or_else(omitted, entry::Body::Json),
            Err(_) => entry::Body::Text(String::from_utf8_lossy(bytes).into_owned()),
        })
    }
}

fn one_line(json: &RawValue) -> Option<Box<RawValue>> {
    let value: serde_json::Value = serde_json::from_str(json.get()).ok()?;
    serde_json::value::to_raw_value(&value).ok()
}

/// A response of which nothing is known yet.
fn empty(request: u64) -> entry::Response {
    entry::Response { at: now(), request, status: 0, content_type: None, retry_after: None, body: None, error: None }
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Whether the response may never end.
fn is_open_ended(path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true" | "follow=1"))
}

/// Whether this is the path of a list, and not of one object or a document.
fn is_collection(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => {
            matches!(rest, [_] | ["namespaces", _, _])
        }
        _ => false,
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// A body whose beginning has been read.
struct Resumed {
    read: Option<Bytes>,
    rest: Rest,
}

/// The rest of a body whose beginning has been read.
enum Rest {
    None,
    More(Body),
    Failed(TransportError),
}

impl Stream for Resumed {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(read) = self.read.take().filter(|read| !read.is_empty()) {
            return Poll::Ready(Some(Ok(read)));
        }
        match &mut self.rest {
            Rest::More(body) => Pin::new(body).poll_next(context),
            Rest::None => Poll::Ready(None),
            Rest::Failed(_) => match std::mem::replace(&mut self.rest, Rest::None) {
                Rest::Failed(error) => Poll::Ready(Some(Err(error))),
                Rest::None | Rest::More(_) => Poll::Ready(None),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_from_objects() {
        for path in ["/api/v1/pods?limit=500", "/apis/apps/v1/namespaces/a/deployments", "/api/v1/namespaces"] {
            assert!(is_collection(path), "{path}");
        }
        for path in ["/api/v1/namespaces/a/pods/b", "/apis/apps/v1/namespaces/a/deployments/b/scale", "/version"] {
            assert!(!is_collection(path), "{path}");
        }
        assert!(is_open_ended("/api/v1/pods?watch=true&x=1") && !is_open_ended("/api/v1/pods?limit=1"));
    }
}
