//! Waits on a cache until conditions are met.

use std::fmt;
use std::sync::Arc;

use kubewright_client::watch::{Condition, Events, UntilError, until_on};
use kubewright_client::{Error, Result};
use kubewright_core::Object;
use kubewright_core::stream::WatchEvent;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::informer::{Event, InformerOptions, SharedIndexInformer};
use crate::lister_watcher::ListerWatcher;
use crate::store::Store;

/// Capacity of the channel between the informer and the reader of events.
const EVENT_CAPACITY: usize = 64;

/// Whether the condition is already met, given the synced cache.
#[doc(alias = "PreconditionFunc")]
pub type Precondition<'a, T> = Box<dyn FnOnce(&Store<T>) -> Result<bool> + Send + 'a>;

/// Waits on a cache until each condition in turn has been met, and returns the event that met the
/// last one.
///
/// Survives everything that can happen to a watch: lost connections, unreachable servers, expired
/// versions. In return, intermediate states of an object may be missed, and a state may be seen
/// twice; the newest state is always seen. Order is kept per object, not across objects.
/// [`until`](kubewright_client::watch::until) sees every state, and fails when its version has
/// expired on the server.
///
/// Existing objects are delivered as [`WatchEvent::Added`]. A precondition is checked first, when
/// all of them are in the cache; if it is met, the function returns without an event. Each
/// condition is first tried on the event that met the one before it. There is no timeout: wrap the
/// call in `tokio::time::timeout`. Also waits for a resource that does not exist yet.
///
/// ```
/// # use kubewright_cache::{ListWatch, until_with_sync};
/// # use kubewright_client::{Api, watch::UntilError};
/// # use kubewright_core::{DynamicObject, Object, stream::WatchEvent};
/// # async fn example(widgets: Api<DynamicObject>) -> Result<(), UntilError> {
/// let gone = |event: &WatchEvent<_>| Ok(matches!(event, WatchEvent::Deleted(_)));
/// let none = |store: &kubewright_cache::Store<DynamicObject>| Ok(store.snapshot().is_empty());
/// until_with_sync(ListWatch::new(widgets), Some(Box::new(none)), vec![Box::new(gone)]).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// When a condition fails.
#[doc(alias = "UntilWithSync")]
pub async fn until_with_sync<T: Object>(
    lister_watcher: impl ListerWatcher<T>,
    precondition: Option<Precondition<'_, T>>,
    conditions: Vec<Condition<'_, Arc<T>>>,
) -> Result<Option<WatchEvent<Arc<T>>>, UntilError> {
    let mut watcher = indexer_informer_watcher(lister_watcher, InformerOptions::default());
    let waited = async {
        if let Some(precondition) = precondition {
            if !watcher.synced().await {
                return Err(UntilError::Closed);
            }
            if precondition(watcher.store())? {
                return Ok(None);
            }
        }
        until_on(&mut watcher, conditions).await
    }
    .await;
    watcher.stop().await;
    waited
}

/// The changes of a cache as a watch that never ends. Runs an informer in its own task until it is
/// [stopped](InformerWatcher::stop) or dropped.
///
/// Must be called within a tokio runtime.
#[doc(alias = "NewIndexerInformerWatcher")]
pub fn indexer_informer_watcher<T: Object>(
    lister_watcher: impl ListerWatcher<T>,
    options: InformerOptions<T>,
) -> InformerWatcher<T> {
    let informer = SharedIndexInformer::new(lister_watcher, options);
    let (sender, events) = mpsc::channel(EVENT_CAPACITY);
    informer.add_handler(sender).expect("an informer that has not been run has not stopped");
    let stop = CancellationToken::new();
    let (running, stopping) = (informer.clone(), stop.clone());
    let task = tokio::spawn(async move { running.run(&stopping).await });
    InformerWatcher { informer, events, task, _stop: stop.drop_guard() }
}

/// The changes of a cache, and the cache.
pub struct InformerWatcher<T> {
    informer: SharedIndexInformer<T>,
    events: mpsc::Receiver<Event<T>>,
    task: JoinHandle<()>,
    _stop: DropGuard,
}

impl<T: Object> InformerWatcher<T> {
    /// The cache.
    pub fn store(&self) -> &Store<T> {
        self.informer.store()
    }

    /// The next change; `None` after the informer has stopped. Cancel safe.
    ///
    /// Begins with the objects of the first list. There are no errors: the informer retries, and
    /// its health has the reason. A deletion is reported even if its event was missed.
    pub async fn next(&mut self) -> Option<WatchEvent<Arc<T>>> {
        loop {
            return Some(match self.events.recv().await? {
                Event::Added { object, .. } => WatchEvent::Added(object),
                Event::Updated { new, .. } => WatchEvent::Modified(new),
                Event::Deleted(deleted) => match deleted.object() {
                    Some(object) => WatchEvent::Deleted(object.clone()),
                    // A tombstone without a state: an event needs an object.
                    None => continue,
                },
            });
        }
    }

    /// The informer, for its health and its lister.
    pub fn informer(&self) -> &SharedIndexInformer<T> {
        &self.informer
    }

    /// Waits until all objects of the initial list are in the cache; false if it was stopped
    /// before. Cancel safe.
    #[doc(alias = "WaitForCacheSync")]
    pub async fn synced(&self) -> bool {
        self.informer.synced().await
    }

    /// Stops the informer and waits until it has stopped.
    pub async fn stop(self) {
        drop((self._stop, self.events));
        // Fails only if the informer panicked, and then it has stopped too.
        let _ = self.task.await;
    }
}

impl<T: Object> Events<Arc<T>> for InformerWatcher<T> {
    async fn next_event(&mut self) -> Option<Result<WatchEvent<Arc<T>>, Error>> {
        self.next().await.map(Ok)
    }
}

impl<T: Object> fmt::Debug for InformerWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerWatcher").field("waiting", &self.events.len()).finish_non_exhaustive()
    }
}
