//! What an informer does while it runs: applies what comes out of the queue, and puts in line what handlers are told.

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
use super::batch::{Applied, Around, Work};
use super::delivery::{Kept, deliver};
use super::feed::AnyQueue;
use super::listener::{CountChanges, Listener};
use super::options::HandlerOptions;
use super::registration::HandlerRegistration;
use super::teller::Tell;
use super::told::Told;
use super::upstream::Upstream;
use crate::informer::process::Reminder;
use crate::metrics::{Durations, Labels, Sample};
use crate::queue::BoxFuture;
use crate::task::{Tasks, run_until, synced_before, take_turns};
use crate::{AnyObject, Delta};

/// Handlers cannot be reminded more often.
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// The handlers of an informer, and how far it has come.
#[doc(alias = "sharedProcessor")]
pub(super) struct Processor {
    state: Mutex<State>,
    pub(super) queue: Arc<AnyQueue>,
    default_resync: Option<Duration>,
    /// Of no use to anybody but the run itself.
    told: Arc<Mutex<Told>>,
    synced: watch::Sender<bool>,
    /// Cancelled when the informer has stopped: after the run, or when nobody can run it any more.
    pub(super) stop: CancellationToken,
    tasks: Tasks,
    pub(super) labels: Labels,
    latency: Mutex<Durations>,
}

pub(super) struct State {
    pub(super) listeners: Vec<Arc<Listener>>,
    pub(super) phase: Phase,
    resync_check: Option<Duration>,
    has_synced: bool,
    /// Some of what the queue gave was not applied: how many lists there had been. What the queue says of the first is not so any more.
    lost_after: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    Stopped,
}

impl Processor {
    pub(super) fn new(queue: Arc<AnyQueue>, resync: Option<Duration>, labels: Labels) -> Self {
        let resync_check = resync.map(|period| period.max(SHORTEST_RESYNC));
        let state =
            State { listeners: Vec::new(), phase: Phase::New, resync_check, has_synced: false, lost_after: None };
        Processor {
            state: Mutex::new(state),
            queue,
            default_resync: resync_check,
            told: Arc::default(),
            synced: watch::Sender::new(false),
            stop: CancellationToken::new(),
            tasks: Tasks::default(),
            labels,
            latency: Mutex::default(),
        }
    }

    /// Adds a handler, which has its turn with all that is in the store at this moment.
    pub(super) fn add(
        &self,
        upstream: &dyn Upstream,
        teller: Box<dyn Tell>,
        count_changes: CountChanges,
        options: HandlerOptions,
        kept: Kept,
    ) -> Result<HandlerRegistration, InformerStopped> {
        let listener = {
            let mut state = self.state();
            if state.phase == Phase::Stopped {
                return Err(InformerStopped);
            }
            let period = state.resync_period(&options, self.default_resync);
            let listener = Arc::new(Listener::new(options, period, count_changes));
            let snapshot = upstream.snapshot();
            let around = Around { before: None, after: &snapshot };
            listener.push(Work::All(snapshot.clone()), around, state.has_synced);
            state.listeners.push(listener.clone());
            listener
        };
        self.tasks.spawn(deliver(listener.clone(), teller, kept));
        Ok(HandlerRegistration { listener })
    }

