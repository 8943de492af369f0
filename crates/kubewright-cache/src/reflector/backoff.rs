//! Back-off of a reflector.

use std::time::Duration;

use tokio::time::Instant;

/// The longest Retry-After that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Exponential back-off with jitter.
///
/// The cap depends on the failure. A server that is unreachable or fails may recover at any moment.
/// A server that refuses requests will do so until its configuration changes.
#[derive(Debug, Clone, PartialEq)]
pub struct ReflectorBackoff {
    /// The first delay. 800 ms by default.
    pub initial: Duration,
    /// Factor between consecutive delays. 2 by default.
    pub factor: f64,
    /// The longest delay, before jitter. 30 s by default.
    pub cap: Duration,
    /// The longest delay, before jitter, while the server is unreachable or fails: refused and
    /// broken connections, timeouts, and responses of 500 and above. 2 s by default, so with the
    /// default jitter the next attempt is at most 4 s away.
    pub unavailable_cap: Duration,
    /// Maximum jitter, as a fraction of the delay. 1 by default.
    pub jitter: f64,
    /// The sequence restarts when this much time has passed since its last restart. 2 min by
    /// default. It also restarts after a watch that lasted ten seconds.
    pub reset_after: Duration,
}

impl Default for ReflectorBackoff {
    fn default() -> Self {
        ReflectorBackoff {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            unavailable_cap: Duration::from_secs(2),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// The kind of failure before a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The server is unreachable or fails.
    Unavailable,
    /// The server refuses the request, or local code fails.
    Refused,
}

/// A reflector's position in the sequence.
#[derive(Debug)]
pub(super) struct Delays {
    backoff: ReflectorBackoff,
    next: Duration,
    last_reset: Instant,
}

impl Delays {
    pub(super) fn new(backoff: ReflectorBackoff) -> Self {
        Delays { next: backoff.initial, backoff, last_reset: Instant::now() }
    }

    /// The next delay; at least the server's Retry-After, up to a limit.
    pub(super) fn next(&mut self, failure: FailureKind, asked: Option<Duration>) -> Duration {
        if self.last_reset.elapsed() > self.backoff.reset_after {
            self.reset();
        }
        let cap = match failure {
            FailureKind::Unavailable => self.backoff.unavailable_cap.min(self.backoff.cap),
            FailureKind::Refused => self.backoff.cap,
        };
        let base = self.next.min(cap);
        self.next = base.mul_f64(self.backoff.factor).min(cap);
        let delay = base.mul_f64(1.0 + self.backoff.jitter * fastrand::f64());
        delay.max(asked.unwrap_or_default().min(MAX_RETRY_AFTER))
    }

    /// Restarts with the first delay.
    pub(super) fn reset(&mut self) {
        self.next = self.backoff.initial;
        self.last_reset = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(delays: &mut Delays, failure: FailureKind) -> u128 {
        delays.next(failure, None).as_millis()
    }

    // Go's TestNewReflectorWithCustomBackoff: 10+20+40+80+100 ms.
    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_cap() {
        let backoff = ReflectorBackoff {
            initial: Duration::from_millis(10),
            cap: Duration::from_millis(100),
            jitter: 0.0,
            ..ReflectorBackoff::default()
        };
        let mut delays = Delays::new(backoff);
        let sequence: Vec<u128> = (0..6).map(|_| next(&mut delays, FailureKind::Refused)).collect();
        assert_eq!(sequence, [10, 20, 40, 80, 100, 100]);
        assert_eq!(delays.next(FailureKind::Refused, Some(Duration::from_secs(5))).as_secs(), 5);
        assert_eq!(delays.next(FailureKind::Unavailable, Some(Duration::from_secs(2_147_483_647))).as_secs(), 600);
    }

    // RE-19: Go's numbers, and a reset two minutes after the last one.
    #[tokio::test(start_paused = true)]
    async fn the_defaults_equal_those_of_client_go() {
        let mut delays = Delays::new(ReflectorBackoff { jitter: 0.0, ..ReflectorBackoff::default() });
        let sequence: Vec<u128> = (0..8).map(|_| next(&mut delays, FailureKind::Refused)).collect();
        assert_eq!(sequence, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(next(&mut delays, FailureKind::Refused), 30_000);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(next(&mut delays, FailureKind::Refused), 800);
        // Counted from the last reset, not from the last failure.
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            next(&mut delays, FailureKind::Refused);
        }
        assert_eq!(next(&mut delays, FailureKind::Refused), 30_000);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(next(&mut delays, FailureKind::Refused), 800);
    }

    #[tokio::test(start_paused = true)]
    async fn the_current_failure_bounds_the_delay() {
        let mut delays = Delays::new(ReflectorBackoff { jitter: 0.0, ..ReflectorBackoff::default() });
        for _ in 0..8 {
            next(&mut delays, FailureKind::Refused);
        }
        assert_eq!(next(&mut delays, FailureKind::Unavailable), 2000, "whatever happened before");
        assert_eq!(next(&mut delays, FailureKind::Refused), 2000, "and it grows from there");
        assert_eq!(next(&mut delays, FailureKind::Refused), 4000);
        delays.reset();
        let sequence: Vec<u128> = (0..4).map(|_| next(&mut delays, FailureKind::Unavailable)).collect();
        assert_eq!(sequence, [800, 1600, 2000, 2000]);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_lengthens_within_its_bounds() {
        let mut at_most =
            Delays::new(ReflectorBackoff { initial: Duration::from_secs(30), ..ReflectorBackoff::default() });
        for _ in 0..100 {
            let delay = Delays::new(ReflectorBackoff::default()).next(FailureKind::Refused, None);
            assert!((800..1600).contains(&delay.as_millis()), "{delay:?}");
            let delay = at_most.next(FailureKind::Refused, None);
            assert!((30..60).contains(&delay.as_secs()), "{delay:?}");
        }
    }
}
