//! How long a reflector waits before it tries again.

use std::time::Duration;

use tokio::time::Instant;

/// The longest Retry-After that is honoured.
const ASKED_MAX: Duration = Duration::from_secs(600);

/// Delays that double from try to try, each lengthened at random so that clients do not return at
/// the same moment.
///
/// How long a delay can become depends on the failure. A server that cannot be reached, or fails,
/// may be back at any moment. A server that answers and refuses will do so until somebody changes
/// something.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The first delay. 800 ms by default.
    pub initial: Duration,
    /// What each delay is multiplied by for the next. 2 by default.
    pub factor: f64,
    /// The longest delay, before it is lengthened. 30 s by default.
    pub cap: Duration,
    /// The longest delay, before it is lengthened, while the server cannot be reached or fails:
    /// refused and broken connections, timeouts, and answers of 500 and above. 2 s by default, so
    /// that with the default jitter the next try is at most 4 s away.
    pub unavailable_cap: Duration,
    /// By which part of itself each delay is lengthened at the most. 1 by default.
    pub jitter: f64,
    /// The sequence starts over when this much time has passed since it last did. 2 min by default.
    /// It also starts over after a watch that lived for ten seconds.
    pub reset_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
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
pub(super) enum Failure {
    /// The server cannot be reached or fails.
    Unavailable,
    /// The server answers and refuses, or something here fails.
    Refused,
}

/// Where in the sequence a reflector is.
#[derive(Debug)]
pub(super) struct Delays {
    backoff: Backoff,
    next: Duration,
    last_reset: Instant,
}

impl Delays {
    pub(super) fn new(backoff: Backoff) -> Self {
        Delays { next: backoff.initial, backoff, last_reset: Instant::now() }
    }

    /// The next delay, at least as long as the server asks for, within reason.
    pub(super) fn next(&mut self, failure: Failure, asked: Option<Duration>) -> Duration {
        if self.last_reset.elapsed() > self.backoff.reset_after {
            self.reset();
        }
        let cap = match failure {
            Failure::Unavailable => self.backoff.unavailable_cap.min(self.backoff.cap),
            Failure::Refused => self.backoff.cap,
        };
        let base = self.next.min(cap);
        self.next = base.mul_f64(self.backoff.factor).min(cap);
        let delay = base.mul_f64(1.0 + self.backoff.jitter * fastrand::f64());
        delay.max(asked.unwrap_or_default().min(ASKED_MAX))
    }

    /// Begins anew with the first delay.
    pub(super) fn reset(&mut self) {
        self.next = self.backoff.initial;
        self.last_reset = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(delays: &mut Delays, failure: Failure) -> u128 {
        delays.next(failure, None).as_millis()
    }

    // Go's TestNewReflectorWithCustomBackoff: 10+20+40+80+100 ms.
    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_cap() {
        let backoff = Backoff {
            initial: Duration::from_millis(10),
            cap: Duration::from_millis(100),
            jitter: 0.0,
            ..Backoff::default()
        };
        let mut delays = Delays::new(backoff);
        let sequence: Vec<u128> = (0..6).map(|_| next(&mut delays, Failure::Refused)).collect();
        assert_eq!(sequence, [10, 20, 40, 80, 100, 100]);
        assert_eq!(delays.next(Failure::Refused, Some(Duration::from_secs(5))).as_secs(), 5);
        assert_eq!(delays.next(Failure::Unavailable, Some(Duration::from_secs(2_147_483_647))).as_secs(), 600);
    }

    // RE-19: Go's numbers, and a reset two minutes after the last one.
    #[tokio::test(start_paused = true)]
    async fn the_defaults_are_those_of_go() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        let sequence: Vec<u128> = (0..8).map(|_| next(&mut delays, Failure::Refused)).collect();
        assert_eq!(sequence, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(next(&mut delays, Failure::Refused), 30_000);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(next(&mut delays, Failure::Refused), 800);
        // Counted from the last reset, not from the last failure.
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            next(&mut delays, Failure::Refused);
        }
        assert_eq!(next(&mut delays, Failure::Refused), 30_000);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(next(&mut delays, Failure::Refused), 800);
    }

    #[tokio::test(start_paused = true)]
    async fn the_current_failure_bounds_the_delay() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        for _ in 0..8 {
            next(&mut delays, Failure::Refused);
        }
        assert_eq!(next(&mut delays, Failure::Unavailable), 2000, "whatever happened before");
        assert_eq!(next(&mut delays, Failure::Refused), 2000, "and it grows from there");
        assert_eq!(next(&mut delays, Failure::Refused), 4000);
        delays.reset();
        let sequence: Vec<u128> = (0..4).map(|_| next(&mut delays, Failure::Unavailable)).collect();
        assert_eq!(sequence, [800, 1600, 2000, 2000]);
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_lengthens_within_its_bounds() {
        let mut at_most = Delays::new(Backoff { initial: Duration::from_secs(30), ..Backoff::default() });
        for _ in 0..100 {
            let delay = Delays::new(Backoff::default()).next(Failure::Refused, None);
            assert!((800..1600).contains(&delay.as_millis()), "{delay:?}");
            let delay = at_most.next(Failure::Refused, None);
            assert!((30..60).contains(&delay.as_secs()), "{delay:?}");
        }
    }
}
