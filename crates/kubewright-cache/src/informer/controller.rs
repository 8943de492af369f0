//! The low-level controller under informers, for programs that process deltas themselves.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ResourceVersion};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::event::Event;
use super::handler::{DeliveryOutcome, EventHandler, deliver_when_ready, try_deliver};
use super::process::{Applied, Recreated, ResyncScope, apply};
use super::shared::{InformerOptions, QueueKind};
use crate::Delta;
use crate::lister_watcher::ListerWatcher;
use crate::queue::{DeltaFifo, DeltaFifoOptions, Queue, RealFifo, RealFifoOptions, ReflectorStore};
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;
use crate::task::take_turns;

/// Delay after a panic of the process function.
const PANIC_DELAY: Duration = Duration::from_secs(1);

/// The parts of a [`Controller`].
pub struct Config<T> {
    /// Receives the reflector's changes and delivers them to `process`.
    pub queue: Arc<dyn Queue<T>>,
    /// The source of objects.
    pub lister_watcher: Box<dyn ListerWatcher<T>>,
    /// Processes popped deltas.
    pub process: Box<TryProcess<T>>,
    /// Options of the reflector: description, resync, error handler, page size.
    pub reflector: ReflectorOptions<T>,
    /// Puts deltas back into the queue if processing fails or panics, and retries after a second.
    /// Otherwise logs the error and drops the deltas.
    #[doc(alias = "RetryOnError")]
    pub retry_on_error: bool,
}

/// Processes deltas; the flag tells whether they belong to the initial list. With
/// [`retry_on_error`](Config::retry_on_error) the same deltas may be passed several times.
#[doc(alias = "PopProcessFunc")]
pub type TryProcess<T> = dyn FnMut(Vec<Delta<T>>, bool) -> Result<(), Box<dyn Error + Send + Sync>> + Send;

impl<T> fmt::Debug for Config<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

/// Feeds a queue from a reflector and processes its deltas: client-go's low-level controller.
///
/// [`Config::retry_on_error`] decides about deltas that cannot be processed.
pub struct Controller<T> {
    queue: Arc<dyn Queue<T>>,
    reflector: Reflector<T>,
    processing: Mutex<Option<DeltaConsumer<T>>>,
    /// Part of the initial list was popped but not fully processed.
    is_in_initial_list: AtomicBool,
    /// Set when part of the initial list was lost: the number of lists completed at that time. The
    /// controller syncs only after another list was fully applied.
    lost_after: Mutex<Option<u64>>,
    retry_on_error: bool,
}

/// The consumer of the deltas.
enum DeltaConsumer<T> {
    /// A user-provided function.
    Own(Box<TryProcess<T>>),
    Informer(SingleHandler<T>),
}

impl<T: Object> DeltaConsumer<T> {
    fn process(&mut self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self {
            DeltaConsumer::Own(process) => process(deltas, is_in_initial_list),
            DeltaConsumer::Informer(single) => {
                single.apply(deltas, is_in_initial_list);
                Ok(())
            }
        }
    }

    /// Asynchronous work after the deltas were taken out of the queue.
    async fn finish(&mut self) {
        if let DeltaConsumer::Informer(single) = self {
            single.deliver_all().await;
        }
    }
}

impl<T: Object> Controller<T> {
    /// A controller that has not been run.
    pub fn new(config: Config<T>) -> Self {
        let Config { queue, lister_watcher, process, reflector, retry_on_error } = config;
        let controller = Self::over(queue, lister_watcher, DeltaConsumer::Own(process), reflector);
        Controller { retry_on_error, ..controller }
    }

    fn over(
        queue: Arc<dyn Queue<T>>,
        lister_watcher: Box<dyn ListerWatcher<T>>,
        processing: DeltaConsumer<T>,
        reflector: ReflectorOptions<T>,
    ) -> Self {
        let feed: Arc<dyn ReflectorStore<T>> = queue.clone();
        let reflector = Reflector::over(lister_watcher, feed, reflector);
        let processing = Mutex::new(Some(processing));
        Controller {
            queue,
            reflector,
            processing,
            is_in_initial_list: AtomicBool::new(false),
            lost_after: Mutex::new(None),
            retry_on_error: false,
        }
    }

