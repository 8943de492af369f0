//! Reflector and store of an informer: the parts that depend on the object type.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ResourceVersion, Str};
use kubewright_net::observation::{CacheChange, Observer};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::batch::{AnySnapshot, AppliedBatch};
use super::feed::{AnyQueue, Feed};
use super::processor::Processor;
use crate::informer::event::Event;
use crate::informer::process::{Applied, Recreated, ResyncScope, apply};
use crate::lister_watcher::ListerWatcher;
use crate::metrics::{InformerLabels, InformerSample, ObservedInformer};
use crate::queue::BoxFuture;
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;
use crate::task::all;
use crate::{AnyObject, Delta};

/// Reflector and store, type-erased for the processor.
pub(super) trait Upstream: Send + Sync {
    /// Creates the reflector; false if the informer ran before.
    fn begin(&self, processor: &Arc<Processor>) -> bool;
    /// Runs the reflector until `stop` is cancelled.
    fn reflect<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()>;
    /// Waits for the reflector's back-off after a failure.
    fn back_off(&self) -> BoxFuture<'_, ()>;
    /// The health of the reflector, once there is one.
    fn health(&self) -> Option<Health>;
    /// Applies deltas to the store.
    fn apply(&self, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) -> AppliedBatch;
    /// The current content of the store.
    fn snapshot(&self) -> AnySnapshot;
    /// Number of objects in the store, and its resource version.
    fn extent(&self) -> (usize, ResourceVersion);
}

/// State shared by all handles of an informer.
pub(super) struct InformerCore<T> {
    /// Declared first, so that it is dropped first: handlers stop before the store is gone.
    pub(super) processor: Arc<Processor>,
    pub(super) store: Store<T>,
    pub(super) sources: Mutex<Option<Sources<T>>>,
    /// One reflector, or one per namespace.
    pub(super) reflectors: OnceLock<Vec<Reflector<T>>>,
    pub(super) recreated: Recreated,
    /// The observer, and the number of this cache there.
    pub(super) observer: Option<(Arc<dyn Observer>, u64)>,
    /// Set when several namespaces are watched.
    pub(super) resync: OnceLock<NamespaceResync>,
}

/// The input of the reflectors, taken by the first run.
pub(super) type Sources<T> = (Vec<NamespaceSource<T>>, ReflectorOptions<T>);

/// A namespace and its lister-watcher; the empty name means all namespaces.
pub(crate) type NamespaceSource<T> = (Str, Box<dyn ListerWatcher<T>>);

/// How the handlers of a multi-namespace informer are resynced.
pub(super) struct NamespaceResync {
    period: Duration,
    /// Whether any handler is due for a resync.
    asks: Box<dyn Fn() -> bool + Send + Sync>,
    queue: Arc<AnyQueue>,
}

impl<T> InformerCore<T> {
    fn begun(&self) -> &[Reflector<T>] {
        self.reflectors.get().expect("a run begins with its reflectors")
    }
}

impl<T: Object> InformerCore<T> {
    /// Resyncs while any namespace is watched, as a reflector does for one namespace (RE-17).
    async fn resyncs(&self, resync: &NamespaceResync) {
        loop {
            sleep(resync.period).await;
            if self.begun().iter().any(Reflector::is_watching) && (resync.asks)() {
                resync.queue.resync();
            }
        }
    }
}

impl<T: Object> Upstream for InformerCore<T> {
    fn begin(&self, processor: &Arc<Processor>) -> bool {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((sources, options)) = sources else { return false };
        if sources.len() > 1 {
            processor.queue.await_lists_of(sources.iter().map(|(namespace, _)| namespace.clone()).collect());
        }
        let mut options = options.on_event(processor.drop_retained());
        let period = processor.enter();
        let chosen = options.common.should_resync.take();
        let is_due = processor.asks_for_resync();
        let asks = move || chosen.as_ref().is_none_or(|chosen| chosen()) && is_due();
        if sources.len() == 1 {
            options = options.resync_every(period).should_resync(asks);
        } else {
            // No single reflector may decide, because its namespace may be unreadable: see
            // `resyncs`.
            options = options.resync_every(Duration::ZERO);
            self.resync.get_or_init(|| NamespaceResync {
                period,
                asks: Box::new(asks),
                queue: processor.queue.clone(),
            });
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

    fn apply(&self, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) -> AppliedBatch {
        let applied = apply(&self.store, deltas.into_iter().map(Delta::typed), is_in_initial_list, self.recreated);
        if let Some((observer, number)) = &self.observer {
            report(&**observer, *number, &applied);
        }
        let resync_scope = match applied.resync_scope {
            ResyncScope::Repeated if applied.before.is_empty() => ResyncScope::None,
            resync_scope => resync_scope,
        };
        let (before, after) = (applied.before.into_any(), applied.after.into_any());
        AppliedBatch { events: Arc::new(applied.events), before, after, resync_scope }
    }

    fn snapshot(&self) -> AnySnapshot {
        self.store.snapshot().into_any()
    }

    fn extent(&self) -> (usize, ResourceVersion) {
        let snapshot = self.store.snapshot();
        (snapshot.len(), snapshot.resource_version().clone())
    }
}

/// Encodes an object as JSON.
type EncodeObject<'a> = Box<dyn Fn() -> Vec<u8> + 'a>;

/// Reports the changes of a batch. A batch without changes is reported if it is the first, which
/// shows that the cache has synced.
fn report<T: Object>(observer: &dyn Observer, number: u64, applied: &Applied<T>) {
    let changed: Vec<&Event<T>> = applied.events.iter().filter(|event| !event.is_resync()).collect();
    if changed.is_empty() && !applied.before.resource_version().is_empty() {
        return;
    }
    let version = applied.after.resource_version().as_str();
    // Closures are borrowed by the changes, so they must outlive the iterator.
    let encoders: Vec<Option<EncodeObject<'_>>> = changed
        .iter()
        .map(|event| match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                Some(Box::new(|| object.to_json()) as EncodeObject<'_>)
            }
            Event::Deleted(_) => None,
        })
        .collect();
    let mut changes = changed.iter().zip(&encoders).map(|(event, encoder)| match encoder {
        Some(encode) => CacheChange::Set(&**encode),
        None => CacheChange::Deleted(event.key()),
    });
    observer.applied(number, applied.after.generation(), version, &mut changes);
}

impl<T: Object> ObservedInformer for InformerCore<T> {
    fn labels(&self) -> &InformerLabels {
        &self.processor.labels
    }

    fn has_stopped(&self) -> bool {
        self.processor.stop.is_cancelled()
    }

    fn observe(&self) -> InformerSample {
        self.processor.observe(self)
    }
}
