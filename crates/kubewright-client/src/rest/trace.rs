//! Spans of requests, and the trace context in their headers.
//!
//! Field names are those of OpenTelemetry's semantic conventions.

use http::{HeaderMap, Method, StatusCode, Uri};
use tracing::Span;
use tracing::field::Empty;

/// The target of spans that are meant for traces, not for logs.
const TARGET: &str = "kubewright::trace";

/// The span of a request with all its attempts; disabled unless the target is enabled.
pub(super) fn request_span(method: &Method, uri: &Uri) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "request",
        otel.kind = "client",
        http.request.method = method.as_str(),
        url.path = uri.path(),
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

/// Records the result of an attempt in the current span.
pub(super) fn record(code: Option<u16>, error: Option<&dyn std::error::Error>) {
    let span = Span::current();
    if let Some(code) = code {
        span.record("http.response.status_code", code);
        if code >= StatusCode::BAD_REQUEST.as_u16() {
            span.record("error.type", code);
        }
    }
    if let Some(error) = error {
        span.record("error.type", tracing::field::display(error));
    }
}

/// Adds the trace context of the current span, such as `traceparent`, in the format of the global
/// propagator.
#[cfg(feature = "opentelemetry")]
pub(super) fn inject(headers: &mut HeaderMap) {
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    struct Headers<'a>(&'a mut HeaderMap);

    impl opentelemetry::propagation::Injector for Headers<'_> {
        fn set(&mut self, key: &str, value: String) {
            if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(key), http::HeaderValue::try_from(value)) {
                self.0.insert(name, value);
            }
        }
    }

    let context = Span::current().context();
    opentelemetry::global::get_text_map_propagator(|propagator| {
        propagator.inject_context(&context, &mut Headers(headers));
    });
}

#[cfg(not(feature = "opentelemetry"))]
pub(super) fn inject(_: &mut HeaderMap) {}
