//! How long a reflector waits before it tries again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// The longest that a server may ask for: one that means 68 years does not mean it.
const ASKED_MAX: Duration = Duration::from_secs(600);

/// Delays that double from try to try, each lengthened at random so that clients do not come back all at once.
///
/// After a quiet time without failures the first delay comes again.
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// The first delay. 800 ms by default.
    pub initial: Duration,
    /// What each delay is multiplied by for the next. 2 by default.
    pub factor: f64,
    /// The longest delay, before it is lengthened. 30 s by default.
    pub cap: Duration,
    /// By which part of itself each delay is lengthened at the most. 1 by default.
    pub jitter: f64,
    /// How long nothing must fail until the first delay comes again. 2 min by default.
    pub reset_after: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            initial: Duration::from_millis(800),
            factor: 2.0,
            cap: Duration::from_secs(30),
            jitter: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// Where in the sequence a reflector is.
#[derive(Debug)]
pub(super) struct Delays {
    backoff: Backoff,
    next: Duration,
    /// When the last delay was over.
    until: Option<Instant>,
}

impl Delays {
    pub(super) fn new(backoff: Backoff) -> Self {
        Delays { next: backoff.initial, backoff, until: None }
    }

    /// The next delay, at least as long as the server asks for, within reason.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let now = Instant::now();
        if self.until.is_some_and(|until| now.saturating_duration_since(until) >= self.backoff.reset_after) {
            self.next = self.backoff.initial;
        }
        let delay = self.next.mul_f64(1.0 + self.backoff.jitter * random());
        self.next = self.next.mul_f64(self.backoff.factor).min(self.backoff.cap);
        let delay = delay.max(asked.unwrap_or_default().min(ASKED_MAX));
        self.until = Some(now + delay);
        delay
    }
}

/// A number from 0 up to 1.
pub(super) fn random() -> f64 {
    // The keys of each hasher differ, so that its hash of nothing is as good as random.
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    // RE-19, and Go's TestNewReflectorWithCustomBackoff: 10+20+40+80+100 ms.
    #[tokio::test(start_paused = true)]
    async fn delays_double_up_to_the_cap_and_start_again_after_a_quiet_time() {
        let backoff = Backoff {
            initial: Duration::from_millis(10),
            cap: Duration::from_millis(100),
            jitter: 0.0,
            ..Backoff::default()
        };
        let mut delays = Delays::new(backoff);
        let mut sequence = Vec::new();
        for _ in 0..6 {
            let delay = delays.next(None);
            tokio::time::sleep(delay).await;
            sequence.push(delay.as_millis());
        }
        assert_eq!(sequence, [10, 20, 40, 80, 100, 100]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(delays.next(None).as_millis(), 10);
        assert_eq!(delays.next(Some(Duration::from_secs(5))).as_secs(), 5);
        assert_eq!(delays.next(Some(Duration::from_secs(2_147_483_647))).as_secs(), 600);
    }

    // RE-19: Go's numbers.
    #[tokio::test(start_paused = true)]
    async fn the_defaults_are_those_of_go() {
        let mut delays = Delays::new(Backoff { jitter: 0.0, ..Backoff::default() });
        let sequence: Vec<u128> = (0..8).map(|_| delays.next(None).as_millis()).collect();
        assert_eq!(sequence, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        tokio::time::sleep(Duration::from_secs(30 + 119)).await;
        assert_eq!(delays.next(None).as_millis(), 30_000, "two minutes after the last delay was over");
        tokio::time::sleep(Duration::from_secs(30 + 120)).await;
        assert_eq!(delays.next(None).as_millis(), 800);
    }

    #[test]
    fn jitter_lengthens_within_its_bounds() {
        let mut at_most = Delays::new(Backoff { initial: Duration::from_secs(30), ..Backoff::default() });
        for _ in 0..100 {
            let delay = Delays::new(Backoff::default()).next(None);
            assert!((800..1600).contains(&delay.as_millis()), "{delay:?}");
            let delay = at_most.next(None);
            assert!((30..60).contains(&delay.as_secs()), "{delay:?}");
        }
    }
}
