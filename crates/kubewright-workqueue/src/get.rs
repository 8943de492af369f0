//! The future of `get`: waits for a key, and takes part in keeping time for delayed keys.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::{coop, yield_now};

use crate::claim::Claim;
use crate::clock::{Sleep, sleep_until};
use crate::shared_queue::{Locked, SharedQueue, change};
use crate::sync::Guard;

/// The longest sleep of a timer. A timer that fires before the deadline is set again.
const LONGEST_SLEEP: u64 = 30 * 24 * 3600 * 1_000_000_000;

/// Future that resolves to the next key; see [`WorkQueue::get`](crate::WorkQueue::get).
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, T> {
    shared: &'a Arc<SharedQueue<T>>,
    /// Our id among the waiters, once we have registered.
    waiter: Option<u64>,
    /// Set while this worker is the timekeeper.
    timer: Option<Pin<Box<Sleep>>>,
}

/// How to continue when no key is queued.
enum WhenEmpty {
    Closed,
    Pending,
    Retry,
}

impl<'a, T> Get<'a, T> {
    pub(crate) fn new(shared: &'a Arc<SharedQueue<T>>) -> Self {
        Self { shared, waiter: None, timer: None }
    }
}

impl<'a, T: Clone + Eq> Future for Get<'a, T> {
    type Output = Option<Claim<'a, T>>;

    /// The common case is a queued key and no other waiter to notify. It is inlined into the
    /// caller; the rare paths are outlined. The claim is built in one place, because moving it is
    /// measurable.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !coop::has_budget_remaining() {
            // Returns pending and schedules another poll after other tasks have run.
            ready!(coop::poll_proceed(context)).made_progress();
        }
        loop {
            let shared = this.shared;
            let now = if shared.is_timed { shared.now() } else { 0 };
            let mut locked = shared.lock();
            let is_uncontended = this.waiter.is_none() && locked.is_uncontended();
            let due = if is_uncontended { 0 } else { this.unregister_and_advance(&mut locked, now) };
            match locked.state.take(now) {
                Some(taken) => {
                    if is_uncontended {
                        drop(locked)
                    } else {
                        this.wake_others(locked, due)
                    }
                    if consumes_budget(taken.ticket)
                        && let Poll::Ready(step) = coop::poll_proceed(context)
                    {
                        step.made_progress();
                    }
                    return Poll::Ready(Some(Claim::new(shared, taken)));
                }
                None => match this.wait(locked, is_uncontended, context) {
                    WhenEmpty::Closed => return Poll::Ready(None),
                    WhenEmpty::Pending => return Poll::Pending,
                    WhenEmpty::Retry => {}
                },
            }
        }
    }
}

impl<T: Clone + Eq> Get<'_, T> {
    /// Unregisters this worker and queues keys that are due. Returns how many were queued.
    #[cold]
    #[inline(never)]
    fn unregister_and_advance(&mut self, locked: &mut Locked<T>, now: u64) -> usize {
        let shared = &**self.shared;
        if let Some(id) = self.waiter {
            locked.waiters.unregister(id);
        }
        locked.advance(|| if shared.is_timed { now } else { shared.now() })
    }

    /// Wakes other workers as needed after this one has taken a key and `due` keys were queued.
    #[cold]
    #[inline(never)]
    fn wake_others(&mut self, locked: Guard<'_, Locked<T>>, due: usize) {
        change(locked, |locked| {
            // One of the due keys is the one this worker has taken.
            locked.waiters.pick(due.saturating_sub(1));
            if locked.state.is_over() {
                locked.waiters.pick_all();
            }
            hand_over_timekeeping(&mut self.waiter, locked);
        });
    }

    /// Registers as a waiter, since no key is queued.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, mut locked: Guard<'_, Locked<T>>, is_uncontended: bool, context: &mut Context<'_>) -> WhenEmpty {
        if is_uncontended && locked.state.is_after_burst() {
            drop(locked);
            // After a burst, more keys are likely. Yielding once costs less than a sleep and a
            // wake-up.
            return if pin!(yield_now()).poll(context).is_ready() { WhenEmpty::Retry } else { WhenEmpty::Pending };
        }
        if locked.state.is_over() {
            change(locked, |locked| locked.waiters.pick_all());
            return WhenEmpty::Closed;
        }
        let deadline = change(locked, |locked| {
            let id = locked.waiters.register(self.waiter, context.waker());
            self.waiter = Some(id);
            let deadline = locked.state.soonest();
            if deadline.is_none() {
                locked.waiters.stop_keeping_time(id);
            }
            deadline.filter(|_| locked.waiters.keep_time(id))
        });
        match deadline.map(|deadline| self.sleep(deadline, context)) {
            None => {
                self.timer = None;
                WhenEmpty::Pending
            }
            Some(Poll::Pending) => WhenEmpty::Pending,
            Some(Poll::Ready(())) => WhenEmpty::Retry,
        }
    }

    fn sleep(&mut self, deadline: u64, context: &mut Context<'_>) -> Poll<()> {
        let deadline = deadline.min(self.shared.now().saturating_add(LONGEST_SLEEP));
        let deadline = self.shared.epoch + Duration::from_nanos(deadline);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

impl<T> Get<'_, T> {
    #[cold]
    fn give_up(&mut self, id: u64) {
        self.shared.change(|locked| {
            // This worker was woken for a key that it will not take: pass the wake-up on.
            if !locked.waiters.unregister(id) && locked.state.len() > 0 {
                locked.waiters.pick(1);
            }
            hand_over_timekeeping(&mut self.waiter, locked);
        });
    }
}

