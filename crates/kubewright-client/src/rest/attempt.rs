//! Sends a request with retries.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use kubewright_core::GroupVersionResource;
use kubewright_core::stream::Encoding;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::metrics::AttemptReport;
use super::negotiation::{ResponseForm, accept, is_json};
use super::request::{Payload, Request};
use super::{failure, retry, trace, warning};
use crate::error::{Error, Result};
use kubewright_net::observation;
use kubewright_net::transport::{Body, RequestTimeout, TransportError, TransportErrorKind};

/// How much of a failed response is drained to reuse its connection.
const DRAIN_LIMIT: usize = 2048;
/// How long to drain a response. A new connection costs less.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Waits for the rate limiter longer than this are logged.
const LONG_THROTTLE: Duration = Duration::from_secs(1);
const SHORT_THROTTLE: Duration = Duration::from_millis(50);

/// A complete request and its retry policy.
pub(super) struct Attempts<'a> {
    request: Request<'a>,
    uri: Uri,
    resource: Option<GroupVersionResource>,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(request: Request<'a>) -> Result<Self> {
        let mut text = request.path.write();
        if !request.query.is_empty() {
            text.push('?');
            text.push_str(&request.query);
        }
        let uri =
            Uri::try_from(text).map_err(|error| Error::InvalidRequest(format!("the path is no path: {error}")))?;
        let resource = request.key();
        Ok(Attempts { request, uri, resource })
    }

    /// Waits for the rate limiter, which does not count for the request timeout.
    pub(super) async fn throttle(&self) {
        if !self.request.is_watch {
            self.wait_for_token().await;
        }
    }

    /// The first successful response. Boxed, so that it is compiled in this crate and not in each
    /// caller's.
    pub(super) fn run(&self) -> Pin<Box<dyn Future<Output = Result<Response<Body>>> + Send + '_>> {
        let span = trace::request_span(&self.request.method, &self.uri);
        if span.is_disabled() {
            Box::pin(self.try_until_success())
        } else {
            Box::pin(self.try_until_success().instrument(span))
        }
    }

    async fn try_until_success(&self) -> Result<Response<Body>> {
        let settings = self.request.client.settings();
        let negotiation = self.request.client.negotiation();
        let mut json_only =
            settings.json_only || negotiation.is_json_only(self.resource.as_ref()) || self.is_recorded_as_json();
        let (mut retries, mut previous) = (0, None::<String>);
        loop {
            if let Some(pause) =
                settings.backoff.as_ref().map(|backoff| backoff.pause()).filter(|pause| !pause.is_zero())
            {
                sleep(pause).await;
            }
            let (sent, spoke_protobuf) = self.send_once(json_only).await;
            let again = match sent {
                Ok(answer) if failure::is_success(answer.status()) => {
                    if spoke_protobuf && self.request.form == ResponseForm::Object && is_json(answer.headers()) {
                        negotiation.learn_json_only(self.resource.as_ref());
                    }
                    return Ok(answer);
                }
                Ok(answer) if spoke_protobuf && is_about_encoding(answer.status()) => {
                    negotiation.learn_json_only(self.resource.as_ref());
                    json_only = true;
                    drain(answer.into_body()).await;
                    continue;
                }
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    let wait = retry::after_answer(&self.request.method, head.status, &head.headers);
                    match wait.filter(|_| retries < self.request.retries) {
                        Some(wait) => {
                            drain(body).await;
                            (wait, Some(head.status.as_u16()), format!("the server answered {}", head.status))
                        }
                        None => return Err(self.failure(&head, body, previous).await),
                    }
                }
                Err(error) => match retry::after_failure(&self.request.method, &error) {
                    Some(wait) if retries < self.request.retries => (wait, None, error.to_string()),
                    _ => return Err(with_previous(error, previous).into()),
                },
            };
            let (wait, code, problem) = again;
            retries += 1;
            tracing::debug!(retries, ?wait, problem, "request {:?} is sent again", self.request);
            if let Some(metrics) = &settings.metrics {
                metrics.retried(self.request.method.as_str(), code);
            }
            previous = Some(problem);
            sleep(wait).await;
            self.wait_for_token().await;
        }
    }

    /// Whether this is the request of an observed reconcile, or one for a single object whose
    /// recording is to be readable.
    fn is_recorded_as_json(&self) -> bool {
        let request = &self.request;
        let is_of_cache = request.is_watch || request.method == Method::GET && request.path.name().is_empty();
        request.client.settings().json_objects && (observation::is_observed() || !is_of_cache)
    }

    /// One attempt, and whether it used protobuf.
    async fn send_once(&self, json_only: bool) -> (Result<Response<Body>, TransportError>, bool) {
        let (request, spoke_protobuf) = self.build(json_only);
        let settings = self.request.client.settings();
        let (started, request_size) = (Instant::now(), request.body().len());
        let sending = self.request.client.transport().send(request);
        let sent = match settings.answer_timeout {
            None => sending.await,
            Some(limit) => timeout(limit, sending)
                .await
                .unwrap_or_else(|elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed))),
        };
        let code = sent.as_ref().ok().map(|answer| answer.status().as_u16());
        trace::record(code, sent.as_ref().err().map(|error| error as &dyn std::error::Error));
        if let Some(metrics) = &settings.metrics {
            let length = |answer: &Response<Body>| answer.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
            metrics.attempt(&AttemptReport {
                method: self.request.method.as_str(),
                code,
                duration: started.elapsed(),
                request_size,
                response_size: sent.as_ref().ok().and_then(length),
            });
        }
        if let Some(backoff) = &settings.backoff {
            backoff.update(code);
        }
        if let Ok(answer) = &sent {
            let handler = self.request.warnings.as_ref().unwrap_or(&settings.warnings);
            warning::warnings(answer.headers()).iter().for_each(|warning| handler(warning));
        }
        (sent, spoke_protobuf)
    }

    pub(super) fn build(&self, json_only: bool) -> (http::Request<Bytes>, bool) {
        let request = &self.request;
        let accepts = request.protobuf && !json_only;
        let mut spoke_protobuf = accepts;
        let (content_type, body) = match &request.payload {
            Payload::None => (None, Bytes::new()),
            Payload::Bytes { content_type, bytes } => (*content_type, bytes.clone()),
            Payload::Object(object) => match object.encode_protobuf().filter(|_| !json_only) {
                Some(bytes) => {
                    spoke_protobuf = true;
                    (Some(Encoding::Protobuf.media_type()), bytes.into())
                }
                None => (Some(Encoding::Json.media_type()), object.encode_json().into()),
            },
        };
        let mut built = http::Request::new(body);
        *built.method_mut() = request.method.clone();
        *built.uri_mut() = self.uri.clone();
        // A shorter limit is enforced here. A longer one is passed to the transport, which would
        // otherwise enforce the configuration's.
        let limits = request.timeout.zip(request.client.settings().transport_timeout);
        if let Some((own, _)) = limits.filter(|(own, transport)| own > transport) {
            built.extensions_mut().insert(RequestTimeout(Some(own)));
        }
        let headers = built.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept(request.form, accepts)));
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        trace::inject(headers);
        let mut replaced = None;
        for (name, value) in &request.headers {
            // The first of several values replaces the default, the others are appended.
            if replaced == Some(name) {
                headers.append(name, value.clone());
            } else {
                headers.insert(name, value.clone());
            }
            replaced = Some(name);
        }
        (built, spoke_protobuf)
    }

    async fn failure(&self, head: &http::response::Parts, body: Body, previous: Option<String>) -> Error {
        let body = failure::message(body).await;
        let (method, path) = (self.request.method.as_str(), &self.request.path);
        let status = failure::status(method, &path.resource(), path.name(), head.status, &head.headers, &body);
        if let Some(previous) = previous {
            tracing::debug!(previous, "request {:?} failed after retries", self.request);
        }
        Error::Status(status)
    }

    async fn wait_for_token(&self) {
        let settings = self.request.client.settings();
        let Some(limiter) = &settings.limiter else { return };
        let waited = limiter.accept().await;
        if let Some(metrics) = &settings.metrics {
            metrics.throttled(self.request.method.as_str(), waited);
        }
        if waited > LONG_THROTTLE {
            tracing::info!(?waited, "client-side throttling, not priority and fairness: {:?}", self.request);
        } else if waited > SHORT_THROTTLE {
            tracing::debug!(?waited, "client-side throttling: {:?}", self.request);
        }
    }
}

/// Drains the rest of a response so that its connection can be reused.
async fn drain(mut body: Body) {
    let mut read = 0;
    let all = async {
        while read < DRAIN_LIMIT
            && let Ok(Some(chunk)) = body.chunk().await
        {
            read += chunk.len();
        }
    };
    let _ = timeout(DRAIN_TIMEOUT, all).await;
}

fn is_about_encoding(code: StatusCode) -> bool {
    matches!(code, StatusCode::NOT_ACCEPTABLE | StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Adds the previous error to the cause.
fn with_previous(error: TransportError, previous: Option<String>) -> TransportError {
    let Some(previous) = previous else { return error };
    let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    error.because(format!("{cause} - error from a previous attempt: {previous}"))
}
