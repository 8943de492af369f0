//! A token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// Holds at most `burst` tokens, and gains one per `period`.
#[derive(Debug)]
pub(super) struct EventBucket {
    tokens: f64,
    burst: f64,
    period: Duration,
    at: Instant,
}

impl EventBucket {
    #[inline]
    pub(super) fn new(burst: u32, period: Duration) -> Self {
        EventBucket { tokens: burst.into(), burst: burst.into(), period, at: Instant::now() }
    }

    #[inline]
    pub(super) fn try_take(&mut self) -> bool {
        let now = Instant::now();
        let refilled = (now - self.at).as_secs_f64() / self.period.as_secs_f64();
        self.tokens = (self.tokens + refilled).min(self.burst);
        self.at = now;
        let is_enough = self.tokens >= 1.0;
        if is_enough {
            self.tokens -= 1.0;
        }
        is_enough
    }
}
