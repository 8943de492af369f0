//! What can be chosen about a reflector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{GroupVersionKind, Object};

use super::backoff::Backoff;
use super::error::ReflectorError;
use crate::list_watch::PATIENCE;
use crate::queue::Transform;

/// The shortest a watch may be asked to last.
const SHORTEST_WATCH: Duration = Duration::from_secs(5 * 60);

/// Called with each error of a reflector, in the order in which they occur.
///
/// It hears of:
/// - each list that fails ([`List`](ReflectorError::List)), be it at the start or in the middle;
/// - each watch that is refused, each ERROR event, whatever the reflector does next (410, 429 and
///   internal errors included), each connection that breaks during a watch, and each stream that
///   cannot be read ([`Watch`](ReflectorError::Watch));
/// - each watch that ends within a second without an event
///   ([`VeryShortWatch`](ReflectorError::VeryShortWatch));
/// - each object that cannot be decoded or transformed
///   ([`Undecodable`](ReflectorError::Undecodable), [`Transform`](ReflectorError::Transform)):
///   once, and again only after it was usable or has another uid;
/// - each event and bookmark of another kind, and each event whose object has no name
///   ([`Unexpected`](ReflectorError::Unexpected),
///   [`UnexpectedBookmark`](ReflectorError::UnexpectedBookmark), or `Undecodable` for a type with a
///   fixed kind);
/// - each streaming list that differs from a plain one, if [that is
///   verified](ReflectorOptions::verify_streaming_lists).
///
/// It does not hear of watches that the server ends without an error, of a 404 that repeats the one
/// before, of a streaming list that the server does not support (the plain list that follows says
/// whether there is a problem), and of a 410 after
/// [`ListerWatcher::has_moved`](crate::ListerWatcher::has_moved).
#[doc(alias = "WatchErrorHandler")]
pub type ErrorHandler = Arc<dyn Fn(&ReflectorError) + Send + Sync>;

/// Choices about a reflector.
pub struct ReflectorOptions<T> {
    pub(crate) choices: Choices,
    pub(super) transform: Option<Transform<T>>,
}

/// What has nothing to do with the type of objects.
#[derive(Clone)]
pub(crate) struct Choices {
    pub(super) name: String,
    pub(crate) resync: Option<Duration>,
    pub(crate) should_resync: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    pub(super) on_event: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(super) page_size: Option<u32>,
    pub(super) watch_timeout: Duration,
    /// Two minutes if it is not said.
    pub(crate) patience: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) retry_internal_errors: Duration,
    pub(super) on_error: Option<ErrorHandler>,
    pub(super) stream_lists: bool,
    pub(super) verifies: bool,
    pub(super) expected_kind: Option<GroupVersionKind>,
    pub(super) empties_when_not_found: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            name: String::new(),
            resync: None,
            should_resync: None,
            on_event: None,
            page_size: None,
            watch_timeout: SHORTEST_WATCH,
            patience: None,
            backoff: Backoff::default(),
            retry_internal_errors: Duration::ZERO,
            on_error: None,
            stream_lists: true,
            verifies: false,
            expected_kind: None,
            empties_when_not_found: false,
        }
    }
}

impl Choices {
    /// The same for another reflector, without what is about this one or about the type of its objects.
    fn of_another(&self) -> Self {
        Choices {
            page_size: self.page_size,
            watch_timeout: self.watch_timeout,
            patience: self.patience,
            backoff: self.backoff.clone(),
            retry_internal_errors: self.retry_internal_errors,
            stream_lists: self.stream_lists,
            verifies: self.verifies,
            empties_when_not_found: self.empties_when_not_found,
            ..Choices::default()
        }
    }

    pub(super) fn patience_or_default(&self) -> Duration {
        self.patience.unwrap_or(PATIENCE)
    }
}

impl<T> Default for ReflectorOptions<T> {
    fn default() -> Self {
        ReflectorOptions { choices: Choices::default(), transform: None }
    }
}

impl<T> Clone for ReflectorOptions<T> {
    fn clone(&self) -> Self {
        ReflectorOptions { choices: self.choices.clone(), transform: self.transform.clone() }
    }
}

impl<T> ReflectorOptions<T> {
    /// The same for objects of another type, without what is about those of this type or about one reflector.
    pub(crate) fn of_another_type<U>(&self) -> ReflectorOptions<U> {
        ReflectorOptions { choices: self.choices.of_another(), transform: None }
    }

