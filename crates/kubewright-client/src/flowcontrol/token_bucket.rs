//! A token bucket.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Maximum wait, for rates so low that it would never end.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Allows a burst of `burst` requests, then `qps` per second.
///
/// Waiters are served in FIFO order. A cancelled wait returns its token.
///
/// ```
/// # use kubewright_client::flowcontrol::TokenBucket;
/// let bucket = TokenBucket::new(5.0, 2);
/// assert!(bucket.try_accept() && bucket.try_accept());
/// assert!(!bucket.try_accept());
/// ```
#[derive(Debug)]
#[doc(alias = "RateLimiter")]
#[doc(alias = "NewTokenBucketRateLimiter")]
pub struct TokenBucket {
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// Negative by the number of waiters.
    tokens: f64,
    at: Instant,
}

/// The wait would exceed its deadline; no token was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit allows no request before the deadline")]
pub struct DeadlineTooSoon;

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled with `qps` per second. With a rate of zero only
    /// the burst passes.
    pub fn new(qps: f32, burst: u32) -> Self {
        let burst = f64::from(burst);
        // Converts through the shortest decimal form: 0.1 as `f32` is not 0.1 as `f64`.
        let qps = qps.to_string().parse::<f64>().unwrap_or(0.0).max(0.0);
        TokenBucket { qps, burst, level: Mutex::new(Level { tokens: burst, at: Instant::now() }) }
    }

    /// client-go's defaults: 5 per second, a burst of 10.
    pub fn client_go() -> Self {
        TokenBucket::new(5.0, 10)
    }

    /// Tokens per second.
    #[doc(alias = "QPS")]
    pub fn qps(&self) -> f32 {
        self.qps as f32
    }

    /// Takes a token if one is available.
    #[doc(alias = "TryAccept")]
    #[inline]
    pub fn try_accept(&self) -> bool {
        self.refilled(|tokens| {
            let there = *tokens >= 1.0;
            *tokens -= if there { 1.0 } else { 0.0 };
            there
        })
    }

    /// Waits for a token and takes it; returns the waiting time.
    ///
    /// Cancel safe: a dropped wait takes nothing.
    #[doc(alias = "Accept")]
    #[doc(alias = "Wait")]
    pub async fn accept(&self) -> Duration {
        let wait = self.reserve(None).unwrap_or(FOREVER);
        self.await_reserved(wait).await
    }

    /// Like [`accept`](Self::accept), but fails immediately if the wait would exceed `deadline`.
    #[doc(alias = "Wait")]
    pub async fn accept_before(&self, deadline: Instant) -> Result<Duration, DeadlineTooSoon> {
        let wait = self.reserve(Some(deadline)).ok_or(DeadlineTooSoon)?;
        Ok(self.await_reserved(wait).await)
    }

    async fn await_reserved(&self, wait: Duration) -> Duration {
        if wait.is_zero() {
            return wait;
        }
        let mut reservation = Reservation { bucket: self, given_up: true };
        sleep(wait).await;
        reservation.given_up = false;
        wait
    }

    /// Reserves a token and returns the time until it is available.
    fn reserve(&self, deadline: Option<Instant>) -> Option<Duration> {
        self.refilled(|tokens| {
            let missing = (1.0 - *tokens).max(0.0);
            let wait = match missing {
                0.0 => Duration::ZERO,
                missing => Duration::try_from_secs_f64(missing / self.qps).unwrap_or(FOREVER).min(FOREVER),
            };
            let too_late = deadline.is_some_and(|deadline| Instant::now() + wait > deadline);
            *tokens -= if too_late { 0.0 } else { 1.0 };
            (!too_late).then_some(wait)
        })
    }

    fn refilled<R>(&self, act: impl FnOnce(&mut f64) -> R) -> R {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(level.at).as_secs_f64();
        level.tokens = (level.tokens + passed * self.qps).min(self.burst);
        level.at = now;
        act(&mut level.tokens)
    }
}

/// Returns the token of a cancelled wait.
struct Reservation<'a> {
    bucket: &'a TokenBucket,
    given_up: bool,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.given_up {
            self.bucket.refilled(|tokens| *tokens += 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_starts_full_and_refills_at_its_rate() {
        // FC-1
        let bucket = TokenBucket::new(2.0, 3);
        for _ in 0..3 {
            assert!(bucket.try_accept());
        }
        assert!(!bucket.try_accept());
        sleep(Duration::from_millis(500)).await;
        assert!(bucket.try_accept() && !bucket.try_accept());
        sleep(Duration::from_secs(60)).await;
        let taken = (0..10).filter(|_| bucket.try_accept()).count();
        assert_eq!(taken, 3, "it holds no more than its burst");
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_order_at_the_rate() {
        // FC-1
        let bucket = TokenBucket::new(10.0, 1);
        let start = Instant::now();
        let done = |_| async {
            bucket.accept().await;
            start.elapsed().as_millis()
        };
        let (a, b, c) = tokio::join!(done(0), done(1), done(2));
        assert_eq!([a, b, c], [0, 100, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_its_deadline_fails_immediately_and_takes_no_token() {
        // FC-1
        let bucket = TokenBucket::new(1.0, 1);
        assert!(bucket.try_accept());
        let start = Instant::now();
        let soon = start + Duration::from_millis(900);
        assert_eq!(bucket.accept_before(soon).await, Err(DeadlineTooSoon));
        assert_eq!(start.elapsed(), Duration::ZERO);
        let later = start + Duration::from_secs(1);
        assert_eq!(bucket.accept_before(later).await, Ok(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_given_up_gives_its_token_back() {
        let bucket = TokenBucket::new(1.0, 1);
        assert!(bucket.try_accept());
        let given_up = tokio::time::timeout(Duration::from_millis(100), bucket.accept()).await;
        assert!(given_up.is_err());
        assert_eq!(bucket.accept().await, Duration::from_millis(900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_rate_keeps_its_precision() {
        // FC-1, TestRatePrecisionBug: a token of 0.1 a second takes ten seconds, not ten and a bit.
        let bucket = TokenBucket::new(0.1, 1);
        assert!(bucket.try_accept());
        assert_eq!(bucket.accept().await, Duration::from_secs(10));
    }
}
