//! How a reflector is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::ReflectorError;
use super::marks::UndecodableObjects;

/// How a reflector is doing, as of the moment it was asked.
#[derive(Debug, Clone)]
pub struct Health {
    /// What it does.
    pub state: HealthState,
    /// Since when it does that.
    pub since: Instant,
    /// What went wrong last, and when. Kept when all is well again.
    pub last_error: Option<(Arc<ReflectorError>, Instant)>,
    /// When the server was last heard of: an object, an event or a bookmark.
    pub last_contact: Option<Instant>,
    /// How many lists it has completed, streamed ones included.
    pub lists: u64,
    /// How many tries have failed since something last succeeded.
    pub failures: u32,
    /// How many events and objects were reported because they could not be used: of another kind,
    /// without a name, or not to be decoded or transformed. Only grows.
    pub skipped: u64,
    /// The objects that cannot be decoded or transformed right now.
    pub undecodable: UndecodableObjects,
}

/// What a reflector does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthState {
    /// It has not been started.
    Idle,
    /// It reads all objects.
    Listing,
    /// It is in step and follows changes.
    Watching,
    /// It waits before it tries again.
    BackingOff,
    /// The server answered the last request with 404: it has no such resource. The store keeps its
    /// objects until there is [proof](crate::ListerWatcher::is_gone), and may be stale. Another
    /// answer or failure ends this state.
    Absent,
    /// It was stopped.
    Stopped,
}

impl Health {
    pub(super) fn new() -> Self {
        Health {
            state: HealthState::Idle,
            since: Instant::now(),
            last_error: None,
            last_contact: None,
            lists: 0,
            failures: 0,
            skipped: 0,
            undecodable: UndecodableObjects::default(),
        }
    }

    /// Whether it follows changes right now.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Watching
    }

    /// How long nothing has been heard of the server; with bookmarks this stays below a minute or so.
    pub fn silence(&self) -> Option<Duration> {
        self.last_contact.map(|at| at.elapsed())
    }

    /// How two do together: as the one that is worse off.
    pub(crate) fn and(self, other: Health) -> Health {
        let (worse, better) = if other.is_worse_than(&self) { (other, self) } else { (self, other) };
        Health {
            last_error: worse.last_error.or(better.last_error),
            last_contact: worse.last_contact.zip(better.last_contact).map(|(one, two)| one.min(two)),
            lists: worse.lists.min(better.lists),
            failures: worse.failures.max(better.failures),
            skipped: worse.skipped + better.skipped,
            undecodable: worse.undecodable.and(better.undecodable),
            ..worse
        }
    }

    fn is_worse_than(&self, other: &Health) -> bool {
        let rank = |health: &Health| (health.failures > 0, !health.is_healthy(), health.last_error.is_some());
        rank(self) > rank(other)
    }

    pub(super) fn enter(&mut self, state: HealthState) {
        if self.state != state {
            self.state = state;
            self.since = Instant::now();
        }
    }
}
