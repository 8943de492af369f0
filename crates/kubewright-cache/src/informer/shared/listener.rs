//! The buffer of one handler, and its progress.
//!
//! Batches of events are shared by all handlers. A handler that falls behind must not make the
//! buffer grow without bound. When it lags by half of the buffer, the position is marked with a
//! snapshot. When the buffer is full, everything after the mark is dropped; once the handler has
//! processed the events before the mark, it receives the difference between the mark and the
//! current state. Memory is therefore bounded by the number of changed objects, and an object that
//! changed repeatedly is reported once. A handler that keeps up holds no snapshot, because a
//! snapshot forces the writer to copy what it changes next.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::{AnySnapshot, Batch, HandlerWork, Transition};
use super::options::{HandlerOptions, OnPanic, Overflow};
use crate::queue::BoxFuture;
use crate::task::synced_before;

/// Queued work.
pub(super) struct QueuedWork {
    pub(super) work: HandlerWork,
    /// The snapshot after this work, for handlers that may have to be replayed.
    pub(super) after: Option<AnySnapshot>,
    /// Whether the initial list is complete after this work.
    pub(super) ends_initial_list: bool,
}

/// Counts the changes between two snapshots, or from nothing.
pub(super) type CountChanges = fn(Option<&AnySnapshot>, &AnySnapshot) -> usize;

/// One handler as seen by the informer.
pub(super) struct Listener {
    state: Mutex<ListenerState>,
    /// Set when the handler is to stop.
    has_ended: AtomicBool,
    /// Notified when half of the buffer is free, or the handler is to stop.
    drained: Notify,
    pub(super) synced: watch::Sender<bool>,
    /// Cancelled when the task has ended.
    pub(super) stopped: CancellationToken,
    pub(super) panics: AtomicU64,
    pub(super) options: HandlerOptions,
    count_changes: CountChanges,
}

struct ListenerState {
    /// The handler's task, while it waits. No other task waits here, so one waker suffices.
    waiting: Option<Waker>,
    line: VecDeque<QueuedWork>,
    /// Number of queued events.
    buffered: usize,
    /// Set while the handler lags.
    mark: Option<Mark>,
    /// Set while the handler has fallen behind the buffer.
    behind: Option<Behind>,
    /// The snapshot that the handler has processed, if it may have to be replayed; `None` at first.
    seen: Option<AnySnapshot>,
    resync: ResyncSchedule,
}

/// Where the queue may be cut off.
struct Mark {
    /// Number of work items before the mark.
    place: usize,
    /// The snapshot that the handler has seen after those items, if anything.
    seen: Option<AnySnapshot>,
}

struct Behind {
    from: Option<AnySnapshot>,
    target: AnySnapshot,
    all: bool,
    ends_initial_list: bool,
}

/// Resync schedule of a handler.
struct ResyncSchedule {
    period: Option<Duration>,
    next: Instant,
    /// Whether the current resync includes this handler; true until `should_resync` is first
    /// called.
    is_syncing: bool,
}

impl Listener {
    pub(super) fn new(options: HandlerOptions, resync: Option<Duration>, count_changes: CountChanges) -> Self {
        let now = Instant::now();
        let resync = ResyncSchedule { period: resync, next: after(now, resync), is_syncing: true };
        let line = VecDeque::new();
        let state = ListenerState { waiting: None, line, buffered: 0, mark: None, behind: None, seen: None, resync };
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

    /// Queues events, with resyncs only if one is due for this handler. Returns whether it is.
    pub(super) fn push_events(&self, events: Arc<dyn Batch>, transition: Transition<'_>) -> bool {
        let state = self.lock();
        let with_resyncs = state.resync.is_syncing;
        if events.count() > 0 {
            self.put(state, HandlerWork::Events { events, with_resyncs }, transition, false);
        }
        with_resyncs
    }

    /// Queues work.
    pub(super) fn push(&self, work: HandlerWork, transition: Transition<'_>, ends_initial_list: bool) {
        self.put(self.lock(), work, transition, ends_initial_list);
    }

    fn put(
        &self,
        mut state: MutexGuard<'_, ListenerState>,
        work: HandlerWork,
        Transition { before, after }: Transition<'_>,
        ends_initial_list: bool,
    ) {
        // Checked under the lock, so that nothing is queued after `end`.
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
            state.line.push_back(QueuedWork { work, after, ends_initial_list });
        }
        wake(state);
    }

