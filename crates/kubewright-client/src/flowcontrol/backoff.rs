//! Exponential back-off by key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Exponential back-off for several keys.
///
/// The first failure causes the initial delay, each further one doubles it up to the maximum. A key
/// without failures for twice the maximum, or for [`expire_after`](Self::expire_after), starts
/// over. The caller decides what a delay is measured from.
///
/// ```
/// # use std::time::Duration;
/// # use kubewright_client::flowcontrol::Backoff;
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(50));
/// let pauses: Vec<u64> = (0..8).map(|_| backoff.fail("host").as_secs()).collect();
/// assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 50, 50]);
/// ```
#[derive(Debug)]
#[doc(alias = "NewBackOff")]
pub struct Backoff<K> {
    initial: Duration,
    maximum: Duration,
    jitter: f64,
    expires_after: Duration,
    entry_of: HashMap<K, BackoffEntry>,
}

#[derive(Debug)]
struct BackoffEntry {
    pause: Duration,
    failed_at: Instant,
}

impl<K: Hash + Eq> Backoff<K> {
    /// Delays from `initial` to `maximum`.
    #[doc(alias = "NewBackOffWithJitter")]
    pub fn new(initial: Duration, maximum: Duration) -> Self {
        Backoff { initial, maximum, jitter: 0.0, expires_after: maximum.saturating_mul(2), entry_of: HashMap::new() }
    }

    /// A key without failures for longer than this starts over. Twice the maximum by default.
    #[must_use]
    #[doc(alias = "HasExpiredFunc")]
    pub fn expire_after(mut self, time: Duration) -> Self {
        self.expires_after = time;
        self
    }

    /// Lengthens each delay by up to this fraction of the previous one. None by default.
    #[must_use]
    pub fn jitter(mut self, factor: f64) -> Self {
        self.jitter = factor.clamp(0.0, 1.0);
        self
    }

    /// Records a failure and returns the resulting delay.
    #[doc(alias = "Next")]
    pub fn fail(&mut self, key: K) -> Duration {
        let now = Instant::now();
        let (initial, maximum, jitter, expires_after) = (self.initial, self.maximum, self.jitter, self.expires_after);
        let extra = |pause: Duration| pause.mul_f64(jitter * fastrand::f64());
        let entry = self.entry_of.entry(key).or_insert(BackoffEntry { pause: Duration::ZERO, failed_at: now });
        let expired = now.saturating_duration_since(entry.failed_at) > expires_after;
        entry.pause = match entry.pause {
            pause if pause.is_zero() || expired => initial.saturating_add(extra(initial)),
            pause => pause.saturating_mul(2).saturating_add(extra(pause)),
        }
        .min(maximum);
        entry.failed_at = now;
        entry.pause
    }

    /// The delay of a key; zero without failures.
    #[doc(alias = "Get")]
    pub fn pause(&self, key: &K) -> Duration {
        self.entry_of.get(key).map_or(Duration::ZERO, |entry| entry.pause)
    }

    /// Whether `at` is within the delay after the last failure.
    #[doc(alias = "IsInBackOffSinceUpdate")]
    pub fn is_in_backoff(&self, key: &K, at: Instant) -> bool {
        let Some(entry) = self.entry_of.get(key) else { return false };
        !self.has_expired(entry, at) && at.saturating_duration_since(entry.failed_at) < entry.pause
    }

    /// Whether less than the delay has passed since `since`, for a key that failed recently.
    #[doc(alias = "IsInBackOffSince")]
    pub fn is_in_backoff_since(&self, key: &K, since: Instant) -> bool {
        let Some(entry) = self.entry_of.get(key) else { return false };
        !self.has_expired(entry, since) && since.elapsed() < entry.pause
    }

    /// Resets a key.
    #[doc(alias = "Reset")]
    pub fn reset(&mut self, key: &K) {
        self.entry_of.remove(key);
    }

    /// Removes all expired keys, to free their memory.
    #[doc(alias = "GC")]
    pub fn collect_garbage(&mut self) {
        let (now, limit) = (Instant::now(), self.expires_after);
        self.entry_of.retain(|_, entry| now.saturating_duration_since(entry.failed_at) <= limit);
    }

    fn has_expired(&self, entry: &BackoffEntry, at: Instant) -> bool {
        at.saturating_duration_since(entry.failed_at) > self.expires_after
    }
}

/// A delay before requests to a server that answers 429 or 5xx, or not at all.
///
/// client-go has one per host; a [`Client`](crate::Client) has a single host.
#[derive(Debug)]
#[doc(alias = "URLBackoff")]
pub struct ErrorBackoff {
    failures: Mutex<Backoff<()>>,
}

