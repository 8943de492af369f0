//! The running informer: applies popped deltas and queues events for handlers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::InformerStopped;
use super::batch::{AppliedBatch, HandlerWork, Transition};
use super::delivery::{HandlerGuard, deliver};
use super::dispatcher::Dispatch;
use super::feed::AnyQueue;
use super::listener::{CountChanges, Listener};
use super::options::HandlerOptions;
use super::registration::HandlerRegistration;
use super::retained::RetainedBatches;
use super::upstream::Upstream;
use crate::informer::process::ResyncScope;
use crate::metrics::{DurationHistogram, InformerLabels, InformerSample};
use crate::queue::BoxFuture;
use crate::task::{Tasks, run_until, synced_before, take_turns};
use crate::{AnyObject, Delta};

/// Minimum resync period of a handler.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// The handlers of an informer, and its progress.
#[doc(alias = "sharedProcessor")]
pub(super) struct Processor {
    state: Mutex<ProcessorState>,
    pub(super) queue: Arc<AnyQueue>,
    default_resync: Option<Duration>,
    /// Used only by the running informer.
    retained: Arc<Mutex<RetainedBatches>>,
    synced: watch::Sender<bool>,
    /// Cancelled when the informer has stopped: after the run, or when it can no longer be run.
    pub(super) stop: CancellationToken,
    tasks: Tasks,
    pub(super) labels: InformerLabels,
    latency: Mutex<DurationHistogram>,
}

pub(super) struct ProcessorState {
    pub(super) listeners: Vec<Arc<Listener>>,
    pub(super) phase: ProcessorPhase,
    resync_check: Option<Duration>,
    has_synced: bool,
    /// Set when popped deltas were lost: the number of lists completed at that time. The queue's
    /// `has_synced` is not reliable then.
    lost_after: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessorPhase {
    New,
    Running,
    Stopped,
}

impl Processor {
    pub(super) fn new(queue: Arc<AnyQueue>, resync: Option<Duration>, labels: InformerLabels) -> Self {
        let resync_check = resync.map(|period| period.max(SHORTEST_RESYNC));
        let state = ProcessorState {
            listeners: Vec::new(),
            phase: ProcessorPhase::New,
            resync_check,
            has_synced: false,
            lost_after: None,
        };
        Processor {
            state: Mutex::new(state),
            queue,
            default_resync: resync_check,
            retained: Arc::default(),
            synced: watch::Sender::new(false),
            stop: CancellationToken::new(),
            tasks: Tasks::default(),
            labels,
            latency: Mutex::default(),
        }
    }

    /// Adds a handler, starting with the current content of the store.
    pub(super) fn add(
        &self,
        upstream: &dyn Upstream,
        dispatcher: Box<dyn Dispatch>,
        count_changes: CountChanges,
        options: HandlerOptions,
        keep_alive: HandlerGuard,
    ) -> Result<HandlerRegistration, InformerStopped> {
        let listener = {
            let mut state = self.state();
            if state.phase == ProcessorPhase::Stopped {
                return Err(InformerStopped);
            }
            let period = state.resync_period(&options, self.default_resync);
            let listener = Arc::new(Listener::new(options, period, count_changes));
            let snapshot = upstream.snapshot();
            let transition = Transition { before: None, after: &snapshot };
            listener.push(HandlerWork::All(snapshot.clone()), transition, state.has_synced);
            state.listeners.push(listener.clone());
            listener
        };
        self.tasks.spawn(deliver(listener.clone(), dispatcher, keep_alive));
        Ok(HandlerRegistration { listener })
    }

