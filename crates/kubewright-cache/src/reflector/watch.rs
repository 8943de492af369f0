//! Follows changes by a watch, which may begin with all objects.

use std::pin::pin;
use std::time::Duration;

use kubewright_client::Error;
use kubewright_core::ResourceVersion;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::backoff::Failure;
use super::intake::{Heard, Intake, Pressure, Purpose};
use super::rounds::Shared;
use super::{HealthState, ReflectorError};

/// A watch that lasts less and brings nothing is an error.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// After a watch that lasts this long the next failure is a new one.
const LIVED: Duration = Duration::from_secs(10);
/// After this long without the end of the first objects somebody should know.
const SLOW_START: Duration = Duration::from_secs(10);
/// A watch that outlives the time it was asked to last by this much is one that nobody serves any more.
const OVERDUE: Duration = Duration::from_secs(60);
/// Internal errors further apart than this have nothing to do with each other.
const INTERNAL_ERROR_QUIET: Duration = Duration::from_secs(60);

/// A watch under way.
pub(super) struct Watch<'a> {
    intake: Box<dyn Intake + 'a>,
    began: Instant,
    /// When the server should have ended it long ago.
    overdue_at: Instant,
    /// It began with all objects, whose versions come in any order.
    is_synthetic: bool,
    count: u64,
}

/// How a watch ended.
enum End {
    /// The server ended it, or should have.
    Closed,
    /// The connection broke.
    Broken(Error),
    /// The server ended it with an ERROR event.
    Status(Box<Status>),
    /// The events cannot be read, so that only a list helps.
    Unreadable(Error),
}

/// What came of the first objects of a watch.
enum Gathered {
    All(ResourceVersion),
    Closed,
    Status(Box<Status>),
}