    /// Runs until `stop` is cancelled. Runs once: a second call returns immediately.
    pub async fn run(&self, stop: &CancellationToken) {
        let Some(mut processing) = self.processing.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            tracing::warn!("controller was already run");
            return;
        };
        let work = async {
            loop {
                let never = CancellationToken::new();
                {
                    let (reflecting, consuming) =
                        (pin!(self.reflector.run(&never)), pin!(self.consume(&mut processing)));
                    take_turns(reflecting, consuming, &|| self.queue.is_due(), &mut || {}).await;
                }
                // The deltas being applied are lost; the reflector's next list restores them. The
                // back-off keeps a function that always panics from causing lists in a tight loop.
                self.reflector.back_off().await;
            }
        };
        stop.run_until_cancelled(work).await;
        self.queue.close();
    }

    /// Processes popped deltas. Returns only if a cache missed some of them.
    async fn consume(&self, processing: &mut DeltaConsumer<T>) {
        loop {
            let mut has_panicked = false;
            let mut unprocessed = None;
            let mut call = |deltas: Vec<Delta<T>>, is_in_initial_list| {
                self.is_in_initial_list.store(is_in_initial_list, Ordering::Release);
                let again = self.retry_on_error.then(|| (deltas.clone(), is_in_initial_list));
                let process = AssertUnwindSafe(|| processing.process(deltas, is_in_initial_list));
                match catch_unwind(process) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => tracing::error!(%error, "cannot process deltas"),
                    Err(_) => has_panicked = true,
                }
                unprocessed = again;
            };
            if self.queue.pop(&mut call).await.is_err() {
                return std::future::pending().await;
            }
            if let Some((deltas, is_in_initial_list)) = unprocessed {
                // The queue is unlocked here. It accounts for the initial list itself.
                self.queue.requeue(deltas, is_in_initial_list);
                self.is_in_initial_list.store(false, Ordering::Release);
                sleep(PANIC_DELAY).await;
                continue;
            }
            processing.finish().await;
            let is_lost = has_panicked && matches!(processing, DeltaConsumer::Informer(_));
            if is_lost && !self.has_synced() {
                *self.lost_after() = Some(self.health().lists);
            } else if self.lost_after().is_some_and(|lists| lists < self.health().lists && self.queue.is_empty()) {
                *self.lost_after() = None;
            }
            self.is_in_initial_list.store(false, Ordering::Release);
            if is_lost {
                tracing::error!("panic while applying deltas, perhaps in an index function");
                return;
            }
            if has_panicked {
                tracing::error!("process function panicked");
                sleep(PANIC_DELAY).await;
            }
            consume_budget().await;
        }
    }

    fn lost_after(&self) -> MutexGuard<'_, Option<u64>> {
        self.lost_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the initial list has been processed completely.
    pub fn has_synced(&self) -> bool {
        // The queue must be read first: otherwise deltas popped in between would count as
        // processed.
        self.queue.has_synced() && !self.is_in_initial_list.load(Ordering::Acquire) && self.lost_after().is_none()
    }

    /// The resource version that the reflector saw last.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.reflector.last_sync_resource_version()
    }

    /// The health of the reflector.
    pub fn health(&self) -> Health {
        self.reflector.health()
    }
}

impl<T: Object> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

/// An option that only shared informers support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an unshared informer has no option {option:?}")]
pub struct UnsupportedOption {
    /// The name of the option.
    pub option: &'static str,
}

