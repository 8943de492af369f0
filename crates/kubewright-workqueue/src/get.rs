//! A worker's waiting for a key, and its share in watching the clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::{Sleep, sleep_until};

use crate::claim::Claim;
use crate::queue::{Locked, Shared, change};
use crate::state::Taken;
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

/// What a look at the queue led to.
enum Look<T> {
    Taken(Taken<T>),
    Over,
    Wait,
    WaitUntil(u64),
}

impl<'a, T> Get<'a, T> {
    pub(crate) fn new(shared: &'a Arc<Shared<T>>) -> Self {
        Self { shared, waiter: None, alarm: None }
    }
}

impl<'a, T: Clone + Eq> Future for Get<'a, T> {
    type Output = Option<Claim<'a, T>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if !coop::has_budget_remaining() {
            // Never ready; has us polled again after the others.
            ready!(coop::poll_proceed(context)).made_progress();
        }
        let shared = this.shared;
        let now = if shared.is_timed { shared.now() } else { 0 };
        let mut locked = shared.lock();
        // Mostly a key waits, and nobody else is concerned. Short enough to become part of the caller, which saves it from
        // moving the claim about: that took as long as one of the locks.
        if this.waiter.is_none()
            && locked.is_untroubled()
            && let Some(taken) = locked.state.take(now)
        {
            drop(locked);
            return Poll::Ready(Some(this.claim(taken, context)));
        }
        this.wait(locked, now, context)
    }
}

impl<'a, T: Clone + Eq> Get<'a, T> {
    #[inline]
    fn claim(&self, taken: Taken<T>, context: &mut Context<'_>) -> Claim<'a, T> {
        if is_step(taken.ticket)
            && let Poll::Ready(step) = coop::poll_proceed(context)
        {
            step.made_progress();
        }
        Claim::new(self.shared, taken)
    }

    #[cold]
    #[inline(never)]
    fn wait(
        &mut self,
        locked: Guard<'a, Locked<T>>,
        now: u64,
        context: &mut Context<'_>,
    ) -> Poll<Option<Claim<'a, T>>> {
        let mut look = self.look(locked, now, context.waker());
        loop {
            match look {
                Look::Taken(taken) => return Poll::Ready(Some(self.claim(taken, context))),
                Look::Over => return Poll::Ready(None),
                Look::Wait => {
                    self.alarm = None;
                    return Poll::Pending;
                }
                Look::WaitUntil(deadline) => ready!(self.sleep(deadline, context)),
            }
            let now = if self.shared.is_timed { self.shared.now() } else { 0 };
            look = self.look(self.shared.lock(), now, context.waker());
        }
    }

    fn look(&mut self, locked: Guard<'a, Locked<T>>, now: u64, waker: &Waker) -> Look<T> {
        let shared = &**self.shared;
        change(locked, |locked| {
            if let Some(id) = self.waiter {
                locked.waiters.unregister(id);
            }
            let due = locked.advance(|| if shared.is_timed { now } else { shared.now() });
            let taken = locked.state.take(now);
            // Of the keys that have just come into line, one is ours.
            locked.waiters.pick(due.saturating_sub(usize::from(taken.is_some())));
            if locked.state.is_over() {
                locked.waiters.pick_all();
            }
            if let Some(taken) = taken {
                leave(&mut self.waiter, locked);
                return Look::Taken(taken);
            }
            if locked.state.is_over() {
                return Look::Over;
            }
            let id = locked.waiters.register(self.waiter, waker);
            self.waiter = Some(id);
            match locked.state.soonest() {
                Some(deadline) if locked.waiters.keep_time(id) => Look::WaitUntil(deadline),
                Some(_) => Look::Wait,
                None => {
                    locked.waiters.stop_keeping_time(id);
                    Look::Wait
                }
            }
        })
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
