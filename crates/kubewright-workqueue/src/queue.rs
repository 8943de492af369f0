//! The plain queue: ordered, without duplicates, and never one key with two workers.
//!
//! This module owns the lock, the clock and the waking up; what follows from what is decided in `state`.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::ageing::Ageing;
use crate::clock;
use crate::fairness::Order;
use crate::get::Get;
use crate::metrics::{Labels, Stats};
use crate::options::Options;
use crate::state::{Phase, State};
use crate::sync::{Guard, Lock};
use crate::view::View;
use crate::waiters::Waiters;

/// Keys in need of processing, first come first served.
///
/// A key that is added while it waits stays where it is. A key that is added while a worker has it comes back into line
/// when that worker is done, once, however often it was added: so no two workers ever have the same key, and a key is
/// always processed after it was last added. Clones are handles to the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use kubewright_workqueue::{Options, WorkQueue};
///
/// let queue = WorkQueue::new(Options::new());
/// queue.add("default/web");
/// queue.add("default/web");
/// assert_eq!(queue.len(), 1);
///
/// let claim = queue.get().await.expect("a key waits");
/// queue.add("default/web");
/// assert_eq!((*claim, queue.len()), ("default/web", 0));
/// drop(claim);
/// assert_eq!(queue.len(), 1);
///
/// queue.shut_down();
/// assert!(queue.get().await.is_some());
/// assert!(queue.get().await.is_none());
/// # }
/// ```
#[doc(alias = "TypedInterface")]
pub struct WorkQueue<T> {
    pub(crate) shared: Arc<Shared<T>>,
}

/// What all handles of a queue share.
pub(crate) struct Shared<T> {
    locked: Lock<Locked<T>>,
    drained: Notify,
    hasher: RandomState,
    pub(crate) epoch: Instant,
    /// Whether it is kept when a key was added or handed out; where it is not, looks at the clock are saved, which cost
    /// as much as taking the lock twice.
    pub(crate) is_timed: bool,
    pub(crate) labels: Labels,
}

/// What the lock protects.
pub(crate) struct Locked<T> {
    pub(crate) state: State<T>,
    pub(crate) waiters: Waiters,
}

impl<T: Clone + Eq + Hash + Send + 'static> WorkQueue<T> {
    /// An empty queue.
    #[doc(alias = "NewTyped")]
    #[doc(alias = "NewTypedWithConfig")]
    #[must_use]
    pub fn new(options: Options<T>) -> Self {
        Self::ordered(options, None)
    }

    pub(crate) fn ordered(options: Options<T>, ageing: Option<Ageing>) -> Self {
        let metrics = options.metrics.filter(|_| !options.name.is_empty());
        let stats = metrics.as_ref().map(|_| Box::new(Stats::new(ageing.is_some())));
        let is_timed = !options.name.is_empty() || ageing.is_some() || options.group_of.is_some();
        let controller = options.controller.unwrap_or_else(|| options.name.clone());
        let shared = Arc::new(Shared {
            locked: Lock::new(Locked {
                state: State::new(Order::new(ageing, options.group_of), is_timed, stats),
                waiters: Waiters::default(),
            }),
            drained: Notify::new(),
            hasher: RandomState::default(),
            epoch: clock::now(),
            is_timed,
            labels: Labels { name: options.name, controller },
        });
        if let Some(metrics) = metrics {
            let observed: Arc<Shared<T>> = shared.clone();
            metrics.watch(observed);
        }
        Self { shared }
    }

    /// Marks `key` as in need of processing. Ignored once the queue is shutting down.
    pub fn add(&self, key: T) {
        self.add_with_priority(key, 0);
    }

    /// As [`add`](Self::add), for a key that is often in line already: it is cloned only if it is not.
    pub fn add_ref(&self, key: &T) {
        let shared = &*self.shared;
        let hash = shared.hash(key);
        shared.change(|locked| {
            let due = locked.advance(|| shared.now());
            let is_added = locked.state.add_ref(hash, key, || shared.now());
            locked.waiters.pick(due + usize::from(is_added));
        });
    }

    pub(crate) fn add_with_priority(&self, key: T, priority: i32) {
        let shared = &*self.shared;
        let hash = shared.hash(&key);
        // A key that was known already is dropped after the lock is free, since its own drop may be slow, or use the queue.
        let _unused = shared.change(|locked| {
            let due = locked.advance(|| shared.now());
            let (is_added, unused) = locked.state.add(hash, key, priority, || shared.now());
            locked.waiters.pick(due + usize::from(is_added));
            unused
        });
    }

    pub(crate) fn add_after_with_priority(&self, key: T, delay: Duration, priority: i32) {
        let hash = self.shared.hash(&key);
        let now = self.shared.now();
        let _unused = self.shared.change(|locked| {
            let mut unused = None;
            let mut added = locked.state.advance(now);
            if locked.state.phase == Phase::Open
                && let Some(stats) = &mut locked.state.stats
            {
                stats.retries += 1;
            }
            if delay.is_zero() {
                let (is_added, key) = locked.state.add(hash, key, priority, || now);
                added += usize::from(is_added);
                unused = key;
            } else {
                let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                if locked.state.add_at(hash, key, priority, now.saturating_add(delay)) {
                    locked.waiters.pick_timekeeper();
                }
            }
            locked.waiters.pick(added);
            unused
        });
    }

    /// Waits for the next key, and claims it until the claim is dropped. `None` when the queue is shut down and empty.
    ///
    /// Cancel safe: dropping the future loses no key, and whoever else waits gets it. Needs a tokio runtime with its
    /// timer enabled if keys are added with a delay.
    #[must_use = "futures do nothing unless polled"]
    pub fn get(&self) -> Get<'_, T> {
        Get::new(&self.shared)
    }

    /// Notes that work on `key` is over, for a key whose claim was taken apart by [`Claim::into_key`](crate::Claim::into_key).
    ///
    /// Does nothing if no worker has the key; a claim that is still held for it has no effect any more.
    pub fn done(&self, key: &T) {
        let hash = self.shared.hash(key);
        let ticket = self.shared.locked.lock().state.ticket(hash, key);
        if let Some((number, ticket)) = ticket {
            self.shared.finish(number, ticket);
        }
    }

    pub(crate) fn set_priority(&self, key: &T, priority: i32) -> bool {
        let hash = self.shared.hash(key);
        self.shared.change(|locked| locked.state.set_priority(hash, key, priority))
    }

    /// A picture of the queue for people: up to `limit` keys of each kind, and how many there are.
    #[must_use]
    pub fn view(&self, limit: usize) -> View<T> {
        let view = |state: &State<T>| View::of(state, &self.shared.labels.name, self.shared.epoch, limit);
        self.shared.look_at(self.shared.now(), view)
    }
}

