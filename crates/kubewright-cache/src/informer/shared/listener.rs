//! What waits for one handler, and how far the handler has come.
//!
//! Batches of events are shared by all handlers. A handler that falls behind by more than its buffer holds does not keep
//! what it misses: when it lags by half of the buffer, the place is marked by a snapshot; when the buffer is full, all behind the mark
//! is let go, and after what stands before it the handler is given the difference to the present. So the memory it costs is bounded by
//! what has changed, and objects that changed often are told of once. Who keeps up holds no snapshot: each would have the writer copy
//! what it changes next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::{AnySnapshot, Around, Batch, Work};
use super::options::{HandlerOptions, OnPanic, Overflow};
use crate::queue::BoxFuture;
use crate::task::synced_before;

/// Work, as it stands in line.
pub(super) struct Turn {
    pub(super) work: Work,
    /// Where it leads, for handlers that may have to be told of everything again.
    pub(super) after: Option<AnySnapshot>,
    /// With it the first list is complete.
    pub(super) ends_initial_list: bool,
}

/// How many changes lead from one snapshot, or from nothing, to another.
pub(super) type CountChanges = fn(Option<&AnySnapshot>, &AnySnapshot) -> usize;

/// One handler as the informer sees it.
pub(super) struct Listener {
    state: Mutex<State>,
    /// Set when the handler is to stop.
    has_ended: AtomicBool,
    /// Half of the buffer is free, or the handler is to stop.
    drained: Notify,
    pub(super) synced: watch::Sender<bool>,
    /// Cancelled when the task has stopped.
    pub(super) stopped: CancellationToken,
    pub(super) panics: AtomicU64,
    pub(super) options: HandlerOptions,
    count_changes: CountChanges,
}

struct State {
    /// The handler's task, while it waits. It is the only one that does, for every event of every handler, so this is all it takes.
    waiting: Option<Waker>,
    line: VecDeque<Turn>,
    /// How many events are in line.
    buffered: usize,
    /// Set while the handler lags.
    mark: Option<Mark>,
    /// Set while the handler has fallen behind.
    behind: Option<Behind>,
    /// What the handler is through with, if it may have to be told of everything again; none at first.
    seen: Option<AnySnapshot>,
    resync: Resync,
}

/// Where the line may be cut off.
struct Mark {
    /// How many turns stand before it.
    place: usize,
    /// What the handler has seen when it is through with those, if anything.
    seen: Option<AnySnapshot>,
}

struct Behind {
    from: Option<AnySnapshot>,
    target: AnySnapshot,
    all: bool,
    ends_initial_list: bool,
}

/// When a handler wants to be reminded of everything.
struct Resync {
    period: Option<Duration>,
    next: Instant,
    /// Reminders go to this handler; true until the question first comes up.
    is_syncing: bool,
}

impl Listener {
    pub(super) fn new(options: HandlerOptions, resync: Option<Duration>, count_changes: CountChanges) -> Self {
        let now = Instant::now();
        let resync = Resync { period: resync, next: after(now, resync), is_syncing: true };
        let line = VecDeque::new();
        let state = State { waiting: None, line, buffered: 0, mark: None, behind: None, seen: None, resync };
        Listener {
            state: Mutex::new(state),
            has_ended: AtomicBool::new(false),
            drained: Notify::new(),
            synced: watch::Sender::new(false),
            stopped: CancellationToken::new(),
            panics: AtomicU64::new(0),
            options,
            count_changes,
        }
    }

    /// Puts events in line, reminders among them only where it is time for them; says whether it is.
    pub(super) fn push_events(&self, events: Arc<dyn Batch>, around: Around<'_>) -> bool {
        let state = self.lock();
        let with_reminders = state.resync.is_syncing;
        if events.count() > 0 {
            self.put(state, Work::Events { events, with_reminders }, around, false);
        }
        with_reminders
    }

    /// Puts work in line.
    pub(super) fn push(&self, work: Work, around: Around<'_>, ends_initial_list: bool) {
        self.put(self.lock(), work, around, ends_initial_list);
    }

