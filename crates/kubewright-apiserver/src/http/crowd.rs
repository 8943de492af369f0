//! How many requests are answered at the same time.

use tokio::sync::{Semaphore, SemaphorePermit};

/// How many requests of each kind are answered at once, unless the owner of the server says otherwise.
pub(crate) const MAX_IN_FLIGHT: usize = 1000;

/// Room for requests. Those that read do not keep out those that write, and watches take no room at all.
#[derive(Debug)]
pub(crate) struct Crowd {
    reading: Semaphore,
    writing: Semaphore,
}

impl Crowd {
    /// Room for this many of each kind.
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Crowd { reading: Semaphore::new(max), writing: Semaphore::new(max) }
    }

    /// A place for a request, `None` if there is none left.
    pub(crate) fn enter(&self, verb: &str) -> Option<Place<'_>> {
        let room = match verb {
            "watch" => return Some(Place { _permit: None }),
            "get" | "list" | "head" | "options" => &self.reading,
            _ => &self.writing,
        };
        room.try_acquire().ok().map(|permit| Place { _permit: Some(permit) })
    }
}

/// The place of a request, free again when it is dropped.
pub(crate) struct Place<'a> {
    _permit: Option<SemaphorePermit<'a>>,
}
