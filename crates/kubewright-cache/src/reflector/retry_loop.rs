//! The retry loop of a reflector, and its health.

use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_client::Error;
use kubewright_core::ResourceVersion;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::backoff::{Delays, FailureKind};
use super::error::failure_of;
use super::intake::Pipeline;
use super::options::CommonOptions;
use super::{Health, HealthState, ReflectorError};
use crate::queue::BoxFuture;
use crate::task;

/// A type-erased reflector.
pub(super) struct ReflectorLoop {
    pub(super) pipeline: Box<dyn Pipeline>,
    pub(super) common: CommonOptions,
    progress: Mutex<ReflectorProgress>,
}

/// State that is kept between retry_loop.
pub(super) struct ReflectorProgress {
    pub(super) health: Health,
    pub(super) version: ResourceVersion,
    /// The version has expired on the server: the next list requests the newest state.
    pub(super) is_version_unavailable: bool,
    /// A list from "0" was paginated, which means that the server has no watch cache.
    pub(super) is_paginated: bool,
    pub(super) delays: Delays,
    /// The last watch expired, and none has lasted since.
    pub(super) has_expired: bool,
    /// The store was emptied because the resource no longer exists.
    is_emptied: bool,
    pub(super) internal_errors_since: Option<(Instant, Instant)>,
}

impl ReflectorLoop {
    pub(super) fn new(pipeline: Box<dyn Pipeline>, common: CommonOptions) -> Arc<Self> {
        let progress = ReflectorProgress {
            health: Health::new(),
            version: ResourceVersion::default(),
            is_version_unavailable: false,
            is_paginated: false,
            delays: Delays::new(common.backoff.clone()),
            has_expired: false,
            is_emptied: false,
            internal_errors_since: None,
        };
        Arc::new(ReflectorLoop { pipeline, common, progress: Mutex::new(progress) })
    }

