//! The time of day, as tokio's clock has it.
//!
//! With a paused clock, tokio's time runs ahead of the system's. Timestamps and delays then agree
//! everywhere in the process, because this clock has no state: it adds to the system's time what
//! tokio's clock is ahead of it.

use kubewright_core::{MicroTime, Time};
use tokio::time::Instant;

use crate::observation;

/// The time of day; the simulated one within a runtime whose clock is paused.
#[doc(alias = "PassiveClock")]
#[must_use]
pub fn now() -> Time {
    // Rounds down once, so that it shows the same second as `now_micros`.
    Time::from_unix(now_micros().as_unix_micros().div_euclid(1_000_000)).unwrap_or_else(Time::now)
}

/// [`now`] with microseconds.
#[must_use]
pub fn now_micros() -> MicroTime {
    let now = unobserved_now();
    observation::current().map_or(now, |work| work.clock(now))
}

/// [`now_micros`] without a report to the observer of the current reconcile.
#[must_use]
pub fn unobserved_now() -> MicroTime {
    let now = MicroTime::now();
    now.checked_add(lead()).unwrap_or(now)
}

/// How far tokio's clock is ahead of the system's.
fn lead() -> std::time::Duration {
    Instant::now().into_std().saturating_duration_since(std::time::Instant::now())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_is_the_time_of_day() {
        let (before, micros) = (now(), now_micros());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let passed = now().duration_since(before).unwrap_or_default();
        assert!((3599..3700).contains(&passed.as_secs()), "{passed:?}");
        assert!(now_micros() > micros.checked_add(Duration::from_secs(3599)).unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn both_clocks_show_the_same_second() {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(330)).await;
            let (before, seconds, after) = (now_micros(), now().as_unix(), now_micros());
            let of = |time: MicroTime| time.as_unix_micros().div_euclid(1_000_000);
            assert!((of(before)..=of(after)).contains(&seconds), "{before} {seconds} {after}");
        }
    }

    #[tokio::test]
    async fn without_a_paused_clock_it_is_the_system_time() {
        let ahead = now().duration_since(Time::now()).unwrap_or_default();
        assert!(ahead.as_secs() <= 1, "{ahead:?}");
    }
}