    /// Works until `stop` is cancelled, and waits for the handlers.
    pub(super) fn run<'a>(
        self: &'a Arc<Self>,
        upstream: &'a dyn Upstream,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !upstream.begin(self) {
                tracing::warn!("the informer has been run already");
                return;
            }
            let ended = Ended(self);
            // The reflector and the consumer have stopped when this returns, before the handlers do.
            run_until(stop, pin!(self.work(upstream))).await;
            drop(ended);
            self.tasks.ended().await;
        })
    }

    /// There is a run; says how often the reflector asks whether it is time to remind, zero being never.
    pub(super) fn enter(&self) -> Duration {
        let mut state = self.state();
        state.phase = Phase::Running;
        state.resync_check.unwrap_or_default()
    }

    async fn work(&self, upstream: &dyn Upstream) {
        loop {
            let never = CancellationToken::new();
            let mut has_synced = false;
            {
                // Also where nothing is left to consume, as of a list of nothing.
                let mut reflected = || has_synced = has_synced || self.note_synced(upstream);
                let (mut reflecting, consuming) = (upstream.reflect(&never), pin!(self.consume(upstream)));
                take_turns(reflecting.as_mut(), consuming, &|| self.queue.is_due(), &mut reflected).await;
            }
            // What was being applied is lost; the list that the reflector now begins with brings it back. A function that always panics
            // must not have the server list without end.
            upstream.back_off().await;
        }
    }

    /// Applies what comes out of the queue; returns only if that panics.
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
                tracing::error!("applying changes to the cache panicked, perhaps in an index function");
                self.state().lost_after = Some(lists(upstream));
                return;
            }
            self.note_synced(upstream);
            consume_budget().await;
        }
    }

    /// Waits for handlers that the informer has to wait for.
    async fn room(&self) {
        loop {
            let full = self.state().listeners.iter().find(|listener| listener.is_full()).cloned();
            match full {
                Some(listener) => listener.room().await,
                None => return,
            }
        }
    }

    /// Applies deltas and puts in line what they mean, so that nobody can join in between.
    fn process(&self, upstream: &dyn Upstream, deltas: Vec<Delta<dyn AnyObject>>, is_in_initial_list: bool) {
        let mut state = self.state();
        state.listeners.retain(|listener| !listener.has_ended());
        // Of a list that takes the place of a first one that was lost, the queue does not know that it is the first.
        let is_in_initial_list = is_in_initial_list || !state.has_synced;
        let Applied { events, before, after, reminder } = upstream.apply(deltas, is_in_initial_list);
        for listener in &state.listeners {
            let is_syncing = listener.push_events(events.clone(), Around { before: Some(&before), after: &after });
            let before = match reminder {
                Reminder::Repeated => Some(before.clone()),
                Reminder::All => None,
                Reminder::None => continue,
            };
            if is_syncing {
                let around = Around { before: Some(&after), after: &after };
                listener.push(Work::Reminders { before, after: after.clone() }, around, false);
            }
        }
        drop(state);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).keep(events);
    }

    /// Tells handlers, in their turn, that the first list is complete; says whether it is.
    fn note_synced(&self, upstream: &dyn Upstream) -> bool {
        let mut state = self.state();
        if state.has_synced || !self.queue.has_synced() {
            return state.has_synced;
        }
        // Then it takes another list, all of which has been applied.
        let is_lost = |before| lists(upstream) == before || !self.queue.is_empty();
        if state.lost_after.is_some_and(is_lost) {
            return false;
        }
        state.has_synced = true;
        let now = upstream.snapshot();
        for listener in &state.listeners {
            listener.push(Work::Nothing, Around { before: Some(&now), after: &now }, true);
        }
        drop(state);
        self.synced.send_replace(true);
        true
    }

    pub(super) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the first list is complete; false if the informer stopped before.
    pub(super) fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(synced_before(&self.synced, &self.stop))
    }

    /// Whether it is time to remind any handler, for the reflector to ask.
    pub(super) fn asks_for_resync(self: &Arc<Self>) -> impl Fn() -> bool + Send + Sync + 'static + use<> {
        let asking = Arc::downgrade(self);
        move || asking.upgrade().is_some_and(|processor| processor.should_resync())
    }

    fn should_resync(&self) -> bool {
        let now = Instant::now();
        // All are asked, since each notes the answer.
        self.state().listeners.iter().filter(|listener| listener.should_resync(now)).count() > 0
    }

    /// Lets go of an object for each that comes, for the reflector to call.
    pub(super) fn lets_go(&self) -> impl Fn() + Send + Sync + 'static + use<> {
        let told = self.told.clone();
        move || told.lock().unwrap_or_else(PoisonError::into_inner).let_go()
    }

    pub(super) fn observe(&self, upstream: &dyn Upstream) -> Sample {
        // The lag of a handler that has fallen behind takes a comparison of snapshots, which nobody
        // may wait for.
        let listeners = self.state().listeners.clone();
        let lag = listeners.iter().map(|listener| listener.lag() as u64).max().unwrap_or(0);
        let panics = listeners.iter().map(|listener| listener.panics.load(Ordering::Relaxed)).sum();
        let (objects, version) = upstream.extent();
        let health = upstream.health();
        Sample {
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

    pub(super) fn phase(&self) -> Phase {
        self.state().phase
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many lists the reflector has completed.
fn lists(upstream: &dyn Upstream) -> u64 {
    upstream.health().map_or(0, |health| health.lists)
}

impl State {
    /// How often a new handler is reminded. Before the start a short period shortens that of the informer's look.
    fn resync_period(&mut self, options: &HandlerOptions, default: Option<Duration>) -> Option<Duration> {
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
struct Ended<'a>(&'a Processor);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let Ended(processor) = self;
        let mut state = processor.state();
        state.phase = Phase::Stopped;
        state.listeners.iter().for_each(|listener| listener.end());
        drop(state);
        processor.queue.close();
        processor.stop.cancel();
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        // Never run: the tasks of handlers wait for nothing.
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
    use crate::informer::shared::teller::Teller;
    use crate::lister_watcher::{EventStream, ItemStream};
    use crate::metrics::Observed;
    use crate::{InformerOptions, ListerWatcher, SharedIndexInformer};

    /// A server that never answers.
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

    /// Stands for a comparison that takes long.
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
        let teller = Box::new(Teller::new(Box::new(|_: &Event<DynamicObject>| ())));
        let options = HandlerOptions::default().buffer(1);
        let _registration = processor.add(&*informer.shared, teller, compare, options, None).unwrap();
        // The task of the handler has no turn in between, so that it falls behind.
        for name in ["a", "b", "c"] {
            let object: DynamicObject = format!(r#"{{"metadata": {{"name": "{name}"}}}}"#).parse().unwrap();
            processor.process(&*informer.shared, vec![Delta::Added(Arc::new(object))], false);
        }
        assert!(informer.shared.observe().lag >= 7);
    }
}
