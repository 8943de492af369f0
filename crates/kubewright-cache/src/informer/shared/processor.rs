//! What an informer does while it runs: applies what comes out of the queue, and puts in line what handlers are told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kubewright_core::Object;
use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::AnyQueue;
use super::listener::{Around, Listener, Work};
use super::options::HandlerOptions;
use super::registration::Registered;
use super::told::Told;
use crate::informer::process::{Applied, Recreated, Reminder, apply};
use crate::lister_watcher::ListerWatcher;
use crate::metrics::{Durations, Labels, Observed, Sample};
use crate::reflector::{Reflector, ReflectorOptions};
use crate::store::Store;
use crate::task::{Tasks, take_turns};
use crate::{AnyObject, Delta};

/// Handlers cannot be reminded more often.
pub(super) const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// What all handles of an informer share.
pub(super) struct Shared<T> {
    pub(super) store: Store<T>,
    pub(super) queue: Arc<AnyQueue>,
    pub(super) sources: Mutex<Option<Sources<T>>>,
    pub(super) reflector: OnceLock<Reflector<T>>,
    pub(super) recreated: Recreated,
    pub(super) default_resync: Option<Duration>,
    pub(super) processor: Mutex<Processor<T>>,
    /// Of no use to anybody but the run itself.
    pub(super) told: Arc<Mutex<Told<T>>>,
    pub(super) synced: watch::Sender<bool>,
    /// Cancelled when the informer has stopped: after the run, or when nobody can run it any more.
    pub(super) stop: CancellationToken,
    pub(super) tasks: Tasks,
    pub(super) labels: Labels,
    pub(super) latency: Mutex<Durations>,
}

/// What a run begins with, taken by the first one.
pub(super) type Sources<T> = (Box<dyn ListerWatcher<T>>, ReflectorOptions<T>);

pub(super) struct Processor<T> {
    pub(super) listeners: Vec<Arc<Listener<T>>>,
    pub(super) phase: Phase,
    pub(super) resync_check: Option<Duration>,
    pub(super) has_synced: bool,
    /// Some of what the queue gave was not applied: how many lists there had been. What the queue says of the first is not so any more.
    pub(super) lost_after: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    Stopped,
}

impl<T: Object> Shared<T> {
    pub(super) async fn work(&self, reflector: &Reflector<T>) {
        loop {
            let never = CancellationToken::new();
            let mut has_synced = false;
            {
                // Also where nothing is left to consume, as of a list of nothing.
                let mut reflected = || has_synced = has_synced || self.note_synced();
                let (reflecting, consuming) = (pin!(reflector.run(&never)), pin!(self.consume()));
                take_turns(reflecting, consuming, &|| self.queue.is_due(), &mut reflected).await;
            }
            // What was being applied is lost; the list that the reflector now begins with brings it back. A function that always panics
            // must not have the server list without end.
            reflector.back_off(None).await;
        }
    }

    /// Applies what comes out of the queue; returns only if that panics.
    async fn consume(&self) {
        loop {
            self.room().await;
            let mut has_panicked = false;
            let mut process = |deltas, is_in_initial_list| {
                let start = Instant::now();
                let process = AssertUnwindSafe(|| self.process(deltas, is_in_initial_list));
                has_panicked = catch_unwind(process).is_err();
                self.latency.lock().unwrap_or_else(PoisonError::into_inner).observe(start.elapsed());
            };
            if self.queue.pop(&mut process).await.is_err() {
                return std::future::pending().await;
            }
            if has_panicked {
                tracing::error!("applying changes to the cache panicked, perhaps in an index function");
                self.processor().lost_after = Some(self.lists());
                return;
            }
            self.note_synced();
            consume_budget().await;
        }
    }

    /// Waits for handlers that the informer has to wait for.
    async fn room(&self) {
        loop {
            let full = self.processor().listeners.iter().find(|listener| listener.is_full()).cloned();
            match full {
                Some(listener) => listener.room().await,
                None => return,
            }
        }
    }

