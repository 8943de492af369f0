//! Limits concurrent requests.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Default limit of concurrent requests of each kind.
pub(crate) const MAX_IN_FLIGHT: usize = 1000;

/// Limits requests in flight. Reads and writes have separate limits; watches have none.
#[derive(Debug)]
pub(crate) struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
}

/// The permit of a request, released on drop. Watches have none.
#[derive(Debug, Default)]
pub(crate) struct InFlightPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    /// Limits reads and writes to this number each.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        InFlight { reading: Arc::new(Semaphore::new(max)), writing: Arc::new(Semaphore::new(max)) }
    }

    /// A permit for a request. `None` if the limit is reached.
    pub(crate) fn enter(&self, verb: &str) -> Option<InFlightPermit> {
        let room = match verb {
            "watch" => return Some(InFlightPermit::default()),
            "get" | "list" | "head" | "options" => &self.reading,
            _ => &self.writing,
        };
        let permit = Arc::clone(room).try_acquire_owned().ok()?;
        Some(InFlightPermit { _permit: Some(permit) })
    }
}