    fn put(
        &self,
        mut state: MutexGuard<'_, State>,
        work: Work,
        Around { before, after }: Around<'_>,
        ends_initial_list: bool,
    ) {
        // Checked under the lock, so that nothing comes in behind `end`.
        if self.has_ended() {
            return;
        }
        let buffer = self.options.buffer;
        let can_wait = self.options.overflow == Overflow::Block;
        if let Some(behind) = &mut state.behind {
            behind.target = after.clone();
            behind.ends_initial_list |= ends_initial_list;
        } else if !can_wait && state.buffered >= buffer {
            let mark = state.mark.take().unwrap_or_else(|| state.mark(before));
            let missed = state.line.split_off(mark.place);
            state.buffered -= missed.iter().map(|turn| turn.work.events()).sum::<usize>();
            let ends_initial_list = ends_initial_list || missed.iter().any(|turn| turn.ends_initial_list);
            let all = self.options.overflow == Overflow::Replay;
            state.behind = Some(Behind { from: mark.seen, target: after.clone(), all, ends_initial_list });
        } else {
            if !can_wait && state.mark.is_none() && state.buffered >= buffer / 2 && state.buffered > 0 {
                state.mark = Some(state.mark(before));
            }
            state.buffered += work.events();
            let after = self.keeps_seen().then(|| after.clone());
            state.line.push_back(Turn { work, after, ends_initial_list });
        }
        wake(state);
    }

    /// Has the handler told of everything again, since it is not through with what it took, which leads to `after`.
    pub(super) fn replay(&self, after: Option<AnySnapshot>, ends_initial_list: bool) {
        let mut state = self.lock();
        if self.has_ended() {
            return;
        }
        let missed = std::mem::take(&mut state.line);
        (state.buffered, state.mark) = (0, None);
        let before = state.behind.take();
        let from = state.seen.clone();
        let target = match &before {
            Some(behind) => Some(behind.target.clone()),
            None => missed.back().and_then(|turn| turn.after.clone()).or(after).or_else(|| from.clone()),
        };
        // There is one, for who may be told again keeps it.
        let Some(target) = target else { return };
        let ends_initial_list = ends_initial_list
            || before.is_some_and(|behind| behind.ends_initial_list)
            || missed.iter().any(|turn| turn.ends_initial_list);
        state.behind = Some(Behind { from, target, all: true, ends_initial_list });
    }

    /// Waits for work; none when the handler is to stop. For its task alone. Cancel safe.
    pub(super) async fn take(&self) -> Option<Turn> {
        let taken = poll_fn(|context| {
            let mut state = self.lock();
            if self.has_ended() {
                return Poll::Ready(None);
            }
            match state.take(self.keeps_seen()) {
                Some(turn) => Poll::Ready(Some((turn, state.buffered <= self.options.buffer / 2))),
                None => {
                    state.wait(context.waker());
                    Poll::Pending
                }
            }
        });
        let (turn, has_room) = taken.await?;
        // Who waits for room is given much of it, not a wake for each batch.
        if has_room && self.options.overflow == Overflow::Block {
            self.drained.notify_waiters();
        }
        Some(turn)
    }

    /// Waits until the handler is to stop. For its task alone.
    pub(super) async fn ended(&self) {
        let ended = poll_fn(|context| {
            let mut state = self.lock();
            if self.has_ended() {
                return Poll::Ready(());
            }
            state.wait(context.waker());
            Poll::Pending
        });
        ended.await;
    }

    /// The handler is through with what it took, which leads to `after`.
    pub(super) fn done(&self, after: Option<AnySnapshot>, ends_initial_list: bool) {
        if after.is_some() {
            let mut state = self.lock();
            if !self.has_ended() {
                let before = std::mem::replace(&mut state.seen, after);
                drop(state);
                // Not under the lock, for it may be much.
                drop(before);
            }
        }
        if ends_initial_list {
            self.synced.send_replace(true);
        }
    }