/// Whether taking the key with this ticket consumes a unit of tokio's cooperative budget.
///
/// One ticket in four does. A forced yield takes microseconds, longer than about thirty keys, and
/// tokio's budget of 128 units is meant for costlier operations such as a socket read. The
/// multiplication scatters the choice, so that workers in lockstep all consume budget.
fn consumes_budget(ticket: u64) -> bool {
    ticket.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0
}

/// Gives up the timekeeper role, and wakes another worker to take it over if keys are delayed.
fn hand_over_timekeeping<T>(waiter: &mut Option<u64>, locked: &mut Locked<T>) {
    if let Some(id) = waiter.take() {
        locked.waiters.stop_keeping_time(id);
    }
    if !locked.waiters.is_empty() && !locked.waiters.has_timekeeper() && !locked.state.deadlines.is_empty() {
        locked.waiters.pick(1);
    }
}

impl<T> Drop for Get<'_, T> {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            self.give_up(id);
        }
    }
}

impl<T> fmt::Debug for Get<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("waiting", &self.waiter.is_some()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;
    use crate::state::BURST;
    use crate::{QueueOptions, WorkQueue};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    // WQ-3
    #[test]
    fn a_worker_polls_once_after_a_burst_and_then_sleeps() {
        let queue = WorkQueue::<u64>::new(QueueOptions::new());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let woken = || wakes.0.swap(0, Ordering::SeqCst);
        let look =
            |get: &mut Get<'_, u64>| Pin::new(get).poll(&mut Context::from_waker(&waker)).map(|got| got.is_some());

        (0..BURST).for_each(|key| queue.add(key));
        (0..BURST).for_each(|_| assert_eq!(look(&mut queue.get()), Poll::Ready(true)));
        let mut get = queue.get();
        assert_eq!((look(&mut get), woken()), (Poll::Pending, 1));
        assert_eq!((look(&mut get), woken()), (Poll::Pending, 0));
        queue.add(7);
        assert_eq!((woken(), look(&mut get)), (1, Poll::Ready(true)));
        drop(get);

        // After a single key it goes to sleep without yielding first.
        let mut get = queue.get();
        assert_eq!((look(&mut get), woken()), (Poll::Pending, 0));
        queue.add(7);
        assert_eq!(woken(), 1);
    }

    #[tokio::test]
    async fn a_busy_worker_yields_to_other_tasks() {
        const KEYS: usize = 10_000;
        let queue = WorkQueue::<usize>::new(QueueOptions::new());
        (0..KEYS).for_each(|key| queue.add(key));
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move { while queue.get().await.is_some() {} }
        });
        let mut turns = 0;
        while !queue.is_empty() {
            turns += 1;
            yield_now().await;
        }
        // On average one yield per 512 keys; the bound leaves room for the scattered choice.
        assert!(turns > KEYS / 2048, "{turns}");
        queue.shut_down();
        worker.await.unwrap();
    }

    #[test]
    fn budget_consumption_is_spread_evenly_over_workers() {
        for workers in 1..=16 {
            for worker in 0..workers {
                let steps = (0..1000).filter(|turn| consumes_budget(turn * workers + worker)).count();
                assert!((150..350).contains(&steps), "worker {worker} of {workers}: {steps}");
            }
        }
    }
}
