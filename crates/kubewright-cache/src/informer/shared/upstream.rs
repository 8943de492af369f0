//! What stands before and behind the queue: reflector and store, and all that depends on the type of their objects.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kubewright_core::{Object, ResourceVersion};
use tokio_util::sync::CancellationToken;

use super::batch::{AnySnapshot, Applied};
use super::feed::Feed;
use super::processor::Processor;
use crate::informer::process::{Recreated, Reminder, apply};
use crate::lister_watcher::ListerWatcher;
use crate::metrics::{Labels, Observed, Sample};
use crate::queue::BoxFuture;
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;
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
    pub(super) reflector: OnceLock<Reflector<T>>,
    pub(super) recreated: Recreated,
}

/// What a run begins with, taken by the first one.
pub(super) type Sources<T> = (Box<dyn ListerWatcher<T>>, ReflectorOptions<T>);

impl<T> Shared<T> {
    fn begun(&self) -> &Reflector<T> {
        self.reflector.get().expect("a run begins with its reflector")
    }
}

impl<T: Object> Upstream for Shared<T> {
    fn begin(&self, processor: &Arc<Processor>) -> bool {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((lister_watcher, options)) = sources else { return false };
        let feed = Feed { queue: processor.queue.clone(), store: self.store.clone() };
        let options = options
            .resync_every(processor.enter())
            .should_resync(processor.asks_for_resync())
            .on_event(processor.lets_go());
        self.reflector.get_or_init(|| Reflector::over(lister_watcher, Arc::new(feed), options));
        true
    }

    fn reflect<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(self.begun().run(stop))
    }

    fn back_off(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.begun().back_off(None))
    }

    fn health(&self) -> Option<Health> {
        self.reflector.get().map(Reflector::health)
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