impl Shared {
    /// Reads all objects by a watch that begins with them, and returns the watch. Nothing if the
    /// server cannot do that.
    pub(super) async fn stream_all(&self) -> Option<Watch<'_>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let options = self.watch_options(&self.version_to_stream_from()).initial_events();
            let error = match self.open(options, Purpose::Gather, false).await {
                Ok(mut watch) => {
                    match self.gather(&mut watch).await {
                        Gathered::All(version) => {
                            if self.choices.verifies {
                                self.verify(&mut *watch.intake, &version).await;
                            }
                            let errors = watch.intake.replace(version.clone());
                            errors.into_iter().for_each(|error| self.skipped(error));
                            self.synced(version);
                            return Some(watch);
                        }
                        // Begin anew with nothing; more than once only with patience.
                        Gathered::Closed => {
                            if tries > 1 {
                                self.back_off(Failure::Unavailable, None).await;
                                self.progress().health.enter(HealthState::Listing);
                            }
                            continue;
                        }
                        Gathered::Status(status) => Error::Status(status),
                    }
                }
                Err(error) => error,
            };
            if error.is_connection_refused() || error.is_too_many_requests() {
                self.turned_away(error).await;
            } else if error.is_expired() || error.is_too_large_resource_version() {
                let again = std::mem::replace(&mut self.progress().is_version_unavailable, true);
                self.tell(ReflectorError::Watch(error));
                if again {
                    self.back_off(Failure::Refused, None).await;
                }
            } else {
                tracing::debug!(reflector = %self.choices.name, %error, "no streaming list, listing instead");
                return None;
            }
            self.progress().health.enter(HealthState::Listing);
        }
    }

    /// Collects the first objects, with what happens to them meanwhile.
    async fn gather(&self, watch: &mut Watch<'_>) -> Gathered {
        let mut heard_at = Instant::now();
        let mut warn_at = heard_at + SLOW_START;
        loop {
            let heard = tokio::select! {
                heard = watch.intake.next() => heard,
                () = sleep_until(warn_at) => {
                    if heard_at.elapsed() >= self.choices.patience_or_default() {
                        return Gathered::Closed;
                    }
                    let waited = watch.began.elapsed();
                    tracing::warn!(reflector = %self.choices.name, ?waited, "still waiting for the end of initial events");
                    warn_at += SLOW_START;
                    continue;
                }
            };
            consume_budget().await;
            heard_at = Instant::now();
            self.progress().health.last_contact = Some(heard_at);
            match heard {
                Heard::Object(object) => self.report(object.error),
                Heard::Bookmark(bookmark) => {
                    if bookmark.ends_initial_events() {
                        return Gathered::All(bookmark.resource_version().into());
                    }
                }
                Heard::Status(status) => return Gathered::Status(status),
                Heard::Failed(error) => {
                    self.tell(ReflectorError::Watch(error));
                    return Gathered::Closed;
                }
                Heard::Listed(_) | Heard::Closed => return Gathered::Closed,
            }
        }
    }

    /// Follows changes until only a list helps; returns why. Resumes watches that merely end or
    /// break.
    pub(super) async fn watch(&self, mut begun: Option<Watch<'_>>) -> ReflectorError {
        let mut resync_at = self.next_resync();
        loop {
            let mut watch = match begun.take() {
                Some(watch) => watch,
                None => match self.begin_watch().await {
                    Ok(watch) => watch,
                    Err(error) if error.is_connection_refused() || error.is_too_many_requests() => {
                        self.turned_away(error).await;
                        continue;
                    }
                    Err(error) => return ReflectorError::Watch(error),
                },
            };
            self.progress().health.enter(HealthState::Watching);
            let end = self.follow(&mut watch, &mut resync_at).await;
            let has_lived = self.note_life(watch.began.elapsed());
            match end {
                End::Closed if watch.count == 0 && !has_lived => return ReflectorError::VeryShortWatch,
                End::Closed => {}
                End::Broken(error) => {
                    tracing::debug!(reflector = %self.choices.name, %error, "watch broke off");
                    self.tell(ReflectorError::Watch(error));
                    if watch.count == 0 && !has_lived {
                        self.back_off(Failure::Unavailable, None).await;
                    }
                }
                End::Status(status) if status.is_too_many_requests() => self.turned_away(Error::Status(status)).await,
                End::Status(status) if status.is_internal_error() && self.may_retry_internal_error() => {
                    self.tell(ReflectorError::Watch(Error::Status(status)));
                }
                End::Status(status) => return ReflectorError::Watch(Error::Status(status)),
                End::Unreadable(error) => return ReflectorError::Watch(error),
            }
        }
    }

    /// Notes how long a watch has lived; says whether that was long enough to count as a success.
    fn note_life(&self, life: Duration) -> bool {
        let mut progress = self.progress();
        if life >= LIVED {
            progress.delays.reset();
        }
        if life >= VERY_SHORT {
            progress.has_expired = false;
        }
        life >= VERY_SHORT
    }

    async fn begin_watch(&self) -> Result<Watch<'_>, Error> {
        let version = self.version();
        let is_synthetic = matches!(version.as_str(), "" | "0");
        self.open(self.watch_options(version.as_str()).bookmarks(), Purpose::HandOn, is_synthetic).await
    }

    async fn open(&self, options: WatchOptions, purpose: Purpose, is_synthetic: bool) -> Result<Watch<'_>, Error> {
        let lasts = Duration::from_secs(options.timeout_seconds.map_or(0, i64::unsigned_abs));
        let mut intake = self.subject.intake(purpose);
        intake.watch(options);
        intake.opened().await?;
        let began = Instant::now();
        Ok(Watch { intake, began, overdue_at: began + lasts + OVERDUE, is_synthetic, count: 0 })
    }

    fn watch_options(&self, version: &str) -> WatchOptions {
        let timeout = self.choices.watch_timeout.mul_f64(1.0 + fastrand::f64());
        WatchOptions::default().resource_version(version).timeout_seconds(timeout.as_secs() as u32)
    }

    fn version_to_stream_from(&self) -> String {
        let progress = self.progress();
        if progress.is_version_unavailable { String::new() } else { progress.version.as_str().to_owned() }
    }

    /// When the store is next told of all it has. A period beyond all time is none.
    fn next_resync(&self) -> Option<Instant> {
        self.choices.resync.and_then(|period| Instant::now().checked_add(period))
    }

    /// Hands events on until there are no more.
    async fn follow(&self, watch: &mut Watch<'_>, resync_at: &mut Option<Instant>) -> End {
        let overdue_at = watch.overdue_at;
        let due_at = |resync_at: Option<Instant>| resync_at.map_or(overdue_at, |at| at.min(overdue_at));
        let mut due = pin!(sleep_until(due_at(*resync_at)));
        loop {
            // A stream that always has more must not keep others from their turn.
            consume_budget().await;
            match self.subject.pressure() {
                Pressure::Full => self.subject.room().await,
                Pressure::Due => yield_now().await,
                Pressure::None => {}
            }
            let heard = tokio::select! {
                heard = watch.intake.next() => heard,
                () = &mut due => {
                    if overdue_at <= Instant::now() {
                        tracing::debug!(reflector = %self.choices.name, "watch has not ended in time");
                        return End::Closed;
                    }
                    *resync_at = self.next_resync();
                    if self.choices.should_resync.as_ref().is_none_or(|should| should()) {
                        self.subject.resync();
                    }
                    due.as_mut().reset(due_at(*resync_at));
                    continue;
                }
            };
            match heard {
                Heard::Object(object) => {
                    self.report(object.error);
                    if let Some(version) = object.version {
                        watch.is_synthetic &= object.is_added;
                        self.advance(watch, version);
                    }
                }
                Heard::Bookmark(bookmark) => {
                    watch.is_synthetic = false;
                    let version = ResourceVersion::from(bookmark.resource_version());
                    self.subject.bookmark(version.clone());
                    self.advance(watch, version);
                }
                Heard::Status(status) => return End::Status(status),
                Heard::Failed(error @ Error::Decode(_)) => return End::Unreadable(error),
                Heard::Failed(error) => return End::Broken(error),
                Heard::Listed(_) | Heard::Closed => return End::Closed,
            }
        }
    }

    /// Notes that the store has been told of one event.
    fn advance(&self, watch: &mut Watch<'_>, version: ResourceVersion) {
        {
            let mut progress = self.progress();
            progress.health.last_contact = Some(Instant::now());
            progress.health.failures = 0;
            if !watch.is_synthetic && !version.is_empty() {
                progress.version = version;
            }
        }
        watch.count += 1;
        if let Some(on_event) = &self.choices.on_event {
            on_event();
        }
    }

    /// Whether internal errors have gone on for less than they may.
    fn may_retry_internal_error(&self) -> bool {
        let now = Instant::now();
        let mut progress = self.progress();
        let first = match progress.internal_errors_since {
            Some((first, last)) if now - last <= INTERNAL_ERROR_QUIET => first,
            _ => now,
        };
        progress.internal_errors_since = Some((first, now));
        now - first < self.choices.retry_internal_errors
    }
}