    /// Runs until `stop` is cancelled, then waits for the handlers.
    pub(super) fn run<'a>(
        self: &'a Arc<Self>,
        upstream: &'a dyn Upstream,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !upstream.begin(self) {
                tracing::warn!("informer was already run");
                return;
            }
            let ended = EndGuard(self);
            // The reflector and the consumer stop before the handlers.
            run_until(stop, pin!(self.work(upstream))).await;
            drop(ended);
            self.tasks.ended().await;
        })
    }

    /// Enters the running phase. Returns how often the reflector checks for due resyncs; zero means
    /// never.
    pub(super) fn enter(&self) -> Duration {
        let mut state = self.state();
        state.phase = ProcessorPhase::Running;
        state.resync_check.unwrap_or_default()
    }

    async fn work(&self, upstream: &dyn Upstream) {
        loop {
            let never = CancellationToken::new();
            let mut has_synced = false;
            {
                // Also needed when nothing is left to consume, for example after an empty list.
                let mut reflected = || has_synced = has_synced || self.note_synced(upstream);
                let (mut reflecting, consuming) = (upstream.reflect(&never), pin!(self.consume(upstream)));
                take_turns(reflecting.as_mut(), consuming, &|| self.queue.is_due(), &mut reflected).await;
            }
            // The deltas being applied are lost; the reflector's next list restores them. The
            // back-off keeps a function that always panics from causing lists in a tight loop.
            upstream.back_off().await;
        }
    }

    /// Applies popped deltas; returns only after a panic.
    async fn consume(&self, upstream: &dyn Upstream) {
        loop {
            self.room().await;
            let mut has_panicked = false;
            let mut process = |deltas, is_in_initial_list| {
                let start = Instant::now();
                let process = AssertUnwindSafe(|| self.process(upstream, deltas, is_in_initial_list));
                has_panicked = catch_unwind(process).is_err();
                self.latency.lock().unwrap_or_else(PoisonError::into_inner).observe(start.elapsed());
            };
            if self.queue.pop(&mut process).await.is_err() {
                return std::future::pending().await;
            }
            if has_panicked {
                tracing::error!("panic while applying deltas, perhaps in an index function");
                self.state().lost_after = Some(lists(upstream));
                return;
            }
            self.note_synced(upstream);
            consume_budget().await;
        }
    }

    /// Waits for handlers with [`Overflow::Block`] whose buffers are full.
    async fn room(&self) {
        loop {
            let full = self.state().listeners.iter().find(|listener| listener.is_full()).cloned();
            match full {
                Some(listener) => listener.room().await,
                None => return,
            }
        }
    }

    /// Applies deltas and queues their events, under one lock so that no handler is added in
    /// between.
    fn process(&self, upstream: &dyn Upstream, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) {
        let mut state = self.state();
        state.listeners.retain(|listener| !listener.has_ended());
        // After a lost initial list, the queue does not know that the next list is the initial one.
        let is_in_initial_list = is_in_initial_list || !state.has_synced;
        let AppliedBatch { events, before, after, resync_scope } = upstream.apply(deltas, is_in_initial_list);
        for listener in &state.listeners {
            let is_syncing = listener.push_events(events.clone(), Transition { before: Some(&before), after: &after });
            let before = match resync_scope {
                ResyncScope::Repeated => Some(before.clone()),
                ResyncScope::All => None,
                ResyncScope::None => continue,
            };
            if is_syncing {
                let transition = Transition { before: Some(&after), after: &after };
                listener.push(HandlerWork::Resync { before, after: after.clone() }, transition, false);
            }
        }
        drop(state);
        self.retained.lock().unwrap_or_else(PoisonError::into_inner).retain(events);
    }

    /// Queues the end of the initial list for handlers. Returns whether the informer has synced.
    fn note_synced(&self, upstream: &dyn Upstream) -> bool {
        let mut state = self.state();
        if state.has_synced || !self.queue.has_synced() {
            return state.has_synced;
        }
        // After a loss, only another list that was applied completely counts.
        let is_lost = |before| lists(upstream) == before || !self.queue.is_empty();
        if state.lost_after.is_some_and(is_lost) {
            return false;
        }
        state.has_synced = true;
        let now = upstream.snapshot();
        for listener in &state.listeners {
            listener.push(HandlerWork::Nothing, Transition { before: Some(&now), after: &now }, true);
        }
        drop(state);
        self.synced.send_replace(true);
        true
    }

    pub(super) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the initial list is complete; false if the informer stopped before.
    pub(super) fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(synced_before(&self.synced, &self.stop))
    }

    /// Returns a function by which the reflector asks whether a resync is due for any handler.
    pub(super) fn asks_for_resync(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static + use<> {
        let asking = Arc::downgrade(self);
        move || asking.upgrade().is_some_and(|processor| processor.should_resync())
    }

    fn should_resync(&self) -> bool {
        let now = Instant::now();
        // Every listener must be asked: each one stores the answer.
        self.state().listeners.iter().filter(|listener| listener.should_resync(now)).count() > 0
    }

    /// Returns a function that drops one retained object per new one, called by the reflector.
    pub(super) fn drop_retained(&self) -> impl Fn() + Send + Sync + 'static + use<> {
        let retained = self.retained.clone();
        move || retained.lock().unwrap_or_else(PoisonError::into_inner).drop_one()
    }

    pub(super) fn observe(&self, upstream: &dyn Upstream) -> InformerSample {
        // Outside of the lock: the lag of a handler that has fallen behind needs a comparison of
        // snapshots.
        let listeners = self.state().listeners.clone();
        let lag = listeners.iter().map(|listener| listener.lag() as u64).max().unwrap_or(0);
        let panics = listeners.iter().map(|listener| listener.panics.load(Ordering::Relaxed)).sum();
        let (objects, version) = upstream.extent();
        let health = upstream.health();
        InformerSample {
            queued: self.queue.len() as u64,
            version,
            objects: objects as u64,
            lists: health.as_ref().map_or(0, |health| health.lists),
            undecodable: health.as_ref().map_or(0, |health| health.undecodable.count as u64),
            lag,
            panics,
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn phase(&self) -> ProcessorPhase {
        self.state().phase
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ProcessorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of lists that the reflector has completed.
fn lists(upstream: &dyn Upstream) -> u64 {
    upstream.health().map_or(0, |health| health.lists)
}

impl ProcessorState {
    /// The resync period of a new handler. Before the start, a short period also shortens the
    /// informer's check interval.
    fn resync_period(&mut self, options: &HandlerOptions, default: Option<Duration>) -> Option<Duration> {
        let wanted = options.resync.or(default).filter(|period| !period.is_zero())?.max(SHORTEST_RESYNC);
        let Some(check) = self.resync_check else {
            tracing::warn!(?wanted, "informer has no resync; handler will not be resynced");
            return None;
        };
        if wanted >= check {
            return Some(wanted);
        }
        if self.phase != ProcessorPhase::New {
            tracing::warn!(?wanted, ?check, "informer is already running with a longer resync period");
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

/// Stops the handlers when the run ends, for whatever reason.
struct EndGuard<'a>(&'a Processor);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        let EndGuard(processor) = self;
        let mut state = processor.state();
        state.phase = ProcessorPhase::Stopped;
        state.listeners.iter().for_each(|listener| listener.end());
        drop(state);
        processor.queue.close();
        processor.stop.cancel();
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        // If the informer never ran, the tasks of its handlers are waiting.
        self.state().listeners.iter().for_each(|listener| listener.end());
        self.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use kubewright_core::DynamicObject;
    use kubewright_core::options::{ListOptions, WatchOptions};

    use super::*;
    use crate::informer::event::Event;
    use crate::informer::shared::batch::AnySnapshot;
    use crate::informer::shared::dispatcher::Dispatcher;
    use crate::lister_watcher::{EventStream, ItemStream};
    use crate::metrics::ObservedInformer;
    use crate::{InformerOptions, ListerWatcher, SharedIndexInformer};

    /// A server that never responds.
    struct Silent;

    impl ListerWatcher<DynamicObject> for Silent {
        fn list(&self, _: ListOptions) -> BoxFuture<'_, kubewright_client::Result<ItemStream<DynamicObject>>> {
            Box::pin(std::future::pending())
        }

        fn watch(&self, _: WatchOptions) -> BoxFuture<'_, kubewright_client::Result<EventStream<DynamicObject>>> {
            Box::pin(std::future::pending())
        }
    }

    static PROCESSOR: OnceLock<Arc<Processor>> = OnceLock::new();

    /// Stands in for a long comparison.
    fn compare(_: Option<&AnySnapshot>, _: &AnySnapshot) -> usize {
        let processor = PROCESSOR.get().expect("set before the first comparison");
        let state = processor.state.try_lock().expect("the informer can work meanwhile");
        assert!(!state.listeners[0].is_locked(), "and so can the handler");
        7
    }

    // RF-12
    #[tokio::test]
    async fn a_scrape_holds_no_lock_while_it_compares_snapshots() {
        let informer = SharedIndexInformer::new(Silent, InformerOptions::default());
        let processor = PROCESSOR.get_or_init(|| informer.shared.processor.clone());
        let dispatcher = Box::new(Dispatcher::new(Box::new(|_: &Event<DynamicObject>| ())));
        let options = HandlerOptions::default().buffer(1);
        let _registration = processor.add(&*informer.shared, dispatcher, compare, options, None).unwrap();
        // The handler's task does not run in between, so it falls behind.
        for name in ["a", "b", "c"] {
            let object: DynamicObject = format!(r#"{{"metadata": {{"name": "{name}"}}}}"#).parse().unwrap();
            processor.process(&*informer.shared, vec![Delta::Added(Arc::new(object))], false);
        }
        assert!(informer.shared.observe().lag >= 7);
    }
}