impl<T> WorkQueue<T> {
    /// How many keys wait for a worker; neither those in work nor those whose delay is not over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.look_at(self.shared.now(), State::len)
    }

    /// Whether no key waits for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses keys from now on. Those that wait are still handed out; those whose delay is not over are dropped.
    ///
    /// Returns at once, and ends the waiting of [`shut_down_with_drain`](Self::shut_down_with_drain).
    pub fn shut_down(&self) {
        self.shared.shut_down(Phase::Closed);
    }

    /// Refuses keys from now on, and waits until every key that was added has been processed.
    ///
    /// That is, until no key waits or is in work, keys included that were added again while in work; keys whose delay is
    /// not over are dropped. Workers must go on calling [`get`](WorkQueue::get): while this waits, `get` ends only when
    /// no key can come any more. A worker that never finishes can be abandoned by [`shut_down`](Self::shut_down).
    /// Cancel safe: dropping the future only stops the waiting.
    pub async fn shut_down_with_drain(&self) {
        self.shared.shut_down(Phase::Draining);
        loop {
            let drained = self.shared.drained.notified();
            {
                let locked = self.shared.locked.lock();
                if locked.state.phase == Phase::Closed || locked.state.is_drained() {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Whether keys are refused.
    #[doc(alias = "ShuttingDown")]
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.locked.lock().state.phase != Phase::Open
    }

    /// The name given in the options, or an empty string.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.labels.name
    }
}

impl<T> Locked<T> {
    /// Whether handing out a key concerns nobody but its worker: no key waits for its time, and the queue is not about to end.
    #[inline]
    pub(crate) fn is_untroubled(&self) -> bool {
        self.state.deadlines.is_empty() && self.state.phase == Phase::Open
    }

    /// Puts keys in line whose time has come; looks at the clock only if there are such as wait for theirs.
    #[inline]
    pub(crate) fn advance(&mut self, now: impl FnOnce() -> u64) -> usize {
        if self.state.deadlines.is_empty() { 0 } else { self.state.advance(now()) }
    }
}

impl<T> Shared<T> {
    /// Nanoseconds since the queue was made.
    pub(crate) fn now(&self) -> u64 {
        clock::now().saturating_duration_since(self.epoch).as_nanos() as u64
    }

    /// Does something under the lock, and wakes the chosen workers after it.
    #[inline]
    pub(crate) fn change<R>(&self, work: impl FnOnce(&mut Locked<T>) -> R) -> R {
        change(self.lock(), work)
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, Locked<T>> {
        self.locked.lock()
    }

    /// Looks at the state as of `now`.
    pub(crate) fn look_at<R>(&self, now: u64, look: impl FnOnce(&State<T>) -> R) -> R {
        self.change(|locked| {
            let added = locked.state.advance(now);
            locked.waiters.pick(added);
            look(&locked.state)
        })
    }

    /// Ends the work on a key, if `ticket` is still valid.
    pub(crate) fn finish(&self, number: u32, ticket: u64) {
        let now = if self.is_timed { self.now() } else { 0 };
        let _forgotten = self.change(|locked| {
            let finished = locked.state.finish(number, ticket, now)?;
            locked.waiters.pick(usize::from(finished.requeued));
            if locked.state.phase == Phase::Draining && locked.state.is_drained() {
                self.drained.notify_waiters();
            }
            finished.forgotten
        });
    }

    fn shut_down(&self, phase: Phase) {
        let now = self.now();
        let _forgotten = self.change(|locked| {
            if locked.state.phase == Phase::Open {
                locked.state.advance(now);
            }
            locked.waiters.pick_all();
            locked.state.shut_down(phase)
        });
        self.drained.notify_waiters();
    }
}

/// Does something with what the lock protects, gives the lock back and wakes the chosen workers after it.
#[inline]
pub(crate) fn change<T, R>(mut locked: Guard<'_, Locked<T>>, work: impl FnOnce(&mut Locked<T>) -> R) -> R {
    let result = work(&mut locked);
    if locked.waiters.has_picked() {
        wake_picked(locked);
    }
    result
}

/// Wakes the chosen workers once the lock is free.
#[cold]
fn wake_picked<T>(mut locked: Guard<'_, Locked<T>>) {
    let first = locked.waiters.next_picked();
    // Mostly there is one.
    let others = if locked.waiters.has_picked() { locked.waiters.take_picked() } else { Vec::new() };
    drop(locked);
    first.into_iter().chain(others).for_each(Waker::wake);
}

impl<T: Hash> Shared<T> {
    fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Default for WorkQueue<T> {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.name()).field("len", &self.len()).finish_non_exhaustive()
    }
}
