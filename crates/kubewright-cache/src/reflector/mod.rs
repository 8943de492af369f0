//! Keeps a store in step with the server: reads all objects, then follows changes.
//!
//! ```text
//! run ─> round: stream (watch.rs) or list (list.rs) ─> watch (watch.rs) ─> back off ─> round …
//! ```
//! A round begins with all objects, by a watch that sends them first or, where the server cannot, by a list. Each
//! object that the store has already is taken from there, so that old and new are never both in memory, and is not transformed
//! again. A watch that merely ends is resumed from the last version; only when that is forgotten does another round begin.

mod backoff;
mod error;
mod gathering;
mod health;
mod list;
mod options;
mod verify;
mod watch;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kubewright_core::{Object, ResourceVersion};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use error::ReflectorError;
pub use health::{Health, HealthState};
pub use options::{ErrorHandler, ReflectorOptions};

use crate::lister_watcher::ListerWatcher;
use crate::queue::ReflectorStore;
use crate::task;
use backoff::Delays;

/// Keeps a store, or the queue before one, in step with the server. A handle: clones share one reflector.
///
/// ```
/// use std::sync::Arc;
/// use kubewright_cache::{ListerWatcher, Reflector, ReflectorOptions, Store};
/// # use kubewright_core::DynamicObject;
/// # async fn example(foos: impl ListerWatcher<DynamicObject>, stop: tokio_util::sync::CancellationToken) {
/// let store = Store::<DynamicObject>::default();
/// let reflector = Reflector::new(foos, store.clone(), ReflectorOptions::default());
/// reflector.run(&stop).await;
/// # }
/// ```
pub struct Reflector<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    lister_watcher: Box<dyn ListerWatcher<T>>,
    store: Arc<dyn ReflectorStore<T>>,
    options: ReflectorOptions<T>,
    progress: Mutex<Progress>,
}

/// What is remembered from round to round.
struct Progress {
    health: Health,
    version: ResourceVersion,
    /// The server does not know the version: the next list asks for the newest state.
    is_version_unavailable: bool,
    /// A list of anything the server had came in pages, which means that it has no watch cache.
    is_paginated: bool,
    delays: Delays,
    internal_errors_since: Option<(Instant, Instant)>,
}

impl<T> Clone for Reflector<T> {
    fn clone(&self) -> Self {
        Reflector { shared: self.shared.clone() }
    }
}

impl<T: Object> Reflector<T> {
    /// A reflector that has not been started.
    #[doc(alias = "NewReflector")]
    pub fn new(
        lister_watcher: impl ListerWatcher<T>,
        store: impl ReflectorStore<T>,
        options: ReflectorOptions<T>,
    ) -> Self {
        Self::over(Box::new(lister_watcher), Arc::new(store), options)
    }

    pub(crate) fn over(
        lister_watcher: Box<dyn ListerWatcher<T>>,
        store: Arc<dyn ReflectorStore<T>>,
        options: ReflectorOptions<T>,
    ) -> Self {
        let progress = Progress {
            health: Health::new(),
            version: ResourceVersion::default(),
            is_version_unavailable: false,
            is_paginated: false,
            delays: Delays::new(options.backoff.clone()),
            internal_errors_since: None,
        };
        Reflector { shared: Arc::new(Shared { lister_watcher, store, options, progress: Mutex::new(progress) }) }
    }

    /// Keeps the store in step until `stop` is cancelled.
    ///
    /// Nothing that goes wrong ends it. Cancel safe, in that the store is whole at any moment.
    pub async fn run(&self, stop: &CancellationToken) {
        let _on_return = Stopped(self);
        task::run_until(stop, pin!(self.rounds())).await;
    }

    /// How it is doing.
    pub fn health(&self) -> Health {
        self.progress().health.clone()
    }

    /// The version it has seen last; empty before the first list.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.progress().version.clone()
    }

    async fn rounds(&self) {
        loop {
            let result = self.round().await;
            let has_listed = result.as_ref().err().is_none_or(ReflectorError::is_expired_watch);
            if has_listed && self.shared.lister_watcher.has_moved() {
                // Nothing has failed. The delay lets moves that come together be listed together.
                sleep(self.shared.options.backoff.initial).await;
                continue;
            }
            let asked = match result {
                Ok(()) => None,
                Err(error) => {
                    let asked = error.retry_after();
                    self.failed(error);
                    asked
                }
            };
            self.back_off(asked).await;
        }
    }

    /// Reads all objects and follows changes until neither goes on.
    async fn round(&self) -> Result<(), ReflectorError> {
        if self.health().state != HealthState::Absent {
            self.progress().health.enter(HealthState::Listing);
        }
        let streams = self.shared.options.stream_lists && self.shared.lister_watcher.supports_watch_list();
        let stream = if streams { self.stream_all().await } else { None };
        if stream.is_none() {
            self.list_all().await?;
        }
        self.watch(stream).await
    }

    /// All objects have been read.
    fn synced(&self, version: ResourceVersion) {
        let mut progress = self.progress();
        progress.version = version;
        progress.is_version_unavailable = false;
        progress.health.lists += 1;
        progress.health.failures = 0;
        progress.health.last_contact = Some(Instant::now());
        progress.health.enter(HealthState::Watching);
    }

    /// Notes and tells what went wrong.
    fn failed(&self, error: ReflectorError) {
        let name = &self.shared.options.name;
        let (was_absent, had_synced) = {
            let progress = self.progress();
            (progress.health.state == HealthState::Absent, progress.health.lists > 0)
        };
        if error.is_not_found() {
            self.progress().health.enter(HealthState::Absent);
            if was_absent {
                // Known already: a state, not another error.
                return;
            }
            if had_synced && let Err(error) = self.shared.store.replace(Vec::new(), ResourceVersion::default()) {
                tracing::warn!(reflector = %name, %error, "cannot empty the store of a resource that is gone");
            }
        }
        tracing::warn!(reflector = %name, error = &error as &dyn std::error::Error, "reflector failed, and goes on");
        self.tell(error);
    }

    /// Leaves an object out.
    fn skipped(&self, error: ReflectorError) {
        let name = &self.shared.options.name;
        tracing::error!(reflector = %name, error = &error as &dyn std::error::Error, "object left out");
        self.progress().health.skipped += 1;
        self.tell(error);
    }

    fn tell(&self, error: ReflectorError) {
        if let Some(handler) = &self.shared.options.on_error {
            handler(&error);
        }
        self.progress().health.last_error = Some((Arc::new(error), Instant::now()));
    }

    /// Waits for as long as failures have gone on, or as long as the server has asked for.
    pub(crate) async fn back_off(&self, asked: Option<std::time::Duration>) {
        let delay = {
            let mut progress = self.progress();
            progress.health.failures += 1;
            if progress.health.state != HealthState::Absent {
                progress.health.enter(HealthState::BackingOff);
            }
            progress.delays.next(asked)
        };
        sleep(delay).await;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a reflector no longer runs, however it came to that.
struct Stopped<'a, T: Object>(&'a Reflector<T>);

impl<T: Object> Drop for Stopped<'_, T> {
    fn drop(&mut self) {
        self.0.progress().health.enter(HealthState::Stopped);
    }
}

impl<T: Object> fmt::Debug for Reflector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = self.health();
        f.debug_struct("Reflector").field("name", &self.shared.options.name).field("state", &health.state).finish()
    }
}
