//! A bucket that fills with tokens at a steady rate; each request takes one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a wait can last at the most, where the rate is so low that it would never end.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Lets `burst` requests through at once, and then `qps` each second.
///
/// Who waits is served in the order of asking. A wait that is given up gives its token back.
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
    /// Below zero by the number of those who wait.
    tokens: f64,
    at: Instant,
}

/// A wait would last beyond its deadline; no token was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit allows no request before the deadline")]
pub struct DeadlineTooSoon;

impl TokenBucket {
    /// A full bucket of `burst` tokens that `qps` flow into each second. A rate of zero lets nothing through after them.
    pub fn new(qps: f32, burst: u32) -> Self {
        let burst = f64::from(burst);
        // The shortest decimal form is what the caller meant: 0.1 as a float is not 0.1 as a double.
        let qps = qps.to_string().parse::<f64>().unwrap_or(0.0).max(0.0);
        TokenBucket { qps, burst, level: Mutex::new(Level { tokens: burst, at: Instant::now() }) }
    }

    /// The limits that client-go has by default: 5 each second, 10 at once.
    pub fn client_go() -> Self {
        TokenBucket::new(5.0, 10)
    }

    /// How many tokens flow in each second.
    #[doc(alias = "QPS")]
    pub fn qps(&self) -> f32 {
        self.qps as f32
    }

    /// Takes a token if there is one.
    #[doc(alias = "TryAccept")]
    #[inline]
    pub fn try_accept(&self) -> bool {
        self.refilled(|tokens| {
            let there = *tokens >= 1.0;
            *tokens -= if there { 1.0 } else { 0.0 };
            there
        })
    }

    /// Waits for a token and takes it; returns how long that was.
    ///
    /// Cancel safe: a dropped wait takes nothing.
    #[doc(alias = "Accept")]
    #[doc(alias = "Wait")]
    pub async fn accept(&self) -> Duration {
        let wait = self.reserve(None).unwrap_or(FOREVER);
        self.await_reserved(wait).await
    }

    /// As [`accept`](Self::accept), but fails at once where the wait would last beyond `deadline`.
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

    /// Takes a token that may still have to flow in, and says how long that takes.
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

/// Gives a token back that its waiter did not live to use.
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
    async fn a_wait_that_cannot_end_in_time_fails_at_once_and_takes_nothing() {
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