    /// Applies deltas and puts in line what they mean, so that nobody can join in between.
    fn process(&self, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) {
        let mut processor = self.processor();
        // Of a list that takes the place of a first one that was lost, the queue does not know that it is the first.
        let is_in_initial_list = is_in_initial_list || !processor.has_synced;
        processor.listeners.retain(|listener| !listener.has_ended());
        let deltas = deltas.into_iter().map(Delta::typed);
        let Applied { events, before, after, reminder } =
            apply(&self.store, deltas, is_in_initial_list, self.recreated);
        let (events, around) = (Arc::new(events), Around { before: &before, after: &after });
        for listener in &processor.listeners {
            let is_syncing = listener.push_events(events.clone(), &around);
            let before = match reminder {
                Reminder::Repeated if !before.is_empty() => Some(before.clone()),
                Reminder::All => None,
                _ => continue,
            };
            if is_syncing {
                let around = Around { before: &after, after: &after };
                listener.push(Work::Reminders { before, after: after.clone() }, &around, false);
            }
        }
        drop(processor);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).keep(&events);
    }

    /// Tells handlers, in their turn, that the first list is complete; says whether it is.
    fn note_synced(&self) -> bool {
        let mut processor = self.processor();
        if processor.has_synced || !self.queue.has_synced() {
            return processor.has_synced;
        }
        // Then it takes another list, all of which has been applied.
        let is_lost = |lists| self.lists() == lists || !self.queue.is_empty();
        if processor.lost_after.is_some_and(is_lost) {
            return false;
        }
        processor.has_synced = true;
        let now = self.store.snapshot();
        let around = Around { before: &now, after: &now };
        for listener in &processor.listeners {
            listener.push(Work::Events { events: Arc::default(), with_reminders: false }, &around, true);
        }
        drop(processor);
        self.synced.send_replace(true);
        true
    }

    /// How many lists the reflector has completed.
    fn lists(&self) -> u64 {
        self.reflector.get().map_or(0, |reflector| reflector.health().lists)
    }

    pub(super) fn should_resync(&self) -> bool {
        let now = Instant::now();
        let processor = self.processor();
        // All are asked, since each notes the answer.
        processor.listeners.iter().filter(|listener| listener.should_resync(now)).count() > 0
    }

    pub(super) fn processor(&self) -> MutexGuard<'_, Processor<T>> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Processor<T> {
    /// How often a new handler is reminded. Before the start a short period shortens that of the informer's look.
    pub(super) fn resync_period(&mut self, options: &HandlerOptions, default: Option<Duration>) -> Option<Duration> {
        let wanted = options.resync.or(default).filter(|period| !period.is_zero())?.max(SHORTEST_RESYNC);
        let Some(check) = self.resync_check else {
            tracing::warn!(?wanted, "the informer does not resync, so its handlers cannot");
            return None;
        };
        if wanted >= check {
            return Some(wanted);
        }
        if self.phase != Phase::New {
            tracing::warn!(?wanted, ?check, "the informer runs already and resyncs less often");
            return Some(check);
        }
        self.resync_check = Some(wanted);
        for listener in &self.listeners {
            let own = listener.options.resync.or(default).filter(|period| !period.is_zero());
            listener.set_resync_period(own.map(|period| period.max(wanted)));
        }
        Some(wanted)
    }
}

/// Stops the handlers when the run is over, however it came to that.
pub(super) struct Ended<'a, T: Object>(pub(super) &'a Arc<Shared<T>>);

impl<T: Object> Drop for Ended<'_, T> {
    fn drop(&mut self) {
        let mut processor = self.0.processor();
        processor.phase = Phase::Stopped;
        processor.listeners.iter().for_each(|listener| listener.end());
        drop(processor);
        self.0.queue.close();
        self.0.stop.cancel();
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Never run: the tasks of handlers wait for nothing.
        let processor = self.processor.get_mut().unwrap_or_else(PoisonError::into_inner);
        processor.listeners.iter().for_each(|listener| listener.end());
        self.stop.cancel();
    }
}

impl<T: Object> Observed for Shared<T> {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn has_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn observe(&self) -> Sample {
        let processor = self.processor();
        let lag = processor.listeners.iter().map(|listener| listener.lag() as u64).max().unwrap_or(0);
        let panics = processor.listeners.iter().map(|listener| Registered::panics(&**listener)).sum();
        drop(processor);
        let health = self.reflector.get().map(Reflector::health);
        Sample {
            queued: self.queue.len() as u64,
            version: self.store.resource_version(),
            objects: self.store.len() as u64,
            lists: health.map_or(0, |health| health.lists),
            lag,
            panics,
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