    /// Schedules a full replay, because the handler did not finish the work that leads to `after`.
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
        // Always set for handlers with `OnPanic::Replay`.
        let Some(target) = target else { return };
        let ends_initial_list = ends_initial_list
            || before.is_some_and(|behind| behind.ends_initial_list)
            || missed.iter().any(|turn| turn.ends_initial_list);
        state.behind = Some(Behind { from, target, all: true, ends_initial_list });
    }

    /// Waits for work; `None` when the handler is to stop. Only for its task. Cancel safe.
    pub(super) async fn take(&self) -> Option<QueuedWork> {
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
        // Notified only when half of the buffer is free, to avoid one wake-up per batch.
        if has_room && self.options.overflow == Overflow::Block {
            self.drained.notify_waiters();
        }
        Some(turn)
    }

    /// Waits until the handler is to stop. Only for its task.
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

    /// Records that the handler has processed the work that leads to `after`.
    pub(super) fn done(&self, after: Option<AnySnapshot>, ends_initial_list: bool) {
        if after.is_some() {
            let mut state = self.lock();
            if !self.has_ended() {
                let before = std::mem::replace(&mut state.seen, after);
                drop(state);
                // Dropped after unlocking: it may be large.
                drop(before);
            }
        }
        if ends_initial_list {
            self.synced.send_replace(true);
        }
    }

    /// Waits until the handler has processed the initial list; false if it stopped before.
    pub(super) fn wait_until_synced(&self) -> BoxFuture<'_, bool> {
        Box::pin(synced_before(&self.synced, &self.stopped))
    }

    /// Whether the informer has to wait for this handler.
    pub(super) fn is_full(&self) -> bool {
        self.options.overflow == Overflow::Block && !self.has_ended() && self.lock().buffered >= self.options.buffer
    }

    /// Resolves when half of the buffer is free, or the handler stops.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if !self.is_full() {
                return;
            }
            drained.await;
        }
    }

    /// Number of queued events; for a handler that has fallen behind, plus the number of objects
    /// that differ from what it has seen.
    pub(super) fn lag(&self) -> usize {
        let (buffered, behind) = {
            let state = self.lock();
            let behind = state.behind.as_ref().map(|behind| (behind.from.clone(), behind.target.clone()));
            (state.buffered, behind)
        };
        // Outside of the lock, because the comparison may take long.
        buffered + behind.map_or(0, |(from, target)| (self.count_changes)(from.as_ref(), &target))
    }

    pub(super) fn is_behind(&self) -> bool {
        self.lock().behind.is_some()
    }

    /// Whether a resync is due for this handler. From now on it receives resyncs only when one is
    /// due.
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

    /// Stops the handler. Its buffer is freed immediately, even while the handler processes an
    /// event.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        self.has_ended.store(true, Ordering::Release);
        let buffer = state.clear();
        wake(state);
        self.drained.notify_waiters();
        // Dropped after unlocking: it may be large.
        drop(buffer);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Whether the handler may have to be replayed.
    fn keeps_seen(&self) -> bool {
        self.options.on_panic == OnPanic::Replay
    }

    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    fn lock(&self) -> MutexGuard<'_, ListenerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a period. Saturates at a hundred years.
fn after(now: Instant, period: Option<Duration>) -> Instant {
    let period = period.unwrap_or_default();
    now.checked_add(period).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400))
}

/// Everything in a handler's buffer.
struct HandlerBuffer {
    _line: VecDeque<QueuedWork>,
    _mark: Option<Mark>,
    _behind: Option<Behind>,
    _seen: Option<AnySnapshot>,
}

impl ListenerState {
    /// Empties the buffer.
    fn clear(&mut self) -> HandlerBuffer {
        self.buffered = 0;
        HandlerBuffer {
            _line: std::mem::take(&mut self.line),
            _mark: self.mark.take(),
            _behind: self.behind.take(),
            _seen: self.seen.take(),
        }
    }

    /// A mark after everything in the queue.
    fn mark(&self, before: Option<&AnySnapshot>) -> Mark {
        Mark { place: self.line.len(), seen: before.cloned() }
    }

    fn take(&mut self, keeps_seen: bool) -> Option<QueuedWork> {
        if let Some(turn) = self.line.pop_front() {
            self.buffered -= turn.work.events();
            // When the handler reaches the mark, it no longer lags, or needs a new mark.
            self.mark =
                self.mark.take().filter(|mark| mark.place > 0).map(|mark| Mark { place: mark.place - 1, ..mark });
            return Some(turn);
        }
        let Behind { from, target, all, ends_initial_list } = self.behind.take()?;
        let after = keeps_seen.then(|| target.clone());
        Some(QueuedWork { work: HandlerWork::Difference { from, to: target, all }, after, ends_initial_list })
    }

    fn wait(&mut self, waker: &Waker) {
        match &mut self.waiting {
            Some(waiting) => waiting.clone_from(waker),
            None => self.waiting = Some(waker.clone()),
        }
    }
}

/// Wakes the handler's task after unlocking.
fn wake(mut state: MutexGuard<'_, ListenerState>) {
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

    // SI-9: independent of what the handler is doing, because its task is not involved.
    #[test]
    fn removing_a_handler_frees_its_buffer_immediately() {
        for overflow in [Overflow::Coalesce, Overflow::Replay, Overflow::Block] {
            let options = HandlerOptions::default().buffer(4).overflow(overflow).on_panic(OnPanic::Replay);
            let listener = Listener::new(options, None, count);
            let snapshot: AnySnapshot = Arc::new("a snapshot");
            let events = Arc::new(vec![Event::Updated { old: Arc::new(1), new: Arc::new(2) }]);
            let push = || {
                let transition = Transition { before: Some(&snapshot), after: &snapshot };
                listener.push_events(events.clone(), transition);
            };
            for _ in 0..10 {
                push();
            }
            assert!(Arc::strong_count(&events) > 1 && Arc::strong_count(&snapshot) > 1, "{overflow:?}");
            listener.end();
            assert_eq!((Arc::strong_count(&events), Arc::strong_count(&snapshot)), (1, 1), "{overflow:?}");
            // Nothing is queued afterwards either.
            push();
            listener.done(Some(snapshot.clone()), false);
            listener.replay(Some(snapshot.clone()), false);
            assert_eq!((Arc::strong_count(&events), Arc::strong_count(&snapshot)), (1, 1), "{overflow:?}");
            assert_eq!((listener.lag(), listener.is_behind()), (0, false));
        }
    }
}
