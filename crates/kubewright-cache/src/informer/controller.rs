//! The loop that informers are made of, for those who process deltas themselves.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{Object, ResourceVersion};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::event::Event;
use super::handler::EventHandler;
use super::process::{Recreated, Reminder, apply};
use super::shared::InformerOptions;
use crate::lister_watcher::ListerWatcher;
use crate::queue::{Process, Queue, RealFifo, RealFifoOptions, ReflectorStore};
use crate::reflector::{Health, Reflector, ReflectorOptions};
use crate::store::Store;

/// How long to rest after processing has panicked.
const REST: Duration = Duration::from_secs(1);

/// What a [`Controller`] is made of.
pub struct Config<T> {
    /// Takes what the reflector learns, and gives it to `process`.
    pub queue: Arc<dyn Queue<T>>,
    /// Where objects come from.
    pub lister_watcher: Box<dyn ListerWatcher<T>>,
    /// Processes what comes out of the queue.
    pub process: Box<Process<'static, T>>,
    /// How the reflector works: description, resync, error handler, page size.
    pub reflector: ReflectorOptions<T>,
}

impl<T> fmt::Debug for Config<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("reflector", &self.reflector).finish_non_exhaustive()
    }
}

/// Feeds a queue from a reflector and processes what comes out of it: the low-level controller of client-go.
///
/// An error of processing is the processing's own affair: put the object back with
/// [`DeltaFifo::add_if_not_present`](crate::DeltaFifo::add_if_not_present) to try again.
pub struct Controller<T> {
    queue: Arc<dyn Queue<T>>,
    reflector: Reflector<T>,
    process: Mutex<Option<Box<Process<'static, T>>>>,
}

impl<T: Object> Controller<T> {
    /// A controller that has not been run.
    pub fn new(config: Config<T>) -> Self {
        let feed: Arc<dyn ReflectorStore<T>> = config.queue.clone();
        let reflector = Reflector::over(config.lister_watcher, feed, config.reflector);
        Controller { queue: config.queue, reflector, process: Mutex::new(Some(config.process)) }
    }

    /// Works until `stop` is cancelled. Runs once: a second call returns at once.
    pub async fn run(&self, stop: &CancellationToken) {
        let Some(mut process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            tracing::warn!("the controller has been run already");
            return;
        };
        let work = async {
            tokio::join!(self.reflector.run(stop), async {
                loop {
                    let mut has_panicked = false;
                    let mut call = |deltas, is_in_initial_list| {
                        let process = AssertUnwindSafe(|| process(deltas, is_in_initial_list));
                        has_panicked = catch_unwind(process).is_err();
                    };
                    if self.queue.pop(&mut call).await.is_err() {
                        return;
                    }
                    if has_panicked {
                        tracing::error!("processing of deltas panicked");
                        sleep(REST).await;
                    }
                    tokio::task::coop::consume_budget().await;
                }
            })
        };
        stop.run_until_cancelled(work).await;
        self.queue.close();
    }

    /// Whether all of the first list has been processed.
    pub fn has_synced(&self) -> bool {
        self.queue.has_synced()
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

/// A store kept in step with the server, and one handler: an informer that is not shared.
///
/// ```
/// # use kubewright_cache::{Event, Informer, InformerOptions, ListerWatcher};
/// # use kubewright_core::DynamicObject;
/// # async fn example(foos: impl ListerWatcher<DynamicObject>, stop: tokio_util::sync::CancellationToken) {
/// let informer = Informer::new(foos, |event: &Event<_>| println!("{}", event.key()), InformerOptions::default());
/// informer.controller().run(&stop).await;
/// # }
/// ```
#[doc(alias = "NewInformer")]
#[doc(alias = "NewIndexerInformer")]
pub struct Informer<T> {
    store: Store<T>,
    controller: Controller<T>,
}

impl<T: Object> Informer<T> {
    /// An informer that has not been run. The handler is called from the loop itself.
    pub fn new(
        lister_watcher: impl ListerWatcher<T>,
        mut handler: impl EventHandler<T>,
        options: InformerOptions<T>,
    ) -> Self {
        let InformerOptions { indexers, mut reflector, resync, recreated, .. } = options;
        let store = Store::new(indexers);
        let queue: Arc<dyn Queue<T>> = Arc::new(RealFifo::new(RealFifoOptions::default().known_objects(store.clone())));
        if let Some(period) = resync {
            reflector = reflector.resync_every(period);
        }
        let target = store.clone();
        let process = move |deltas, is_in_initial_list| {
            tell(&mut handler, &target, deltas, is_in_initial_list, recreated);
        };
        let lister_watcher = Box::new(lister_watcher);
        let controller = Controller::new(Config { queue, lister_watcher, process: Box::new(process), reflector });
        Informer { store, controller }
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

/// Applies deltas, and tells the one handler.
fn tell<T: Object>(
    handler: &mut impl EventHandler<T>,
    store: &Store<T>,
    deltas: Vec<crate::Delta<T>>,
    is_in_initial_list: bool,
    recreated: Recreated,
) {
    let applied = apply(store, deltas, is_in_initial_list, recreated);
    applied.events.iter().for_each(|event| handler.on_event(event));
    let is_reminded = |object: &&Arc<T>| match applied.reminder {
        Reminder::None => false,
        Reminder::Repeated => {
            let old = applied.before.get(object.namespace(), object.name());
            old.is_some_and(|old| Arc::ptr_eq(old, object))
        }
        Reminder::All => true,
    };
    for object in applied.after.iter().filter(is_reminded) {
        handler.on_event(&Event::Updated { old: object.clone(), new: object.clone() });
    }
}

impl<T: Object> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("store", &self.store).finish_non_exhaustive()
    }
}