impl ErrorBackoff {
    /// Delays from `initial` to `maximum`.
    #[inline]
    pub fn new(initial: Duration, maximum: Duration) -> Self {
        ErrorBackoff { failures: Mutex::new(Backoff::new(initial, maximum)) }
    }

    /// From the variables `KUBE_CLIENT_BACKOFF_BASE` and `KUBE_CLIENT_BACKOFF_DURATION`, in
    /// seconds; `None` unless both are positive numbers.
    ///
    /// `variable` looks one up; use `|name| std::env::var(name).ok()` for those of the process.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let seconds =
            |name| variable(name)?.parse::<u64>().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        Some(ErrorBackoff::new(seconds("KUBE_CLIENT_BACKOFF_BASE")?, seconds("KUBE_CLIENT_BACKOFF_DURATION")?))
    }

    /// The delay of the next request.
    pub fn pause(&self) -> Duration {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).pause(&())
    }

    /// Records the code of a response, or that there was none.
    #[doc(alias = "UpdateBackoff")]
    pub fn update(&self, code: Option<u16>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match code {
            Some(429 | 500..) | None => drop(failures.fail(())),
            Some(_) => failures.reset(&()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_maximum() {
        // FC-2, TestSlowBackoff
        let mut backoff = Backoff::new(SECOND, 50 * SECOND);
        let mut pauses = vec![backoff.pause(&"a").as_secs()];
        pauses.extend((0..8).map(|_| backoff.fail("a").as_secs()));
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 50, 50]);
        assert_eq!(backoff.pause(&"b"), Duration::ZERO);
        backoff.reset(&"a");
        assert_eq!(backoff.pause(&"a"), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_without_failures_for_long_restarts_at_the_initial_delay() {
        // FC-2, TestBackoffHighWaterMark and TestBackoffGC
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        backoff.fail("a");
        assert_eq!(backoff.fail("a"), 2 * SECOND);
        sleep(20 * SECOND).await;
        assert_eq!(backoff.fail("a"), 4 * SECOND, "exactly twice the maximum is not yet long");
        sleep(21 * SECOND).await;
        backoff.collect_garbage();
        assert_eq!(backoff.pause(&"a"), Duration::ZERO);
        assert_eq!(backoff.fail("a"), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_is_long_can_be_chosen() {
        // FC-2, TestAlternateBackoffGC
        let mut backoff = Backoff::new(SECOND, 10 * SECOND).expire_after(3 * SECOND);
        assert_eq!([backoff.fail("a"), backoff.fail("a")], [SECOND, 2 * SECOND]);
        sleep(3 * SECOND).await;
        backoff.collect_garbage();
        assert_eq!(backoff.pause(&"a"), 2 * SECOND);
        sleep(SECOND).await;
        assert_eq!(backoff.fail("a"), SECOND);
        sleep(4 * SECOND).await;
        backoff.collect_garbage();
        assert_eq!(backoff.pause(&"a"), Duration::ZERO);
        let mut without_end = Backoff::new(Duration::MAX / 2, Duration::MAX);
        assert_eq!([(); 3].map(|()| without_end.fail("a")).last(), Some(&Duration::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_over_when_its_time_has_passed() {
        // FC-2, TestIsInBackOffSinceUpdate
        let mut backoff = Backoff::new(SECOND, 10 * SECOND);
        backoff.fail("a");
        backoff.fail("a");
        let failed = Instant::now();
        for (after, inside) in [(0, true), (1, true), (2, false), (15, false), (30, false)] {
            assert_eq!(backoff.is_in_backoff(&"a", failed + after * SECOND), inside, "{after}");
        }
        assert!(backoff.is_in_backoff_since(&"a", failed));
        sleep(2 * SECOND).await;
        assert!(!backoff.is_in_backoff_since(&"a", failed));
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_adds_at_most_its_part_of_the_old_pause() {
        // FC-2
        let mut backoff = Backoff::new(SECOND, 100 * SECOND).jitter(0.5);
        let first = backoff.fail("a");
        assert!((SECOND..=SECOND + SECOND / 2).contains(&first));
        let second = backoff.fail("a");
        assert!((first * 2..=first * 2 + first / 2).contains(&second));
    }

    #[test]
    fn both_variables_are_needed() {
        // RC-12
        let both = |name: &str| Some(if name.ends_with("BASE") { "1" } else { "30" }.to_owned());
        assert!(ErrorBackoff::from_variables(both).is_some());
        assert!(ErrorBackoff::from_variables(|name| both(name).filter(|_| name.ends_with("BASE"))).is_none());
        assert!(ErrorBackoff::from_variables(|_| Some("often".into())).is_none());
    }
}
