//! Request metrics.

use std::time::Duration;

/// Receives request metrics.
///
/// With the feature `metrics` there is an implementation for Prometheus with client-go's metric
/// names.
pub trait RequestMetrics: Send + Sync + 'static {
    /// An attempt was answered or has failed.
    fn attempt(&self, report: &AttemptReport<'_>);
    /// A request waited for the rate limiter.
    fn throttled(&self, method: &str, waited: Duration);
    /// A request is retried because of this code, or of a broken connection.
    fn retried(&self, method: &str, code: Option<u16>);
}

/// One attempt at a request.
#[derive(Debug, Clone, Copy)]
pub struct AttemptReport<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The status code; `None` without a response.
    pub code: Option<u16>,
    /// Time until the response headers.
    pub duration: Duration,
    /// Size of the request body in bytes.
    pub request_size: usize,
    /// Size of the response body in bytes, if known.
    pub response_size: Option<u64>,
}
