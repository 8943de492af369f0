//! Watches changes; a watch may start as a streaming list.

use std::pin::pin;
use std::time::Duration;

use kubewright_client::Error;
use kubewright_core::ResourceVersion;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::backoff::FailureKind;
use super::intake::{Intake, Pressure, Purpose, StreamItem};
use super::retry_loop::ReflectorLoop;
use super::{HealthState, ReflectorError};

/// A shorter watch without events is an error.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// After a watch that lasted this long, the next failure starts a new back-off.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Log a warning if the initial objects take longer than this.
const SLOW_START: Duration = Duration::from_secs(10);
/// A watch that exceeds its requested duration by this much is considered dead.
const OVERDUE: Duration = Duration::from_secs(60);
/// Internal errors further apart than this are unrelated.
const INTERNAL_ERROR_QUIET: Duration = Duration::from_secs(60);

/// An open watch.
pub(super) struct OpenWatch<'a> {
    intake: Box<dyn Intake + 'a>,
    began: Instant,
    /// When the watch is considered dead.
    overdue_at: Instant,
    /// It started with all objects, whose versions are not ordered.
    is_synthetic: bool,
    count: u64,
}

/// How a watch ended.
enum WatchEnd {
    /// The server ended it, or should have.
    Closed,
    /// The connection broke.
    Broken(Error),
    /// The server ended it with an ERROR event.
    Status(Box<Status>),
    /// The events are unreadable, so another list is needed.
    Unreadable(Error),
}

/// The result of reading the initial objects of a watch.
enum ListOutcome {
    All(ResourceVersion),
    Closed,
    Status(Box<Status>),
}

