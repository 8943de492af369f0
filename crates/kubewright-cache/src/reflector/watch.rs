//! Follows changes by a watch, which may begin with all objects.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kubewright_client::Error;
use kubewright_core::meta::v1::Status;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use kubewright_core::{Object, ResourceVersion};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::backoff::random;
use super::gathering::Gathering;
use super::{HealthState, Reflector, ReflectorError};
use crate::lister_watcher::{EventStream, next};
use crate::queue::TransformError;

/// A watch that lasts less and brings nothing is an error.
const VERY_SHORT: Duration = Duration::from_secs(1);
/// After this long without the end of the first objects somebody should know.
const SLOW_START: Duration = Duration::from_secs(10);
/// A watch that outlives the time it was asked to last by this much is one that nobody serves any more.
const OVERDUE: Duration = Duration::from_secs(60);
/// Internal errors further apart than this have nothing to do with each other.
const INTERNAL_ERROR_QUIET: Duration = Duration::from_secs(60);
/// The annotation of the bookmark that ends the first objects.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A watch under way.
pub(super) struct Watch<T> {
    events: EventStream<T>,
    began: Instant,
    /// When the server should have ended it long ago.
    overdue_at: Instant,
    /// It began with all objects, whose versions come in any order.
    is_synthetic: bool,
    count: u64,
}

/// How a watch ended.
enum End {
    /// The server ended it, or the connection broke.
    Closed,
    /// The server told why.
    Status(Box<Status>),
}

/// What came of the first objects of a watch.
enum Gathered {
    All(ResourceVersion),
    Closed,
    Status(Box<Status>),
}