/// An unshared informer: a store synchronised with the server, and one handler.
///
/// ```
/// # use kubewright_cache::{Event, Informer, InformerOptions, ListerWatcher};
/// # use kubewright_core::DynamicObject;
/// # async fn example(
/// #     foos: impl ListerWatcher<DynamicObject>,
/// #     stop: tokio_util::sync::CancellationToken,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let print = |event: &Event<_>| println!("{}", event.key());
/// let informer = Informer::new(foos, print, InformerOptions::default())?;
/// informer.controller().run(&stop).await;
/// # Ok(()) }
/// ```
#[doc(alias = "NewInformerWithOptions")]
#[doc(alias = "NewTransformingInformer")]
#[doc(alias = "NewInformer")]
#[doc(alias = "NewIndexerInformer")]
pub struct Informer<T> {
    store: Store<T>,
    controller: Controller<T>,
}

impl<T: Object> Informer<T> {
    /// Creates an informer. The handler is called from the controller's loop, which waits until the
    /// handler is ready.
    ///
    /// # Errors
    /// If the options set [`metrics`](InformerOptions::metrics), the
    /// [`resource`](InformerOptions::resource) for metrics, or an
    /// [`observer`](InformerOptions::observer): only shared informers have those.
    pub fn new(
        lister_watcher: impl ListerWatcher<T>,
        handler: impl EventHandler<T>,
        options: InformerOptions<T>,
    ) -> Result<Self, UnsupportedOption> {
        let InformerOptions { indexers, mut reflector, resync, queue, recreated, metrics, resource, observer } =
            options;
        let unsupported =
            [("metrics", metrics.is_some()), ("resource", resource.is_some()), ("observer", observer.is_some())];
        if let Some((option, _)) = unsupported.into_iter().find(|(_, is_set)| *is_set) {
            return Err(UnsupportedOption { option });
        }
        let store = Store::new(indexers);
        let queue: Arc<dyn Queue<T>> = match queue {
            QueueKind::InOrder => Arc::new(RealFifo::new(RealFifoOptions::default().known_objects(store.clone()))),
            QueueKind::DeltaFifo => {
                let options = DeltaFifoOptions::default().known_objects(store.clone()).emit_replaced();
                Arc::new(DeltaFifo::new(options.emit_bookmarks()))
            }
        };
        if let Some(period) = resync {
            reflector = reflector.resync_every(period);
        }
        let single = SingleHandler { store: store.clone(), handler: Box::new(handler), recreated, applied: None };
        let controller = Controller::over(queue, Box::new(lister_watcher), DeltaConsumer::Informer(single), reflector);
        Ok(Informer { store, controller })
    }

    /// The cache.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// The controller, to be run by the caller.
    pub fn controller(&self) -> &Controller<T> {
        &self.controller
    }
}

/// Applies deltas, then calls the handler.
struct SingleHandler<T> {
    store: Store<T>,
    handler: Box<dyn EventHandler<T>>,
    recreated: Recreated,
    /// Events not yet delivered to the handler.
    applied: Option<Applied<T>>,
}

impl<T: Object> SingleHandler<T> {
    fn apply(&mut self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        self.applied = Some(apply(&self.store, deltas.into_iter(), is_in_initial_list, self.recreated));
    }

    async fn deliver_all(&mut self) {
        let Some(Applied { events, before, after, resync_scope }) = self.applied.take() else { return };
        for event in &events {
            self.deliver(event).await;
        }
        if resync_scope == ResyncScope::None {
            return;
        }
        let is_repeated = |object: &&Arc<T>| {
            let old = before.get(object.namespace(), object.name());
            old.is_some_and(|old| Arc::ptr_eq(old, object))
        };
        for object in after.iter().filter(|object| resync_scope == ResyncScope::All || is_repeated(object)) {
            self.deliver(&Event::Updated { old: object.clone(), new: object.clone() }).await;
        }
    }

    /// Delivers one event. A panic of the handler skips this event only.
    async fn deliver(&mut self, event: &Event<T>) {
        if try_deliver(&mut *self.handler, event) == DeliveryOutcome::Full {
            deliver_when_ready(&mut *self.handler, event).await;
        }
        consume_budget().await;
    }
}

impl<T: Object> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("store", &self.store).finish_non_exhaustive()
    }
}
