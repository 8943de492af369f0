//! The loop that informers are made of, for those who process deltas themselves.

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
use super::handler::{EventHandler, Told, tell_when_ready, try_tell};
use super::process::{Applied, Recreated, Reminder, apply};
use super::shared::{InformerOptions, QueueKind};
use crate::Delta;
use crate::lister_watcher::ListerWatcher;
use crate::queue::{DeltaFifo, DeltaFifoOptions, Queue, RealFifo, RealFifoOptions, ReflectorStore};
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;
use crate::task::take_turns;

/// How long to rest after processing has panicked.
const REST: Duration = Duration::from_secs(1);

/// What a [`Controller`] is made of.
pub struct Config<T> {
    /// Takes what the reflector learns, and gives it to `process`.
    pub queue: Arc<dyn Queue<T>>,
    /// Where objects come from.
    pub lister_watcher: Box<dyn ListerWatcher<T>>,
    /// Processes what comes out of the queue.
    pub process: Box<TryProcess<T>>,
    /// How the reflector works: description, resync, error handler, page size.
    pub reflector: ReflectorOptions<T>,
    /// Puts deltas back into the queue if processing fails or panics, and tries again after a
    /// second. Otherwise the error is logged, and the deltas are dropped.
    #[doc(alias = "RetryOnError")]
    pub retry_on_error: bool,
}

/// Processes deltas, with whether they are part of the first list. With
/// [`retry_on_error`](Config::retry_on_error) the same deltas may come several times.
#[doc(alias = "PopProcessFunc")]
pub type TryProcess<T> = dyn FnMut(Vec<Delta<T>>, bool) -> Result<(), Box<dyn Error + Send + Sync>> + Send;

impl<T> fmt::Debug for Config<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

/// Feeds a queue from a reflector and processes what comes out of it: the low-level controller of client-go.
///
/// [`Config::retry_on_error`] decides about deltas that cannot be processed.
pub struct Controller<T> {
    queue: Arc<dyn Queue<T>>,
    reflector: Reflector<T>,
    processing: Mutex<Option<Processing<T>>>,
    /// Some of the first list has left the queue, and is not through.
    is_in_initial_list: AtomicBool,
    /// Some of the first list was not applied: how many lists there had been. It takes another, all of which is.
    lost_after: Mutex<Option<u64>>,
    retry_on_error: bool,
}

/// What becomes of deltas.
enum Processing<T> {
    /// What the user makes of them.
    Own(Box<TryProcess<T>>),
    Informer(Teller<T>),
}

impl<T: Object> Processing<T> {
    fn process(&mut self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) -> Result<(), Box<dyn Error + Send + Sync>> {
        match self {
            Processing::Own(process) => process(deltas, is_in_initial_list),
            Processing::Informer(teller) => {
                teller.apply(deltas, is_in_initial_list);
                Ok(())
            }
        }
    }

    /// What may take its time, after the queue has let go of the deltas.
    async fn finish(&mut self) {
        if let Processing::Informer(teller) = self {
            teller.tell_all().await;
        }
    }
}

impl<T: Object> Controller<T> {
    /// A controller that has not been run.
    pub fn new(config: Config<T>) -> Self {
        let Config { queue, lister_watcher, process, reflector, retry_on_error } = config;
        let controller = Self::over(queue, lister_watcher, Processing::Own(process), reflector);
        Controller { retry_on_error, ..controller }
    }

