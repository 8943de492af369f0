//! The time that controllers write into objects and compare them with.

use kubewright_core::Time;
use tokio::time::Instant;

/// What time it is, by the later of the system's clock and tokio's.
///
/// Where tokio's clock is simulated, it runs ahead of the system's: delays and the times in objects then agree.
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