    /// The same for another namespace of the same objects.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Self {
        let (mut choices, transform) = (self.choices.clone(), self.transform.clone());
        if !namespace.is_empty() && !choices.name.is_empty() {
            choices.name.extend([": ", namespace]);
        }
        ReflectorOptions { choices, transform }
    }

    /// Called for each event of a watch.
    pub(crate) fn on_event(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.choices.on_event = Some(Arc::new(call));
        self
    }

    /// Lists in pages of this size, always. By default in pages of 500 where that does not cost the server more.
    #[must_use]
    #[doc(alias = "WatchListPageSize")]
    pub fn page_size(mut self, size: u32) -> Self {
        self.choices.page_size = (size > 0).then_some(size);
        self
    }

    /// Asks for watches that last this long, up to twice as long at random. Five minutes by default, and at least.
    #[must_use]
    #[doc(alias = "MinWatchTimeout")]
    pub fn watch_timeout(mut self, timeout: Duration) -> Self {
        self.choices.watch_timeout = timeout.max(SHORTEST_WATCH);
        self
    }

    /// How long the server may say nothing in the middle of a list, or of the objects that a watch begins with, until it is asked again. Two
    /// minutes by default; in Go it may do so for ever. How long it may take to begin is up to the
    /// [`ListWatch`](crate::ListWatch::answer_timeout).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.choices.patience = Some(patience);
        self
    }

    /// Takes each answer 404 for proof that the resource is gone, and deletes all its objects from
    /// the cache.
    ///
    /// By default all objects stay until there is [proof](crate::ListerWatcher::is_gone), because a
    /// broken proxy answers 404 as well. Either way the reflector is
    /// [`Absent`](crate::HealthState::Absent) meanwhile.
    #[must_use]
    pub fn empty_when_not_found(mut self) -> Self {
        self.choices.empties_when_not_found = true;
        self
    }

    /// How long to wait between tries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.choices.backoff = backoff;
        self
    }

    /// Watches again at once, rather than listing, after internal errors of the server that go on for less than this.
    /// Zero by default.
    #[must_use]
    #[doc(alias = "MaxInternalErrorRetryDuration")]
    pub fn retry_internal_errors_for(mut self, duration: Duration) -> Self {
        self.choices.retry_internal_errors = duration;
        self
    }

    /// Reads all objects by lists only, never by a watch that begins with them.
    #[must_use]
    #[doc(alias = "WatchListClient")]
    pub fn without_streaming_lists(mut self) -> Self {
        self.choices.stream_lists = false;
        self
    }

    /// Lists again after each streaming list, and tells of a difference. For tests of servers: it doubles their work.
    #[must_use]
    #[doc(alias = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR")]
    pub fn verify_streaming_lists(mut self) -> Self {
        self.choices.verifies = true;
        self
    }
}

/// Options about one reflector. Those of a factory, `ReflectorOptions<()>`, are for all of its
/// reflectors and do not have them.
impl<T: Object> ReflectorOptions<T> {
    /// The name in diagnostics. Empty by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.choices.name = name.into();
        self
    }

    /// Has the store resync once each `period`. Off by default.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.choices.resync = (!period.is_zero()).then_some(period);
        self
    }

    /// Asked each time before the store resyncs. By default it always does.
    #[must_use]
    #[doc(alias = "ShouldResync")]
    pub fn should_resync(mut self, should: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.choices.should_resync = Some(Arc::new(should));
        self
    }

    /// Calls `handler` with each error, as [`ErrorHandler`] says. It is called from the reflector's
    /// task, so it must be quick. A panic in it is logged and ignored. Errors are logged in any
    /// case.
    #[must_use]
    #[doc(alias = "SetWatchErrorHandler")]
    pub fn on_error(mut self, handler: impl Fn(&ReflectorError) + Send + Sync + 'static) -> Self {
        self.choices.on_error = Some(Arc::new(handler));
        self
    }

    /// Changes each object once, as it comes from the server. None by default.
    #[must_use]
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform<T>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Leaves out objects of any other kind. By default the type decides.
    #[must_use]
    pub fn expect_kind(mut self, kind: GroupVersionKind) -> Self {
        self.choices.expected_kind = Some(kind);
        self
    }
}

impl<T> fmt::Debug for ReflectorOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorOptions")
            .field("name", &self.choices.name)
            .field("resync", &self.choices.resync)
            .field("page_size", &self.choices.page_size)
            .field("backoff", &self.choices.backoff)
            .finish_non_exhaustive()
    }
}