    fn over(
        queue: Arc<dyn Queue<T>>,
        lister_watcher: Box<dyn ListerWatcher<T>>,
        processing: Processing<T>,
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

    /// Works until `stop` is cancelled. Runs once: a second call returns at once.
    pub async fn run(&self, stop: &CancellationToken) {
        let Some(mut processing) = self.processing.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            tracing::warn!("the controller has been run already");
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
                // What was being applied is lost; the list that the reflector now begins with brings it back. A function that always panics
                // must not have the server list without end.
                self.reflector.back_off().await;
            }
        };
        stop.run_until_cancelled(work).await;
        self.queue.close();
    }

    /// Processes what comes out of the queue; returns only if a cache has missed some of it.
    async fn consume(&self, processing: &mut Processing<T>) {
        loop {
            let mut has_panicked = false;
            let mut unprocessed = None;
            let mut call = |deltas: Vec<Delta<T>>, is_in_initial_list| {
                self.is_in_initial_list.store(is_in_initial_list, Ordering::Release);
                let again = self.retry_on_error.then(|| (deltas.clone(), is_in_initial_list));
                let process = AssertUnwindSafe(|| processing.process(deltas, is_in_initial_list));
                match catch_unwind(process) {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => tracing::error!(%error, "processing of deltas failed"),
                    Err(_) => has_panicked = true,
                }
                unprocessed = again;
            };
            if self.queue.pop(&mut call).await.is_err() {
                return std::future::pending().await;
            }
            if let Some((deltas, is_in_initial_list)) = unprocessed {
                // The queue lets go of its lock before this. It counts the first list down again
                // itself.
                self.queue.requeue(deltas, is_in_initial_list);
                self.is_in_initial_list.store(false, Ordering::Release);
                sleep(REST).await;
                continue;
            }
            processing.finish().await;
            let is_lost = has_panicked && matches!(processing, Processing::Informer(_));
            if is_lost && !self.has_synced() {
                *self.lost_after() = Some(self.health().lists);
            } else if self.lost_after().is_some_and(|lists| lists < self.health().lists && self.queue.is_empty()) {
                *self.lost_after() = None;
            }
            self.is_in_initial_list.store(false, Ordering::Release);
            if is_lost {
                tracing::error!("applying changes to the cache panicked, perhaps in an index function");
                return;
            }
            if has_panicked {
                tracing::error!("processing of deltas panicked");
                sleep(REST).await;
            }
            consume_budget().await;
        }
    }

    fn lost_after(&self) -> MutexGuard<'_, Option<u64>> {
        self.lost_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of the first list has been processed.
    pub fn has_synced(&self) -> bool {
        // In this order: the queue is asked first, so that what left it since is not taken for what is through.
        self.queue.has_synced() && !self.is_in_initial_list.load(Ordering::Acquire) && self.lost_after().is_none()
    }

    /// The version that the reflector has seen last.
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.reflector.last_sync_resource_version()
    }

    /// How the reflector is doing.
    pub fn health(&self) -> Health {
        self.reflector.health()
    }
}

impl<T: Object> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

/// An informer was given an option that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an informer that is not shared has no option {option:?}")]
pub struct UnsupportedOption {
    /// The name of the option.
    pub option: &'static str,
}

/// A store kept in step with the server, and one handler: an informer that is not shared.
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
    /// An informer that has not been run. The handler is called from the loop itself, which waits
    /// until it is ready.
    ///
    /// # Errors
    /// If the options ask for [`metrics`](InformerOptions::metrics), or name the
    /// [`resource`](InformerOptions::resource) for them: only shared informers have metrics.
    pub fn new(
        lister_watcher: impl ListerWatcher<T>,
        handler: impl EventHandler<T>,
        options: InformerOptions<T>,
    ) -> Result<Self, UnsupportedOption> {
        let InformerOptions { indexers, mut reflector, resync, queue, recreated, metrics, resource } = options;
        if metrics.is_some() || resource.is_some() {
            return Err(UnsupportedOption { option: if metrics.is_some() { "metrics" } else { "resource" } });
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
        let teller = Teller { store: store.clone(), handler: Box::new(handler), recreated, applied: None };
        let controller = Controller::over(queue, Box::new(lister_watcher), Processing::Informer(teller), reflector);
        Ok(Informer { store, controller })
    }

    /// The cache.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// The loop, to be run.
    pub fn controller(&self) -> &Controller<T> {
        &self.controller
    }
}

/// Applies deltas, and then tells the one handler.
struct Teller<T> {
    store: Store<T>,
    handler: Box<dyn EventHandler<T>>,
    recreated: Recreated,
    /// What is to be told.
    applied: Option<Applied<T>>,
}

impl<T: Object> Teller<T> {
    fn apply(&mut self, deltas: Vec<Delta<T>>, is_in_initial_list: bool) {
        self.applied = Some(apply(&self.store, deltas.into_iter(), is_in_initial_list, self.recreated));
    }

    async fn tell_all(&mut self) {
        let Some(Applied { events, before, after, reminder }) = self.applied.take() else { return };
        for event in &events {
            self.tell(event).await;
        }
        if reminder == Reminder::None {
            return;
        }
        let is_repeated = |object: &&Arc<T>| {
            let old = before.get(object.namespace(), object.name());
            old.is_some_and(|old| Arc::ptr_eq(old, object))
        };
        for object in after.iter().filter(|object| reminder == Reminder::All || is_repeated(object)) {
            self.tell(&Event::Updated { old: object.clone(), new: object.clone() }).await;
        }
    }

    /// A panic costs the handler this event, and no other.
    async fn tell(&mut self, event: &Event<T>) {
        if try_tell(&mut *self.handler, event) == Told::NotYet {
            tell_when_ready(&mut *self.handler, event).await;
        }
        consume_budget().await;
    }
}

impl<T: Object> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("store", &self.store).finish_non_exhaustive()
    }
}
