//! What a client tells of its requests.

use std::time::Duration;

/// Somebody who counts requests, in whatever form the program shows its metrics.
///
/// With the feature `metrics` there is one for Prometheus, with the names that Go's client uses.
pub trait RequestMetrics: Send + Sync + 'static {
    /// One attempt at a request has been answered, or has failed.
    fn attempt(&self, report: &AttemptReport<'_>);
    /// A request has waited so long for the rate limit.
    fn throttled(&self, method: &str, waited: Duration);
    /// A request will be sent again because of this code, or of a broken connection.
    fn retried(&self, method: &str, code: Option<u16>);
}

/// One attempt at a request.
#[derive(Debug, Clone, Copy)]
pub struct AttemptReport<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The code of the answer; none if there was no answer.
    pub code: Option<u16>,
    /// How long it took until the head of the answer had come.
    pub duration: Duration,
    /// How many bytes were sent.
    pub request_size: usize,
    /// How many bytes come, where the answer says so.
    pub response_size: Option<u64>,
}