impl ReflectorLoop {
    /// Reads all objects with a streaming list and returns the watch. `None` if the server does not
    /// support it.
    pub(super) async fn stream_all(&self) -> Option<OpenWatch<'_>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let options = self.watch_options(&self.version_to_stream_from()).initial_events();
            let error = match self.open(options, Purpose::Gather, false).await {
                Ok(mut watch) => {
                    match self.gather(&mut watch).await {
                        ListOutcome::All(version) => {
                            if self.common.verifies {
                                self.verify(&mut *watch.intake, &version).await;
                            }
                            let errors = watch.intake.replace(version.clone());
                            errors.into_iter().for_each(|error| self.skipped(error));
                            self.synced(version);
                            return Some(watch);
                        }
                        // Start over; back off if this happens repeatedly.
                        ListOutcome::Closed => {
                            if tries > 1 {
                                self.back_off(FailureKind::Unavailable, None).await;
                                self.progress().health.enter(HealthState::Listing);
                            }
                            continue;
                        }
                        ListOutcome::Status(status) => Error::Status(status),
                    }
                }
                Err(error) => error,
            };
            if error.is_connection_refused() || error.is_too_many_requests() {
                self.wait_for_server(error).await;
            } else if error.is_expired() || error.is_too_large_resource_version() {
                let again = std::mem::replace(&mut self.progress().is_version_unavailable, true);
                self.tell(ReflectorError::Watch(error));
                if again {
                    self.back_off(FailureKind::Refused, None).await;
                }
            } else {
                tracing::debug!(reflector = %self.common.name, %error, "no streaming list, listing instead");
                return None;
            }
            self.progress().health.enter(HealthState::Listing);
        }
    }

    /// Collects the initial objects, applying changes to them.
    async fn gather(&self, watch: &mut OpenWatch<'_>) -> ListOutcome {
        let mut heard_at = Instant::now();
        let mut warn_at = heard_at + SLOW_START;
        loop {
            let heard = tokio::select! {
                heard = watch.intake.next() => heard,
                () = sleep_until(warn_at) => {
                    if heard_at.elapsed() >= self.common.response_timeout_or_default() {
                        return ListOutcome::Closed;
                    }
                    let waited = watch.began.elapsed();
                    tracing::warn!(reflector = %self.common.name, ?waited, "still waiting for the end of initial events");
                    warn_at += SLOW_START;
                    continue;
                }
            };
            consume_budget().await;
            heard_at = Instant::now();
            self.progress().health.last_contact = Some(heard_at);
            match heard {
                StreamItem::Object(object) => self.report(object.error),
                StreamItem::Bookmark(bookmark) => {
                    if bookmark.ends_initial_events() {
                        return ListOutcome::All(bookmark.resource_version().into());
                    }
                }
                StreamItem::Status(status) => return ListOutcome::Status(status),
                StreamItem::Failed(error) => {
                    self.tell(ReflectorError::Watch(error));
                    return ListOutcome::Closed;
                }
                StreamItem::Listed(_) | StreamItem::Closed => return ListOutcome::Closed,
            }
        }
    }

    /// Watches changes until another list is needed; returns the reason. Resumes watches that end
    /// or break.
    pub(super) async fn watch(&self, mut begun: Option<OpenWatch<'_>>) -> ReflectorError {
        let mut resync_at = self.next_resync();
        loop {
            let mut watch = match begun.take() {
                Some(watch) => watch,
                None => match self.begin_watch().await {
                    Ok(watch) => watch,
                    Err(error) if error.is_connection_refused() || error.is_too_many_requests() => {
                        self.wait_for_server(error).await;
                        continue;
                    }
                    Err(error) => return ReflectorError::Watch(error),
                },
            };
            self.progress().health.enter(HealthState::Watching);
            let end = self.follow(&mut watch, &mut resync_at).await;
            let has_lived = self.note_life(watch.began.elapsed());
            match end {
                WatchEnd::Closed if watch.count == 0 && !has_lived => return ReflectorError::VeryShortWatch,
                WatchEnd::Closed => {}
                WatchEnd::Broken(error) => {
                    tracing::debug!(reflector = %self.common.name, %error, "watch connection lost");
                    self.tell(ReflectorError::Watch(error));
                    if watch.count == 0 && !has_lived {
                        self.back_off(FailureKind::Unavailable, None).await;
                    }
                }
                WatchEnd::Status(status) if status.is_too_many_requests() => {
                    self.wait_for_server(Error::Status(status)).await
                }
                WatchEnd::Status(status) if status.is_internal_error() && self.may_retry_internal_error() => {
                    self.tell(ReflectorError::Watch(Error::Status(status)));
                }
                WatchEnd::Status(status) => return ReflectorError::Watch(Error::Status(status)),
                WatchEnd::Unreadable(error) => return ReflectorError::Watch(error),
            }
        }
    }

    /// Records how long a watch lasted; returns whether that counts as a success.
    fn note_life(&self, life: Duration) -> bool {
        let mut progress = self.progress();
        if life >= STABLE_AFTER {
            progress.delays.reset();
        }
        if life >= VERY_SHORT {
            progress.has_expired = false;
        }
        life >= VERY_SHORT
    }

    async fn begin_watch(&self) -> Result<OpenWatch<'_>, Error> {
        let version = self.version();
        let is_synthetic = matches!(version.as_str(), "" | "0");
        self.open(self.watch_options(version.as_str()).bookmarks(), Purpose::HandOn, is_synthetic).await
    }

    async fn open(&self, options: WatchOptions, purpose: Purpose, is_synthetic: bool) -> Result<OpenWatch<'_>, Error> {
        let lasts = Duration::from_secs(options.timeout_seconds.map_or(0, i64::unsigned_abs));
        let mut intake = self.pipeline.intake(purpose);
        intake.watch(options);
        intake.opened().await?;
        let began = Instant::now();
        Ok(OpenWatch { intake, began, overdue_at: began + lasts + OVERDUE, is_synthetic, count: 0 })
    }

    fn watch_options(&self, version: &str) -> WatchOptions {
        let timeout = self.common.watch_timeout.mul_f64(1.0 + fastrand::f64());
        WatchOptions::default().resource_version(version).timeout_seconds(timeout.as_secs() as u32)
    }

    fn version_to_stream_from(&self) -> String {
        let progress = self.progress();
        if progress.is_version_unavailable { String::new() } else { progress.version.as_str().to_owned() }
    }

    /// When the next resync is due. A period that overflows means never.
    fn next_resync(&self) -> Option<Instant> {
        self.common.resync.and_then(|period| Instant::now().checked_add(period))
    }

    /// Passes events on until the watch ends.
    async fn follow(&self, watch: &mut OpenWatch<'_>, resync_at: &mut Option<Instant>) -> WatchEnd {
        let overdue_at = watch.overdue_at;
        let due_at = |resync_at: Option<Instant>| resync_at.map_or(overdue_at, |at| at.min(overdue_at));
        let mut due = pin!(sleep_until(due_at(*resync_at)));
        loop {
            // A stream with many buffered events must yield to other tasks.
            consume_budget().await;
            match self.pipeline.pressure() {
                Pressure::Full => self.pipeline.room().await,
                Pressure::Due => yield_now().await,
                Pressure::None => {}
            }
            let heard = tokio::select! {
                heard = watch.intake.next() => heard,
                () = &mut due => {
                    if overdue_at <= Instant::now() {
                        tracing::debug!(reflector = %self.common.name, "watch exceeded its timeout");
                        return WatchEnd::Closed;
                    }
                    *resync_at = self.next_resync();
                    if self.common.should_resync.as_ref().is_none_or(|should| should()) {
                        self.pipeline.resync();
                    }
                    due.as_mut().reset(due_at(*resync_at));
                    continue;
                }
            };
            match heard {
                StreamItem::Object(object) => {
                    self.report(object.error);
                    if let Some(version) = object.version {
                        watch.is_synthetic &= object.is_added;
                        self.advance(watch, version);
                    }
                }
                StreamItem::Bookmark(bookmark) => {
                    watch.is_synthetic = false;
                    let version = ResourceVersion::from(bookmark.resource_version());
                    self.pipeline.bookmark(version.clone());
                    self.advance(watch, version);
                }
                StreamItem::Status(status) => return WatchEnd::Status(status),
                StreamItem::Failed(error @ Error::Decode(_)) => return WatchEnd::Unreadable(error),
                StreamItem::Failed(error) => return WatchEnd::Broken(error),
                StreamItem::Listed(_) | StreamItem::Closed => return WatchEnd::Closed,
            }
        }
    }

    /// Records that an event was passed to the store.
    fn advance(&self, watch: &mut OpenWatch<'_>, version: ResourceVersion) {
        {
            let mut progress = self.progress();
            progress.health.last_contact = Some(Instant::now());
            progress.health.failures = 0;
            if !watch.is_synthetic && !version.is_empty() {
                progress.version = version;
            }
        }
        watch.count += 1;
        if let Some(on_event) = &self.common.on_event {
            on_event();
        }
    }

    /// Whether internal errors have lasted less than the limit.
    fn may_retry_internal_error(&self) -> bool {
        let now = Instant::now();
        let mut progress = self.progress();
        let first = match progress.internal_errors_since {
            Some((first, last)) if now - last <= INTERNAL_ERROR_QUIET => first,
            _ => now,
        };
        progress.internal_errors_since = Some((first, now));
        now - first < self.common.retry_internal_errors
    }
}
