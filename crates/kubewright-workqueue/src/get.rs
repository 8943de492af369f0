//! A worker's waiting for a key, and its share in watching the clock.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::{coop, yield_now};

use crate::claim::Claim;
use crate::clock::{Sleep, sleep_until};
use crate::queue::{Locked, Shared, change};
use crate::sync::Guard;

/// A timer is never set further ahead than this; it is set again if it rings too early.
const LONGEST_SLEEP: u64 = 30 * 24 * 3600 * 1_000_000_000;

/// A worker's waiting for a key; see [`WorkQueue::get`](crate::WorkQueue::get).
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, T> {
    shared: &'a Arc<Shared<T>>,
    /// Our name among the waiters, once we had to wait.
    waiter: Option<u64>,
    /// Set while it is on us to watch the clock.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// What is left to do where no key waits.
enum Rest {
    Over,
    Wait,
    LookAgain,
}

impl<'a, T> Get<'a, T> {
    pub(crate) fn new(shared: &'a Arc<Shared<T>>) -> Self {
        Self { shared, waiter: None, alarm: None }
    }
}

impl<'a, T: Clone + Eq> Future for Get<'a, T> {
    type Output = Option<Claim<'a, T>>;

    /// Mostly a key waits, and nobody else is concerned. That is short enough to become part of the caller, as long as all else
    /// is kept apart and the claim is made in one place: moving it about took longer than one of the locks.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !coop::has_budget_remaining() {
            // Never ready; has us polled again after the others.
            ready!(coop::poll_proceed(context)).made_progress();
        }
        loop {
            let shared = this.shared;
            let now = if shared.is_timed { shared.now() } else { 0 };
            let mut locked = shared.lock();
            let is_easy = this.waiter.is_none() && locked.is_untroubled();
            let due = if is_easy { 0 } else { this.come(&mut locked, now) };
            match locked.state.take(now) {
                Some(taken) => {
                    if is_easy {
                        drop(locked)
                    } else {
                        this.go(locked, due)
                    }
                    if is_step(taken.ticket)
                        && let Poll::Ready(step) = coop::poll_proceed(context)
                    {
                        step.made_progress();
                    }
                    return Poll::Ready(Some(Claim::new(shared, taken)));
                }
                None => match this.rest(locked, is_easy, context) {
                    Rest::Over => return Poll::Ready(None),
                    Rest::Wait => return Poll::Pending,
                    Rest::LookAgain => {}
                },
            }
        }
    }
}

impl<T: Clone + Eq> Get<'_, T> {
    /// Ends our registration, and puts keys in line whose time has come. Returns how many came into line.
    #[cold]
    #[inline(never)]
    fn come(&mut self, locked: &mut Locked<T>, now: u64) -> usize {
        let shared = &**self.shared;
        if let Some(id) = self.waiter {
            locked.waiters.unregister(id);
        }
        locked.advance(|| if shared.is_timed { now } else { shared.now() })
    }

    /// Leaves with a key, after `due` keys have come into line.
    #[cold]
    #[inline(never)]
    fn go(&mut self, locked: Guard<'_, Locked<T>>, due: usize) {
        change(locked, |locked| {
            // One of them is ours.
            locked.waiters.pick(due.saturating_sub(1));
            if locked.state.is_over() {
                locked.waiters.pick_all();
            }
            leave(&mut self.waiter, locked);
        });
    }

    /// Waits for a key, since there is none.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, mut locked: Guard<'_, Locked<T>>, is_easy: bool, context: &mut Context<'_>) -> Rest {
        if is_easy && locked.state.is_after_burst() {
            drop(locked);
            // Looks again when other tasks have had their turn: to sleep and to be woken would cost more.
            return if pin!(yield_now()).poll(context).is_ready() { Rest::LookAgain } else { Rest::Wait };
        }
        if locked.state.is_over() {
            change(locked, |locked| locked.waiters.pick_all());
            return Rest::Over;
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
                self.alarm = None;
                Rest::Wait
            }
            Some(Poll::Pending) => Rest::Wait,
            Some(Poll::Ready(())) => Rest::LookAgain,
        }
    }

    fn sleep(&mut self, deadline: u64, context: &mut Context<'_>) -> Poll<()> {
        let deadline = deadline.min(self.shared.now().saturating_add(LONGEST_SLEEP));
        let deadline = self.shared.epoch + Duration::from_nanos(deadline);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        alarm.as_mut().poll(context)
    }
}

impl<T> Get<'_, T> {
    #[cold]
    fn give_up(&mut self, id: u64) {
        self.shared.change(|locked| {
            // Woken but never asked again: the key we were woken for is somebody else's now.
            if !locked.waiters.unregister(id) && locked.state.len() > 0 {
                locked.waiters.pick(1);
            }
            leave(&mut self.waiter, locked);
        });
    }
}

/// Whether the key with this ticket counts as one of the steps that tokio grants a task before others have their turn.
///
/// One in four does. To let others in takes tokio some microseconds, longer than thirty keys take, and 128 steps are meant for
/// such as read a socket. Scattered, so that workers who take turns all come upon theirs.
#[inline]
fn is_step(ticket: u64) -> bool {
    ticket.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0
}

/// Ends a worker's waiting, and sees to it that the clock is watched by somebody else.
fn leave<T>(waiter: &mut Option<u64>, locked: &mut Locked<T>) {
    if let Some(id) = waiter.take() {
        locked.waiters.stop_keeping_time(id);
    }
    if !locked.waiters.is_empty() && !locked.waiters.has_timekeeper() && !locked.state.deadlines.is_empty() {
        locked.waiters.pick(1);
    }
}

impl<T> Drop for Get<'_, T> {
    #[inline]
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
    use crate::{Options, WorkQueue};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    // WQ-3
    #[test]
    fn a_worker_looks_again_after_a_burst_and_then_sleeps() {
        let queue = WorkQueue::<u64>::new(Options::new());
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

        // After a single key it sleeps at once.
        let mut get = queue.get();
        assert_eq!((look(&mut get), woken()), (Poll::Pending, 0));
        queue.add(7);
        assert_eq!(woken(), 1);
    }

    #[tokio::test]
    async fn a_worker_that_always_finds_a_key_lets_others_have_their_turn() {
        const KEYS: usize = 10_000;
        let queue = WorkQueue::<usize>::new(Options::new());
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
        // 512 keys at a time, give or take what chance does.
        assert!(turns > KEYS / 2048, "{turns}");
        queue.shut_down();
        worker.await.unwrap();
    }

    #[test]
    fn every_worker_comes_upon_its_steps() {
        for workers in 1..=16 {
            for worker in 0..workers {
                let steps = (0..1000).filter(|turn| is_step(turn * workers + worker)).count();
                assert!((150..350).contains(&steps), "worker {worker} of {workers}: {steps}");
            }
        }
    }
}
