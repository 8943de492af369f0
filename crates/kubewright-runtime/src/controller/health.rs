//! How a controller is doing, the truth about each of its parts.

use std::time::Duration;

use kubewright_cache::{Health, HealthState};
use kubewright_core::{ObjectKey, Str};
use tokio::time::Instant;

/// How a controller is doing, as of the moment it was asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ControllerHealth {
    /// The name of the controller.
    pub name: Str,
    /// Whether its workers run: all relations that are not optional have synced, and it has not
    /// been stopped.
    pub is_working: bool,
    /// The health of each watch, the main kind first. Empty after the controller has stopped.
    pub relations: Vec<RelationHealth>,
    /// How many reconciles run.
    pub active: usize,
    /// How many keys wait for a worker.
    pub waiting: usize,
    /// How long the oldest reconcile has been running.
    pub longest_running: Option<Duration>,
    /// Feeds that panicked, so that what they would ask for is asked for by nobody.
    pub broken_feeds: Vec<Str>,
    /// Objects that were given up, and why.
    pub given_up: Vec<GivenUp>,
    /// Objects whose last reconcile failed, at most a hundred of them.
    pub failing: Vec<Failing>,
}

/// How one watch of a controller is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RelationHealth {
    /// The resource, as `deployments.apps`.
    pub name: Str,
    /// Whether it is the kind that is reconciled.
    pub is_main: bool,
    /// Whether the controller starts without it.
    pub is_optional: bool,
    /// Whether its first list is complete and has been handled.
    pub has_synced: bool,
    /// How its reflector is doing; absent before it has started.
    pub watch: Option<Health>,
}

/// An object that a reconciler gave up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GivenUp {
    /// The object.
    pub key: ObjectKey,
    /// Why.
    pub reason: String,
    /// When.
    pub since: Instant,
}

/// An object whose last reconcile failed, and which is tried again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Failing {
    /// The object.
    pub key: ObjectKey,
    /// The last error.
    pub error: String,
    /// How many reconciles have failed in a row.
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
    /// Whether it works, all that it watches is followed, and no feed is broken.
    #[inline]
    pub fn is_healthy(&self) -> bool {
        self.is_working && self.broken_feeds.is_empty() && self.relations.iter().all(RelationHealth::is_healthy)
    }

    /// Whether it reconciles with complete caches: each relation that is not optional has synced
    /// and not stopped.
    ///
    /// A watch that fails after it has synced does not count: its cache stays, and it tries again.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let has_stopped = |health: &Health| health.state == HealthState::Stopped;
        let is_kept =
            |relation: &RelationHealth| relation.has_synced && !relation.watch.as_ref().is_some_and(has_stopped);
        self.is_working && self.relations.iter().filter(|relation| !relation.is_optional).all(is_kept)
    }
}
