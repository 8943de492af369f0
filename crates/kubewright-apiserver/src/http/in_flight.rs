//! The number of requests that are served at the same time.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of each kind at the same time, unless the owner of the server says otherwise.
pub(crate) const MAX_IN_FLIGHT: usize = 1000;

/// Limits requests in flight. Reads and writes have separate limits; watches have none.
#[derive(Debug)]
pub(crate) struct InFlight {
    reading: Arc<Semaphore>,
    writing: Arc<Semaphore>,
}

/// The place of a request, free again when it is dropped. A watch has none.
#[derive(Debug, Default)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    /// Room for this many requests of each kind.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        InFlight { reading: Arc::new(Semaphore::new(max)), writing: Arc::new(Semaphore::new(max)) }
    }

    /// A place for a request, `None` if there is none left.
    pub(crate) fn enter(&self, verb: &str) -> Option<Place> {
        let room = match verb {
            "watch" => return Some(Place::default()),
            "get" | "list" | "head" | "options" => &self.reading,
            _ => &self.writing,
        };
        let permit = Arc::clone(room).try_acquire_owned().ok()?;
        Some(Place { _permit: Some(permit) })
    }
}