    /// Waits until the handler is through with the first list; false if it stopped before.
    pub(super) fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(synced_before(&self.synced, &self.stopped))
    }

    /// Whether the informer has to wait for this handler.
    pub(super) fn is_full(&self) -> bool {
        self.options.overflow == Overflow::Block && !self.has_ended() && self.lock().buffered >= self.options.buffer
    }

    /// Resolves when the handler has taken what is in half of its buffer, or goes.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if !self.is_full() {
                return;
            }
            drained.await;
        }
    }

    /// How many events wait; of a handler that has fallen behind, how many objects differ from what it has seen.
    pub(super) fn lag(&self) -> usize {
        let (buffered, behind) = {
            let state = self.lock();
            let behind = state.behind.as_ref().map(|behind| (behind.from.clone(), behind.target.clone()));
            (state.buffered, behind)
        };
        // Not under the lock, for it takes long.
        buffered + behind.map_or(0, |(from, target)| (self.count_changes)(from.as_ref(), &target))
    }

    pub(super) fn is_behind(&self) -> bool {
        self.lock().behind.is_some()
    }

    /// Asks whether it is time to be reminded; from now on reminders come only when it is.
    pub(super) fn should_resync(&self, now: Instant) -> bool {
        let resync = &mut self.lock().resync;
        resync.is_syncing = resync.period.is_some() && now >= resync.next;
        if let Some(period) = resync.period.filter(|_| resync.is_syncing) {
            resync.next = after(now, Some(period));
        }
        resync.is_syncing
    }

    pub(super) fn set_resync_period(&self, period: Option<Duration>) {
        let resync = &mut self.lock().resync;
        resync.period = period;
        resync.next = after(Instant::now(), period);
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the handler stop. Its buffer is freed at once, also while the handler is busy with an
    /// event.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        self.has_ended.store(true, Ordering::Release);
        let buffer = state.clear();
        wake(state);
        self.drained.notify_waiters();
        // Not under the lock, for it may be much.
        drop(buffer);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Whether the handler may have to be told of everything again.
    fn keeps_seen(&self) -> bool {
        self.options.on_panic == OnPanic::Replay
    }

    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a period is over. One beyond all time is as long as anybody will wait.
fn after(now: Instant, period: Option<Duration>) -> Instant {
    let period = period.unwrap_or_default();
    now.checked_add(period).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400))
}

/// All that a handler's buffer holds.
struct Buffer {
    _line: VecDeque<Turn>,
    _mark: Option<Mark>,
    _behind: Option<Behind>,
    _seen: Option<AnySnapshot>,
}

impl State {
    /// Takes everything out.
    fn clear(&mut self) -> Buffer {
        self.buffered = 0;
        Buffer {
            _line: std::mem::take(&mut self.line),
            _mark: self.mark.take(),
            _behind: self.behind.take(),
            _seen: self.seen.take(),
        }
    }

    /// A mark behind all that is in line.
    fn mark(&self, before: Option<&AnySnapshot>) -> Mark {
        Mark { place: self.line.len(), seen: before.cloned() }
    }

    fn take(&mut self, keeps_seen: bool) -> Option<Turn> {
        if let Some(turn) = self.line.pop_front() {
            self.buffered -= turn.work.events();
            // Whoever has come to the mark does not lag, or has to be marked again.
            self.mark =
                self.mark.take().filter(|mark| mark.place > 0).map(|mark| Mark { place: mark.place - 1, ..mark });
            return Some(turn);
        }
        let Behind { from, target, all, ends_initial_list } = self.behind.take()?;
        let after = keeps_seen.then(|| target.clone());
        Some(Turn { work: Work::Difference { from, to: target, all }, after, ends_initial_list })
    }

    fn wait(&mut self, waker: &Waker) {
        match &mut self.waiting {
            Some(waiting) => waiting.clone_from(waker),
            None => self.waiting = Some(waker.clone()),
        }
    }
}

/// Wakes the handler's task, after the lock is free for it.
fn wake(mut state: MutexGuard<'_, State>) {
    let waiting = state.waiting.take();
    drop(state);
    if let Some(waker) = waiting {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::event::Event;

    fn count(_: Option<&AnySnapshot>, _: &AnySnapshot) -> usize {
        0
    }

    // SI-9: whatever the handler is busy with, for its task has no part in this.
    #[test]
    fn a_handler_that_is_removed_frees_its_buffer_at_once() {
        for overflow in [Overflow::Coalesce, Overflow::Replay, Overflow::Block] {
            let options = HandlerOptions::default().buffer(4).overflow(overflow).on_panic(OnPanic::Replay);
            let listener = Listener::new(options, None, count);
            let snapshot: AnySnapshot = Arc::new("a snapshot");
            let events = Arc::new(vec![Event::Updated { old: Arc::new(1), new: Arc::new(2) }]);
            let push = || {
                let around = Around { before: Some(&snapshot), after: &snapshot };
                listener.push_events(events.clone(), around);
            };
            for _ in 0..10 {
                push();
            }
            assert!(Arc::strong_count(&events) > 1 && Arc::strong_count(&snapshot) > 1, "{overflow:?}");
            listener.end();
            assert_eq!((Arc::strong_count(&events), Arc::strong_count(&snapshot)), (1, 1), "{overflow:?}");
            // Nor does anything come in later.
            push();
            listener.done(Some(snapshot.clone()), false);
            listener.replay(Some(snapshot.clone()), false);
            assert_eq!((Arc::strong_count(&events), Arc::strong_count(&snapshot)), (1, 1), "{overflow:?}");
            assert_eq!((listener.lag(), listener.is_behind()), (0, false));
        }
    }
}
