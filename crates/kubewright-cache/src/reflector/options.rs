//! Options of a reflector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{GroupVersionKind, Object};

use super::backoff::ReflectorBackoff;
use super::error::ReflectorError;
use crate::list_watch::RESPONSE_TIMEOUT;
use crate::queue::Transform;

/// Minimum duration to request for a watch.
const SHORTEST_WATCH: Duration = Duration::from_secs(5 * 60);

/// Called with each error of a reflector, in the order in which they occur.
///
/// It receives:
/// - each list that fails ([`List`](ReflectorError::List)), at its start or in the middle;
/// - each watch that is refused, each ERROR event (including 410, 429 and internal errors, whatever
///   the reflector does next), each connection that breaks during a watch, and each unreadable
///   stream ([`Watch`](ReflectorError::Watch));
/// - each watch that ends within a second without an event
///   ([`VeryShortWatch`](ReflectorError::VeryShortWatch));
/// - each object that cannot be decoded or transformed
///   ([`Undecodable`](ReflectorError::Undecodable), [`Transform`](ReflectorError::Transform)):
///   once, and again only after it was usable or its uid has changed;
/// - each event and bookmark of an unexpected kind, and each event whose object has no name
///   ([`Unexpected`](ReflectorError::Unexpected),
///   [`UnexpectedBookmark`](ReflectorError::UnexpectedBookmark), or `Undecodable` for a type with a
///   fixed kind);
/// - each streaming list that differs from a plain one, if [verification is
///   enabled](ReflectorOptions::verify_streaming_lists).
///
/// It does not receive watches that the server ends without an error, a repeated 404, a streaming
/// list that the server does not support (the plain list that follows reports problems), and a 410
/// after
/// [`ListerWatcher::has_moved`](crate::ListerWatcher::has_moved).
#[doc(alias = "WatchErrorHandler")]
pub type ErrorHandler = Arc<dyn Fn(&ReflectorError) + Send + Sync>;

/// Options of a reflector.
pub struct ReflectorOptions<T> {
    pub(crate) common: CommonOptions,
    pub(super) transform: Option<Transform<T>>,
}

/// Options that do not depend on the object type.
#[derive(Clone)]
pub(crate) struct CommonOptions {
    pub(super) name: String,
    pub(crate) resync: Option<Duration>,
    pub(crate) should_resync: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    pub(super) on_event: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(super) page_size: Option<u32>,
    pub(super) watch_timeout: Duration,
    /// Two minutes if unset.
    pub(crate) response_timeout: Option<Duration>,
    pub(super) backoff: ReflectorBackoff,
    pub(super) retry_internal_errors: Duration,
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) stream_lists: bool,
    pub(super) verifies: bool,
    pub(super) expected_kind: Option<GroupVersionKind>,
    pub(super) empties_when_not_found: bool,
}

impl Default for CommonOptions {
    fn default() -> Self {
        CommonOptions {
            name: String::new(),
            resync: None,
            should_resync: None,
            on_event: None,
            page_size: None,
            watch_timeout: SHORTEST_WATCH,
            response_timeout: None,
            backoff: ReflectorBackoff::default(),
            retry_internal_errors: Duration::ZERO,
            on_error: None,
            stream_lists: true,
            verifies: false,
            expected_kind: None,
            empties_when_not_found: false,
        }
    }
}

impl CommonOptions {
    /// Copies the options that are not specific to one reflector or object type.
    fn of_another(&self) -> Self {
        CommonOptions {
            page_size: self.page_size,
            watch_timeout: self.watch_timeout,
            response_timeout: self.response_timeout,
            backoff: self.backoff.clone(),
            retry_internal_errors: self.retry_internal_errors,
            stream_lists: self.stream_lists,
            verifies: self.verifies,
            empties_when_not_found: self.empties_when_not_found,
            ..CommonOptions::default()
        }
    }

    pub(super) fn response_timeout_or_default(&self) -> Duration {
        self.response_timeout.unwrap_or(RESPONSE_TIMEOUT)
    }
}

impl<T> Default for ReflectorOptions<T> {
    fn default() -> Self {
        ReflectorOptions { common: CommonOptions::default(), transform: None }
    }
}

impl<T> Clone for ReflectorOptions<T> {
    fn clone(&self) -> Self {
        ReflectorOptions { common: self.common.clone(), transform: self.transform.clone() }
    }
}

impl<T> ReflectorOptions<T> {
    /// Copies the options for another object type, without those specific to this type or to one
    /// reflector.
    pub(crate) fn of_another_type<U>(&self) -> ReflectorOptions<U> {
        ReflectorOptions { common: self.common.of_another(), transform: None }
    }

