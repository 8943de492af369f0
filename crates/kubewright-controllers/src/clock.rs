//! The clock of controllers.

use kubewright_core::Time;
use tokio::time::Instant;

/// The later of the system clock and tokio's clock.
///
/// With a paused clock, tokio's time runs ahead of the system's: delays and times in objects then
/// agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Time,
    epoch: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { start: Time::now(), epoch: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        let simulated = self.start.checked_add(self.epoch.elapsed()).unwrap_or(self.start);
        simulated.max(Time::now())
    }
}
