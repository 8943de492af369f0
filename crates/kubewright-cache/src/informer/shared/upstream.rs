//! What stands before and behind the queue: reflector and store, and all that depends on the type of their objects.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ResourceVersion, Str};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::batch::{AnySnapshot, Applied};
use super::feed::{AnyQueue, Feed};
use super::processor::Processor;
use crate::informer::process::{Recreated, Reminder, apply};
use crate::lister_watcher::ListerWatcher;
use crate::metrics::{Labels, Observed, Sample};
use crate::queue::BoxFuture;
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;
use crate::task::all;
use crate::{AnyObject, Delta};

/// Reflector and store as the processor sees them, which knows no types.
pub(super) trait Upstream: Send + Sync {
    /// Makes the reflector; false if there was a run already.
    fn begin(&self, processor: &Arc<Processor>) -> bool;
    /// Runs the reflector until `stop` is cancelled.
    fn reflect<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()>;
    /// Waits for as long as the reflector would after a failure.
    fn back_off(&self) -> BoxFuture<'_, ()>;
    /// How the reflector is doing, once there is one.
    fn health(&self) -> Option<Health>;
    /// Applies deltas to the store.
    fn apply(&self, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) -> Applied;
    /// The store as it is now.
    fn snapshot(&self) -> AnySnapshot;
    /// How many objects the store has, and of what version it is.
    fn extent(&self) -> (usize, ResourceVersion);
}

/// What all handles of an informer share.
pub(super) struct Shared<T> {
    /// Dropped first: handlers stop before there is nothing to tell.
    pub(super) processor: Arc<Processor>,
    pub(super) store: Store<T>,
    pub(super) sources: Mutex<Option<Sources<T>>>,
    /// One, or one for each namespace.
    pub(super) reflectors: OnceLock<Vec<Reflector<T>>>,
    pub(super) recreated: Recreated,
    /// Set by a run over several namespaces.
    pub(super) resync: OnceLock<Resync>,
}

/// What a run begins with, taken by the first one.
pub(super) type Sources<T> = (Vec<Source<T>>, ReflectorOptions<T>);

/// Where to learn of the objects of a namespace; the empty one stands for all that there are.
pub(crate) type Source<T> = (Str, Box<dyn ListerWatcher<T>>);

/// How handlers of several namespaces are resynced.
pub(super) struct Resync {
    period: Duration,
    /// Whether any handler is due for a resync.
    asks: Box<dyn Fn() -> bool + Send + Sync>,
    queue: Arc<AnyQueue>,
}

impl<T> Shared<T> {
    fn begun(&self) -> &[Reflector<T>] {
        self.reflectors.get().expect("a run begins with its reflectors")
    }
}

impl<T: Object> Shared<T> {
    /// Resyncs as long as any namespace is watched, as a reflector does for one (RE-17).
    async fn resyncs(&self, resync: &Resync) {
        loop {
            sleep(resync.period).await;
            if self.begun().iter().any(Reflector::is_watching) && (resync.asks)() {
                resync.queue.resync();
            }
        }
    }
}

impl<T: Object> Upstream for Shared<T> {
    fn begin(&self, processor: &Arc<Processor>) -> bool {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((sources, options)) = sources else { return false };
        if sources.len() > 1 {
            processor.queue.await_lists_of(sources.iter().map(|(namespace, _)| namespace.clone()).collect());
        }
        let mut options = options.on_event(processor.lets_go());
        let period = processor.enter();
        let chosen = options.choices.should_resync.take();
        let is_due = processor.asks_for_resync();
        let asks = move || chosen.as_ref().is_none_or(|chosen| chosen()) && is_due();
        if sources.len() == 1 {
            options = options.resync_every(period).should_resync(asks);
        } else {
            // No single namespace may decide, for it may not be readable: see `resyncs`.
            options = options.resync_every(Duration::ZERO);
            self.resync.get_or_init(|| Resync { period, asks: Box::new(asks), queue: processor.queue.clone() });
        }
        let reflectors = sources.into_iter().map(|(namespace, lister_watcher)| {
            let options = options.of_namespace(&namespace);
            let feed = Feed { queue: processor.queue.clone(), store: self.store.clone(), namespace };
            Reflector::over(lister_watcher, Arc::new(feed), options)
        });
        self.reflectors.get_or_init(|| reflectors.collect());
        true
    }

    fn reflect<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        let mut running: Vec<BoxFuture<'a, ()>> =
            self.begun().iter().map(|one| Box::pin(one.run(stop)) as BoxFuture<'a, ()>).collect();
        if let Some(resync) = self.resync.get().filter(|resync| !resync.period.is_zero()) {
            running.push(Box::pin(self.resyncs(resync)));
        }
        match running.len() {
            1 => running.remove(0),
            _ => all(running),
        }
    }

    fn back_off(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.begun()[0].back_off())
    }

    fn health(&self) -> Option<Health> {
        self.reflectors.get()?.iter().map(Reflector::health).reduce(Health::and)
    }

    fn apply(&self, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) -> Applied {
        let applied = apply(&self.store, deltas.into_iter().map(Delta::typed), is_in_initial_list, self.recreated);
        let reminder = match applied.reminder {
            Reminder::Repeated if applied.before.is_empty() => Reminder::None,
            reminder => reminder,
        };
        let (before, after) = (applied.before.into_any(), applied.after.into_any());
        Applied { events: Arc::new(applied.events), before, after, reminder }
    }

    fn snapshot(&self) -> AnySnapshot {
        self.store.snapshot().into_any()
    }

    fn extent(&self) -> (usize, ResourceVersion) {
        let snapshot = self.store.snapshot();
        (snapshot.len(), snapshot.resource_version().clone())
    }
}

impl<T: Object> Observed for Shared<T> {
    fn labels(&self) -> &Labels {
        &self.processor.labels
    }

    fn has_stopped(&self) -> bool {
        self.processor.stop.is_cancelled()
    }

    fn observe(&self) -> Sample {
        self.processor.observe(self)
    }
}