impl<T: Object> Reflector<T> {
    /// Reads all objects by a watch that begins with them, and returns the watch. Nothing if the server cannot do that, or the
    /// store does not take them.
    pub(super) async fn stream_all(&self) -> Option<Watch<T>> {
        let mut tries = 0;
        loop {
            tries += 1;
            let options = self.watch_options(&self.version_to_stream_from()).initial_events();
            let error = match self.open(options, false).await {
                Ok(mut watch) => {
                    let mut gathering = Gathering::default();
                    match self.gather(&mut watch, &mut gathering).await {
                        Gathered::All(version) => {
                            let objects = gathering.into_objects();
                            if self.shared.options.verifies {
                                self.verify(&objects, &version).await;
                            }
                            // All of it was refused: the watch leads on from nothing that the store has.
                            if let Err(error) = self.shared.store.replace(objects, version.clone()) {
                                tracing::warn!(reflector = %self.shared.options.name, %error, "a streaming list was refused");
                                self.tell(error.into());
                                return None;
                            }
                            self.synced(version);
                            return Some(watch);
                        }
                        // Begin anew with nothing; more than once only with patience.
                        Gathered::Closed => {
                            if tries > 1 {
                                self.back_off(None).await;
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
                let asked = error.retry_after();
                self.tell(ReflectorError::Watch(error));
                self.back_off(asked).await;
            } else if error.is_expired() || error.is_too_large_resource_version() {
                let again = std::mem::replace(&mut self.progress().is_version_unavailable, true);
                if again {
                    self.back_off(None).await;
                }
            } else {
                tracing::debug!(reflector = %self.shared.options.name, %error, "no streaming list, listing instead");
                return None;
            }
            self.progress().health.enter(HealthState::Listing);
        }
    }

    /// Collects the first objects, with what happens to them meanwhile.
    async fn gather(&self, watch: &mut Watch<T>, gathering: &mut Gathering<T>) -> Gathered {
        let mut heard_at = Instant::now();
        let mut warn_at = heard_at + SLOW_START;
        loop {
            let event = tokio::select! {
                event = next(&mut watch.events) => event,
                () = sleep_until(warn_at) => {
                    if heard_at.elapsed() >= self.shared.options.patience_or_default() {
                        return Gathered::Closed;
                    }
                    let waited = watch.began.elapsed();
                    tracing::warn!(reflector = %self.shared.options.name, ?waited, "still waiting for the end of initial events");
                    warn_at += SLOW_START;
                    continue;
                }
            };
            consume_budget().await;
            heard_at = Instant::now();
            self.progress().health.last_contact = Some(heard_at);
            match event {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    if let Some(object) = self.incoming(object) {
                        gathering.put(object);
                    }
                }
                Some(Ok(WatchEvent::Deleted(object))) => gathering.remove(&object),
                Some(Ok(WatchEvent::Bookmark(object))) => {
                    if object.annotations().get(INITIAL_EVENTS_END) == Some("true") {
                        return Gathered::All(object.resource_version().into());
                    }
                }
                Some(Ok(WatchEvent::Error(status))) => return Gathered::Status(status),
                Some(Err(error @ Error::Decode(_))) => self.skipped(ReflectorError::Undecodable(error)),
                Some(Err(_)) | None => return Gathered::Closed,
            }
        }
    }

    /// Follows changes until that needs a fresh list. Resumes watches that merely end.
    pub(super) async fn watch(&self, mut begun: Option<Watch<T>>) -> Result<(), ReflectorError> {
        let mut resync_at = self.next_resync();
        loop {
            let mut watch = match begun.take() {
                Some(watch) => watch,
                None => match self.begin_watch().await {
                    Ok(watch) => watch,
                    Err(error) if error.is_connection_refused() || error.is_too_many_requests() => {
                        let asked = error.retry_after();
                        self.tell(ReflectorError::Watch(error));
                        self.back_off(asked).await;
                        continue;
                    }
                    Err(error) => return Err(ReflectorError::Watch(error)),
                },
            };
            self.progress().health.enter(HealthState::Watching);
            let end = self.follow(&mut watch, &mut resync_at).await;
            match end {
                End::Closed if watch.count == 0 && watch.began.elapsed() < VERY_SHORT => {
                    return Err(ReflectorError::VeryShortWatch);
                }
                End::Closed => {}
                End::Status(status) if status.is_too_many_requests() => {
                    let asked = status.retry_after();
                    self.tell(ReflectorError::Watch(Error::Status(status)));
                    self.back_off(asked).await;
                }
                End::Status(status) if status.is_internal_error() && self.may_retry_internal_error() => {}
                End::Status(status) => {
                    tracing::debug!(reflector = %self.shared.options.name, %status, "watch ended, listing again");
                    return Ok(());
                }
            }
        }
    }

    async fn begin_watch(&self) -> Result<Watch<T>, Error> {
        let version = self.last_sync_resource_version();
        let is_synthetic = matches!(version.as_str(), "" | "0");
        self.open(self.watch_options(version.as_str()).bookmarks(), is_synthetic).await
    }

    async fn open(&self, options: WatchOptions, is_synthetic: bool) -> Result<Watch<T>, Error> {
        let lasts = Duration::from_secs(options.timeout_seconds.map_or(0, i64::unsigned_abs));
        let events = self.shared.lister_watcher.watch(options).await?;
        let began = Instant::now();
        Ok(Watch { events, began, overdue_at: began + lasts + OVERDUE, is_synthetic, count: 0 })
    }

    fn watch_options(&self, version: &str) -> WatchOptions {
        let timeout = self.shared.options.watch_timeout.mul_f64(1.0 + random());
        WatchOptions::default().resource_version(version).timeout_seconds(timeout.as_secs() as u32)
    }

    fn version_to_stream_from(&self) -> String {
        let progress = self.progress();
        if progress.is_version_unavailable { String::new() } else { progress.version.as_str().to_owned() }
    }

    /// When the store is next told of all it has. A period beyond all time is none.
    fn next_resync(&self) -> Option<Instant> {
        self.shared.options.resync.and_then(|period| Instant::now().checked_add(period))
    }

    /// Hands events on until there are no more.
    async fn follow(&self, watch: &mut Watch<T>, resync_at: &mut Option<Instant>) -> End {
        let store = &self.shared.store;
        let overdue_at = watch.overdue_at;
        let due_at = |resync_at: Option<Instant>| resync_at.map_or(overdue_at, |at| at.min(overdue_at));
        let mut due = pin!(sleep_until(due_at(*resync_at)));
        loop {
            // A stream that always has more must not keep others from their turn.
            consume_budget().await;
            if store.is_full() {
                store.room().await;
            } else if store.is_due() {
                yield_now().await;
            }
            let event = tokio::select! {
                event = next(&mut watch.events) => event,
                () = &mut due => {
                    if overdue_at <= Instant::now() {
                        tracing::debug!(reflector = %self.shared.options.name, "watch has not ended in time");
                        return End::Closed;
                    }
                    *resync_at = self.next_resync();
                    if self.shared.options.should_resync.as_ref().is_none_or(|should| should()) {
                        store.resync();
                    }
                    due.as_mut().reset(due_at(*resync_at));
                    continue;
                }
            };
            match event {
                Some(Ok(WatchEvent::Error(status))) => return End::Status(status),
                Some(Ok(event)) => {
                    self.hand_on(watch, event);
                    watch.count += 1;
                    if let Some(on_event) = &self.shared.options.on_event {
                        on_event();
                    }
                }
                Some(Err(error @ Error::Decode(_))) => {
                    // Not counted: if the stream ends here and brought nothing else, it is not to be resumed at once.
                    self.skipped(ReflectorError::Undecodable(error));
                }
                Some(Err(error)) => {
                    tracing::debug!(reflector = %self.shared.options.name, %error, "watch broke off");
                    return End::Closed;
                }
                None => return End::Closed,
            }
        }
    }

    /// Tells the store of one event.
    fn hand_on(&self, watch: &mut Watch<T>, event: WatchEvent<T>) {
        watch.is_synthetic &= matches!(event, WatchEvent::Added(_));
        let store = &self.shared.store;
        let version = match event {
            WatchEvent::Added(object) => self.enter(object, |object| store.add(object)),
            WatchEvent::Modified(object) => self.enter(object, |object| store.update(object)),
            WatchEvent::Deleted(object) => self.enter(object, |object| store.delete(object)),
            WatchEvent::Bookmark(object) => {
                let version = ResourceVersion::from(object.resource_version());
                store.bookmark(version.clone());
                Some(version)
            }
            WatchEvent::Error(_) => None,
        };
        let mut progress = self.progress();
        progress.health.last_contact = Some(Instant::now());
        progress.health.failures = 0;
        if let Some(version) = version
            && !watch.is_synthetic
        {
            progress.version = version;
        }
    }

    /// Lets an object in; returns its version, which counts even if the object had to be left out for what it contains.
    fn enter(&self, object: T, apply: impl FnOnce(Arc<T>) -> Result<(), TransformError>) -> Option<ResourceVersion> {
        if !self.is_expected(&object) {
            return None;
        }
        let version = ResourceVersion::from(object.resource_version());
        if let Some(Err(error)) = self.transformed(object).map(apply) {
            self.skipped(error.into());
        }
        Some(version)
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
        now - first < self.shared.options.retry_internal_errors
    }
}
