//! Observers of reconciles and caches, for recordings and replays.
//!
//! A reconcile is a function of its inputs: the caches that it reads, the answers to its requests,
//! the clock, and random numbers. An observer sees all of them. In a replay, it supplies them.
//!
//! The observed reconcile is known by thread: a worker [enters](enter) it around each poll of its
//! future. A task that a reconciler spawns is part of it only if it runs a [`carried`] future.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{GroupVersionResource, MicroTime, ObjectKey, Str};

/// Sees the reconciles and the caches of a program.
pub trait Observer: Send + Sync + 'static {
    /// A reconcile begins.
    fn began(&self, start: ReconcileStart<'_>) -> Arc<dyn ObservedWork>;

    /// A cache is created, to which a replay can write. Returns its number for
    /// [`applied`](Self::applied).
    fn cache_created(&self, cache: &CacheScope, writer: Box<dyn CacheWriter>) -> u64;

    /// A cache shows these changes, from a generation on. The changes of a cache arrive in order.
    fn applied(&self, cache: u64, generation: u64, version: &str, changes: &mut dyn Iterator<Item = CacheChange<'_>>);
}

/// Sees one reconcile, and may replace its inputs.
pub trait ObservedWork: Send + Sync + 'static {
    /// The number of the reconcile, unique within the process.
    fn number(&self) -> u64;

    /// The reconcile reads the clock. Returns the time that it sees.
    fn clock(&self, reading: MicroTime) -> MicroTime;

    /// The reconcile draws a random number. Returns the number that it sees.
    fn random(&self, draw: u64) -> u64;

    /// The reconcile is about to read a cache.
    fn cache_reading(&self, cache: u64);

    /// The reconcile has read a cache of this generation.
    fn cache_read(&self, cache: u64, generation: u64);

    /// The reconcile has ended.
    fn ended(&self, end: ReconcileEnd<'_>);
}

/// Writes to a cache, for a replay. In a running program only the informer writes.
pub trait CacheWriter: Send + Sync {
    /// Adds or replaces an object. Ignores text that is no object of the cache's type.
    fn set(&self, json: &[u8]);

    /// Removes the object of this key.
    fn delete(&self, key: &ObjectKey);
}

/// The start of a reconcile.
#[derive(Debug, Clone)]
pub struct ReconcileStart<'a> {
    /// The name of the controller.
    pub controller: &'a str,
    /// The key.
    pub key: &'a str,
    /// Why it runs. Empty if that is not known.
    pub reasons: Vec<StartReason>,
    /// The attempt: 1 unless it is a retry.
    pub attempt: u32,
    /// The random identifier of the reconcile in logs.
    pub id: u64,
}

/// One of the events that led to a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReason {
    /// The resource, or the name of another source.
    pub source: Str,
    /// The object, if there is one.
    pub object: Option<ObjectKey>,
    /// The kind of event, such as `updated`.
    pub kind: Str,
}

/// The end of a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcileEnd<'a> {
    /// It succeeded.
    Done,
    /// It succeeded, and asked to be run again. Without a delay, the rate limiter decides.
    Requeue(Option<Duration>),
    /// It failed with this error.
    Failed(&'a str),
    /// It was dropped before its end.
    Dropped,
}

/// The scope of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheScope {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The namespaces; empty for all.
    pub namespaces: Vec<Str>,
    /// The label selector; empty for all objects.
    pub labels: String,
    /// The field selector; empty for all objects.
    pub fields: String,
    /// Whether it holds metadata only.
    pub is_metadata: bool,
}

/// A change of a cache.
pub enum CacheChange<'a> {
    /// The cache shows this object, which encodes itself as JSON.
    Set(&'a dyn Fn() -> Vec<u8>),
    /// The cache no longer shows the object of this key.
    Deleted(ObjectKey),
}

impl fmt::Debug for CacheChange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheChange::Set(_) => f.write_str("Set"),
            CacheChange::Deleted(key) => f.debug_tuple("Deleted").field(key).finish(),
        }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn ObservedWork>>> = const { RefCell::new(None) };
}

/// Makes this reconcile the current one of the thread, until the guard is dropped.
#[must_use = "the reconcile is left when the guard is dropped"]
pub fn enter(work: Option<Arc<dyn ObservedWork>>) -> Entered {
    Entered { previous: CURRENT.with(|current| current.replace(work)) }
}

/// The observed reconcile of this thread.
pub fn current() -> Option<Arc<dyn ObservedWork>> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Polls a future outside of the current reconcile: a server in the same process is not part of it.
pub async fn unobserved<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _left = enter(None);
        future.as_mut().poll(context)
    })
    .await
}

/// A future that is part of the current reconcile wherever it is polled. For tasks that a
/// reconciler spawns.
pub fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let work = current();
    async move {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _entered = enter(work.clone());
            future.as_mut().poll(context)
        })
        .await
    }
}

/// A reconcile that has begun. Its end is reported, also if it is dropped.
pub struct ObservedReconcile {
    work: Arc<dyn ObservedWork>,
    has_ended: bool,
}

impl ObservedReconcile {
    /// Reports the start.
    pub fn begin(observer: &dyn Observer, start: ReconcileStart<'_>) -> Self {
        ObservedReconcile { work: observer.began(start), has_ended: false }
    }

    /// The reconcile, to be entered.
    pub fn work(&self) -> Arc<dyn ObservedWork> {
        self.work.clone()
    }

    /// Polls a future as this reconcile.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _entered = enter(Some(self.work()));
            future.as_mut().poll(context)
        })
        .await
    }

    /// Reports the end.
    pub fn end(mut self, end: ReconcileEnd<'_>) {
        self.has_ended = true;
        self.work.ended(end);
    }
}

impl Drop for ObservedReconcile {
    fn drop(&mut self) {
        if !self.has_ended {
            self.work.ended(ReconcileEnd::Dropped);
        }
    }
}

impl fmt::Debug for ObservedReconcile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedReconcile").field("number", &self.work.number()).finish_non_exhaustive()
    }
}

/// Whether the thread runs an observed reconcile.
pub fn is_observed() -> bool {
    CURRENT.with(|current| current.borrow().is_some())
}

/// Reads a cache, and reports it. `read` returns the generation with the contents.
pub fn read_cache<R>(cache: u64, read: impl FnOnce() -> (u64, R)) -> R {
    let Some(work) = current() else { return read().1 };
    work.cache_reading(cache);
    let (generation, contents) = read();
    work.cache_read(cache, generation);
    contents
}

/// A random number. An observed reconcile records it, and sees the same number in a replay.
#[must_use]
pub fn random(draw: u64) -> u64 {
    current().map_or(draw, |work| work.random(draw))
}

/// Leaves the current reconcile on drop.
pub struct Entered {
    previous: Option<Arc<dyn ObservedWork>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let previous = self.previous.take();
        // The left reconcile is dropped outside of the cell, because its drop may read it.
        drop(CURRENT.with(|current| current.replace(previous)));
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}
