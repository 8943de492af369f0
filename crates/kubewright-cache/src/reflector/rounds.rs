//! Goes from round to round, and keeps account of how that goes.

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

use super::backoff::{Delays, Failure};
use super::error::failure_of;
use super::intake::Subject;
use super::options::Choices;
use super::{Health, HealthState, ReflectorError};
use crate::queue::BoxFuture;
use crate::task;

/// A reflector of objects of whatever type.
pub(super) struct Shared {
    pub(super) subject: Box<dyn Subject>,
    pub(super) choices: Choices,
    progress: Mutex<Progress>,
}

/// What is remembered from round to round.
pub(super) struct Progress {
    pub(super) health: Health,
    pub(super) version: ResourceVersion,
    /// The server does not know the version: the next list asks for the newest state.
    pub(super) is_version_unavailable: bool,
    /// A list of anything the server had came in pages, which means that it has no watch cache.
    pub(super) is_paginated: bool,
    pub(super) delays: Delays,
    /// The last watch expired, and none has lived since.
    pub(super) has_expired: bool,
    /// The store was emptied because the resource is gone.
    is_emptied: bool,
    pub(super) internal_errors_since: Option<(Instant, Instant)>,
}

impl Shared {
    pub(super) fn new(subject: Box<dyn Subject>, choices: Choices) -> Arc<Self> {
        let progress = Progress {
            health: Health::new(),
            version: ResourceVersion::default(),
            is_version_unavailable: false,
            is_paginated: false,
            delays: Delays::new(choices.backoff.clone()),
            has_expired: false,
            is_emptied: false,
            internal_errors_since: None,
        };
        Arc::new(Shared { subject, choices, progress: Mutex::new(progress) })
    }

    /// Goes on until `stop` is cancelled. In a box, for all of it to be compiled here and not in each program.
    pub(super) fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _on_return = Stopped(self);
            task::run_until(stop, pin!(self.rounds())).await;
        })
    }

    /// Does one round, and returns why it ended, or nothing if `stop` was cancelled.
    pub(super) fn list_and_watch<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, Option<ReflectorError>> {
        Box::pin(async move {
            let _on_return = Stopped(self);
            let Err(error) = stop.run_until_cancelled(self.round()).await?;
            Some(error)
        })
    }

    pub(super) fn health(&self) -> Health {
        let undecodable = self.subject.undecodable();
        Health { undecodable, ..self.progress().health.clone() }
    }

    /// The version that has been seen last.
    pub(super) fn version(&self) -> ResourceVersion {
        self.progress().version.clone()
    }

    async fn rounds(&self) {
        loop {
            let Err(error) = self.round().await;
            if error.is_expired_watch() {
                if self.subject.has_moved() {
                    // Nothing has failed. The delay lets moves that come together be listed
                    // together.
                    sleep(self.choices.backoff.initial).await;
                    continue;
                }
                // The server has just answered, and only a list helps. One that does nothing but
                // expire is not asked in a hot loop.
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

    /// Reads all objects and follows changes until only another list helps.
    async fn round(&self) -> Result<Infallible, ReflectorError> {
        if self.health().state != HealthState::Absent {
            self.progress().health.enter(HealthState::Listing);
        }
        let streams = self.choices.stream_lists && self.subject.supports_watch_list();
        let stream = if streams { self.stream_all().await } else { None };
        if stream.is_none() {
            self.list_all().await?;
        }
        Err(self.watch(stream).await)
    }

    /// All objects have been read.
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

    /// Notes and reports that a round has failed.
    fn reported(&self, error: ReflectorError) {
        let name = &self.choices.name;
        tracing::warn!(reflector = %name, error = &error as &dyn std::error::Error, "reflector failed, and lists again");
        self.tell(error);
    }

    /// The server says that there is no such resource. A broken proxy says so as well, so all
    /// objects stay, unless there is proof or the user has chosen otherwise. Only the first such
    /// answer is reported.
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
        if !is_emptied && (self.choices.empties_when_not_found || self.subject.is_gone().await) {
            tracing::info!(reflector = %self.choices.name, "the resource is gone, and so are its objects");
            self.progress().is_emptied = true;
            self.subject.empty();
        }
    }

    /// The current failure is another one.
    fn leave_absent(&self) {
        let mut progress = self.progress();
        if progress.health.state == HealthState::Absent {
            progress.health.enter(HealthState::BackingOff);
        }
    }

    /// Notes and reports that the server is not there, or too busy, and waits before the same
    /// request is sent again.
    pub(super) async fn turned_away(&self, error: Error) {
        let name = &self.choices.name;
        let (failure, asked) = (failure_of(&error), error.retry_after());
        tracing::warn!(reflector = %name, error = &error as &dyn std::error::Error, "reflector waits for the server");
        self.leave_absent();
        self.tell(ReflectorError::Watch(error));
        self.back_off(failure, asked).await;
    }

    /// Notes and reports an object that cannot be used.
    pub(super) fn skipped(&self, error: ReflectorError) {
        let name = &self.choices.name;
        tracing::error!(reflector = %name, error = &error as &dyn std::error::Error, "object cannot be used");
        self.progress().health.skipped += 1;
        self.tell(error);
    }

    /// The same for what became of an object.
    pub(super) fn report(&self, error: Option<Box<ReflectorError>>) {
        if let Some(error) = error {
            self.skipped(*error);
        }
    }

    pub(super) fn tell(&self, error: ReflectorError) {
        if let Some(handler) = &self.choices.on_error
            && catch_unwind(AssertUnwindSafe(|| handler(&error))).is_err()
        {
            tracing::error!(reflector = %self.choices.name, %error, "a handler of errors panicked");
        }
        self.progress().health.last_error = Some((Arc::new(error), Instant::now()));
    }

    /// Waits for as long as failures have gone on, or as long as the server has asked for.
    pub(super) fn back_off(&self, failure: Failure, asked: Option<Duration>) -> Sleep {
        let mut progress = self.progress();
        progress.health.failures += 1;
        if progress.health.state != HealthState::Absent {
            progress.health.enter(HealthState::BackingOff);
        }
        sleep(progress.delays.next(failure, asked))
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that a reflector no longer runs, however it came to that.
struct Stopped<'a>(&'a Shared);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.progress().health.enter(HealthState::Stopped);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = self.health();
        f.debug_struct("Reflector").field("name", &self.choices.name).field("state", &health.state).finish()
    }
}