    /// Runs until `stop` is cancelled. Boxed, so that it is compiled in this crate.
    pub(super) fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _on_return = ReflectorStop(self);
            task::run_until(stop, pin!(self.retry_loop())).await;
        })
    }

    /// Runs one round; returns why it ended, or `None` if `stop` was cancelled.
    pub(super) fn list_and_watch<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, Option<ReflectorError>> {
        Box::pin(async move {
            let _on_return = ReflectorStop(self);
            let Err(error) = stop.run_until_cancelled(self.round()).await?;
            Some(error)
        })
    }

    pub(super) fn health(&self) -> Health {
        let undecodable = self.pipeline.undecodable();
        Health { undecodable, ..self.progress().health.clone() }
    }

    /// The version that was seen last.
    pub(super) fn version(&self) -> ResourceVersion {
        self.progress().version.clone()
    }

    async fn retry_loop(&self) {
        loop {
            let Err(error) = self.round().await;
            if error.is_expired_watch() {
                if self.pipeline.has_moved() {
                    // This is not a failure. The delay merges several moves into one list.
                    sleep(self.common.backoff.initial).await;
                    continue;
                }
                // The server responded, and only a list helps. A server that always returns
                // "expired" is not polled in a hot loop.
                if !std::mem::replace(&mut self.progress().has_expired, true) {
                    self.reported(error);
                    continue;
                }
            }
            let (failure, asked) = (error.failure(), error.retry_after());
            if error.is_not_found() {
                self.not_found(error).await;
            } else {
                self.leave_absent();
                self.reported(error);
            }
            self.back_off(failure, asked).await;
        }
    }

    /// Lists all objects and watches changes until another list is needed.
    async fn round(&self) -> Result<Infallible, ReflectorError> {
        if self.health().state != HealthState::Absent {
            self.progress().health.enter(HealthState::Listing);
        }
        let streams = self.common.stream_lists && self.pipeline.supports_watch_list();
        let stream = if streams { self.stream_all().await } else { None };
        if stream.is_none() {
            self.list_all().await?;
        }
        Err(self.watch(stream).await)
    }

    /// Records a completed list.
    pub(super) fn synced(&self, version: ResourceVersion) {
        let mut progress = self.progress();
        progress.version = version;
        progress.is_version_unavailable = false;
        progress.is_emptied = false;
        progress.health.lists += 1;
        progress.health.failures = 0;
        progress.health.last_contact = Some(Instant::now());
        progress.health.enter(HealthState::Watching);
    }

    /// Records and reports a failed round.
    fn reported(&self, error: ReflectorError) {
        let name = &self.common.name;
        tracing::warn!(reflector = %name, error = &error as &dyn std::error::Error, "reflector failed; listing again");
        self.tell(error);
    }

    /// Handles a 404. A broken proxy may return it too, so objects stay in the store unless there
    /// is proof or the user opted in. Only the first 404 in a row is reported.
    async fn not_found(&self, error: ReflectorError) {
        let was_absent = {
            let mut progress = self.progress();
            let was_absent = progress.health.state == HealthState::Absent;
            progress.health.enter(HealthState::Absent);
            was_absent
        };
        if !was_absent {
            self.reported(error);
        }
        let is_emptied = {
            let progress = self.progress();
            progress.is_emptied || progress.health.lists == 0
        };
        if !is_emptied && (self.common.empties_when_not_found || self.pipeline.is_gone().await) {
            tracing::info!(reflector = %self.common.name, "resource no longer exists; cache emptied");
            self.progress().is_emptied = true;
            self.pipeline.empty();
        }
    }

    /// Leaves the state `Absent`, because the current failure is a different one.
    fn leave_absent(&self) {
        let mut progress = self.progress();
        if progress.health.state == HealthState::Absent {
            progress.health.enter(HealthState::BackingOff);
        }
    }

    /// Records and reports an unreachable or overloaded server, and waits before the same request
    /// is repeated.
    pub(super) async fn wait_for_server(&self, error: Error) {
        let name = &self.common.name;
        let (failure, asked) = (failure_of(&error), error.retry_after());
        tracing::warn!(reflector = %name, error = &error as &dyn std::error::Error, "server unavailable; backing off");
        self.leave_absent();
        self.tell(ReflectorError::Watch(error));
        self.back_off(failure, asked).await;
    }

    /// Records and reports an unusable object.
    pub(super) fn skipped(&self, error: ReflectorError) {
        let name = &self.common.name;
        tracing::error!(reflector = %name, error = &error as &dyn std::error::Error, "unusable object");
        self.progress().health.skipped += 1;
        self.tell(error);
    }

    /// Like [`skipped`](Self::skipped), for an optional error.
    pub(super) fn report(&self, error: Option<Box<ReflectorError>>) {
        if let Some(error) = error {
            self.skipped(*error);
        }
    }

    pub(super) fn tell(&self, error: ReflectorError) {
        if let Some(handler) = &self.common.on_error
            && catch_unwind(AssertUnwindSafe(|| handler(&error))).is_err()
        {
            tracing::error!(reflector = %self.common.name, %error, "error handler panicked");
        }
        self.progress().health.last_error = Some((Arc::new(error), Instant::now()));
    }

    /// Waits for the back-off, or for the server's Retry-After.
    pub(super) fn back_off(&self, failure: FailureKind, asked: Option<Duration>) -> Sleep {
        let mut progress = self.progress();
        progress.health.failures += 1;
        if progress.health.state != HealthState::Absent {
            progress.health.enter(HealthState::BackingOff);
        }
        sleep(progress.delays.next(failure, asked))
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, ReflectorProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records on drop that the reflector has stopped.
struct ReflectorStop<'a>(&'a ReflectorLoop);

impl Drop for ReflectorStop<'_> {
    fn drop(&mut self) {
        self.0.progress().health.enter(HealthState::Stopped);
    }
}

impl fmt::Debug for ReflectorLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = self.health();
        f.debug_struct("Reflector").field("name", &self.common.name).field("state", &health.state).finish()
    }
}
