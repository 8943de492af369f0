//! Health of a reflector.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::ReflectorError;
use super::marks::UndecodableObjects;

/// Health of a reflector at one moment.
#[derive(Debug, Clone)]
pub struct Health {
    /// The current state.
    pub state: HealthState,
    /// When it entered this state.
    pub since: Instant,
    /// The last error and its time. Kept after recovery.
    pub last_error: Option<(Arc<ReflectorError>, Instant)>,
    /// When the server last sent an object, an event or a bookmark.
    pub last_contact: Option<Instant>,
    /// Number of completed lists, including streaming lists.
    pub lists: u64,
    /// Number of failures since the last success.
    pub failures: u32,
    /// Number of events and objects that were reported as unusable: of an unexpected kind, without
    /// a name, undecodable, or not transformable. Never decreases.
    pub skipped: u64,
    /// The objects that cannot be decoded or transformed right now.
    pub undecodable: UndecodableObjects,
}

/// State of a reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HealthState {
    /// Not started.
    Idle,
    /// Reading all objects.
    Listing,
    /// Synced, and following changes.
    Watching,
    /// Waiting before the next attempt.
    BackingOff,
    /// The server answered the last request with 404: it has no such resource. The store keeps its
    /// objects until there is [proof](crate::ListerWatcher::is_gone), and may be stale. Any other
    /// response or failure ends this state.
    Absent,
    /// Stopped for good.
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

    /// Whether it is following changes.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Watching
    }

    /// Time since the server last sent anything. With bookmarks this stays below about a minute.
    pub fn silence(&self) -> Option<Duration> {
        self.last_contact.map(|at| at.elapsed())
    }

    /// Combines two: the less healthy one determines the state.
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
