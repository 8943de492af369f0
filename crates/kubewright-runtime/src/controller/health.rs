//! Health of a controller and its parts.

use std::time::Duration;

use kubewright_cache::{Health, HealthState};
use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// Health of a controller at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ControllerHealth {
    /// The name of the controller.
    pub name: Str,
    /// Whether its workers run: all required relations have synced, and it has not been stopped.
    pub is_working: bool,
    /// The health of each watch, the main kind first. Empty after the controller has stopped.
    pub relations: Vec<RelationHealth>,
    /// Number of running reconciles.
    pub active: usize,
    /// Number of queued keys.
    pub waiting: usize,
    /// Duration of the longest running reconcile.
    pub longest_running: Option<Duration>,
    /// Feeds that panicked and request no more reconciles.
    pub broken_feeds: Vec<Str>,
    /// Objects that were given up, with the reasons.
    pub given_up: Vec<GivenUp>,
    /// Objects whose last reconcile failed, at most a hundred.
    pub failing: Vec<Failing>,
}

/// Health of one watch of a controller.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RelationHealth {
    /// The resource, such as `deployments.apps`.
    pub name: Str,
    /// Whether it is the main kind.
    pub is_main: bool,
    /// Whether the controller starts without it.
    pub is_optional: bool,
    /// Whether its initial list has been handled.
    pub has_synced: bool,
    /// The health of its reflector; `None` before it has started.
    pub watch: Option<Health>,
}

/// An object that a reconciler gave up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GivenUp {
    /// The object.
    pub key: ObjectKey,
    /// The reason.
    pub reason: String,
    /// The time.
    pub since: Instant,
}

/// An object whose last reconcile failed, and which is retried.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failing {
    /// The object.
    pub key: ObjectKey,
    /// The last error.
    pub error: String,
    /// Number of consecutive failures.
    pub attempts: u32,
}

impl RelationHealth {
    /// Whether it follows changes.
    #[inline]
    pub fn is_healthy(&self) -> bool {
        let follows = |health: &Health| {
            !matches!(health.state, HealthState::Absent | HealthState::Stopped) && health.failures == 0
        };
        self.has_synced && self.watch.as_ref().is_some_and(follows)
    }
}

impl ControllerHealth {
    /// Whether it is working, all watches are healthy, and no feed is broken.
    #[inline]
    pub fn is_healthy(&self) -> bool {
        self.is_working && self.broken_feeds.is_empty() && self.relations.iter().all(RelationHealth::is_healthy)
    }

    /// Whether it reconciles with complete caches: each required relation has synced and not
    /// stopped.
    ///
    /// A watch that fails after it has synced does not count: its cache stays, and it retries.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let has_stopped = |health: &Health| health.state == HealthState::Stopped;
        let is_kept =
            |relation: &RelationHealth| relation.has_synced && !relation.watch.as_ref().is_some_and(has_stopped);
        self.is_working && self.relations.iter().filter(|relation| !relation.is_optional).all(is_kept)
    }
}