    /// Copies the options for another namespace of the same objects.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Self {
        let (mut common, transform) = (self.common.clone(), self.transform.clone());
        if !namespace.is_empty() && !common.name.is_empty() {
            common.name.extend([": ", namespace]);
        }
        ReflectorOptions { common, transform }
    }

    /// Called for each event of a watch.
    pub(crate) fn on_event(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.common.on_event = Some(Arc::new(call));
        self
    }

    /// Always lists in pages of this size. By default in pages of 500 where that does not cost the
    /// server more.
    #[must_use]
    #[doc(alias = "WatchListPageSize")]
    pub fn page_size(mut self, size: u32) -> Self {
        self.common.page_size = (size > 0).then_some(size);
        self
    }

    /// Requests watches of this duration, randomly up to twice as long. Five minutes by default,
    /// which is also the minimum.
    #[must_use]
    #[doc(alias = "MinWatchTimeout")]
    pub fn watch_timeout(mut self, timeout: Duration) -> Self {
        self.common.watch_timeout = timeout.max(SHORTEST_WATCH);
        self
    }

    /// How long the server may stall in the middle of a list, or of the initial objects of a
    /// streaming list, before the request is repeated. Two minutes by default; client-go has no
    /// such limit. The time until the response begins is limited by the
    /// [`ListWatch`](crate::ListWatch::answer_timeout).
    #[must_use]
    pub fn response_timeout(mut self, response_timeout: Duration) -> Self {
        self.common.response_timeout = Some(response_timeout);
        self
    }

    /// Treats a 404 as proof that the resource no longer exists, and deletes all its objects from
    /// the cache.
    ///
    /// By default all objects stay until there is [proof](crate::ListerWatcher::is_gone), because a
    /// broken proxy may answer 404. Either way the reflector is
    /// [`Absent`](crate::HealthState::Absent)until then.
    #[must_use]
    pub fn empty_when_not_found(mut self) -> Self {
        self.common.empties_when_not_found = true;
        self
    }

    /// The back-off between attempts.
    #[must_use]
    pub fn backoff(mut self, backoff: ReflectorBackoff) -> Self {
        self.common.backoff = backoff;
        self
    }

    /// Retries the watch immediately, instead of listing, while internal errors of the server last
    /// less than this. Zero by default.
    #[must_use]
    #[doc(alias = "MaxInternalErrorRetryDuration")]
    pub fn retry_internal_errors_for(mut self, duration: Duration) -> Self {
        self.common.retry_internal_errors = duration;
        self
    }

    /// Reads all objects with plain lists only, never with streaming lists.
    #[must_use]
    #[doc(alias = "WatchListClient")]
    pub fn without_streaming_lists(mut self) -> Self {
        self.common.stream_lists = false;
        self
    }

    /// Repeats each streaming list as a plain list and reports differences. For tests of servers:
    /// it doubles their work.
    #[must_use]
    #[doc(alias = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR")]
    pub fn verify_streaming_lists(mut self) -> Self {
        self.common.verifies = true;
        self
    }
}

/// Options of a single reflector. The reflector options of a factory, `ReflectorOptions<()>`, do
/// not have them.
impl<T: Object> ReflectorOptions<T> {
    /// The name in logs. Empty by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.common.name = name.into();
        self
    }

    /// Resyncs the store once per `period`. Off by default.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.common.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// Called before each resync; it is skipped if the function returns false.
    #[must_use]
    #[doc(alias = "ShouldResync")]
    pub fn should_resync(mut self, should: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.common.should_resync = Some(Arc::new(should));
        self
    }

    /// Calls `handler` with each error, as described at [`ErrorHandler`]. It runs in the
    /// reflector's task, so it must be quick. A panic in it is logged and ignored. Errors are
    /// logged in any case.
    #[must_use]
    #[doc(alias = "SetWatchErrorHandler")]
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.common.on_error = Some(Arc::new(handler));
        self
    }

    /// Transforms each object once, when it arrives from the server. None by default.
    #[must_use]
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Skips objects of any other kind. By default the type determines the kind.
    #[must_use]
    pub fn expect_kind(mut self, kind: GroupVersionKind) -> Self {
        self.common.expected_kind = Some(kind);
        self
    }
}

impl<T> fmt::Debug for ReflectorOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorOptions")
            .field("name", &self.common.name)
            .field("resync", &self.common.resync)
            .field("page_size", &self.common.page_size)
            .field("backoff", &self.common.backoff)
            .finish_non_exhaustive()
    }
}
