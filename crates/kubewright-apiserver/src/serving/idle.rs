//! Closes idle HTTP/2 connections.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

/// Period of idle checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// Number of consecutive idle checks before a graceful shutdown: 90 seconds, as in Go's servers.
const IDLE_CHECKS: u32 = 3;

/// Tracks the idle time of a connection.
pub(super) struct IdleTimer {
    next: Pin<Box<Sleep>>,
    unused: u32,
    /// The waker that is registered with the timer, to avoid registering it again on every poll.
    waker: Option<Waker>,
}

/// The result of an idle check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Shut down gracefully: accept no more requests.
    ShutDown,
    /// Close the connection: the client did not react to the shutdown.
    Close,
}

impl Default for IdleTimer {
    fn default() -> Self {
        IdleTimer { next: Box::pin(sleep(CHECK_INTERVAL)), unused: 0, waker: None }
    }
}

impl IdleTimer {
    /// Ready when the connection should be closed. `is_used` returns whether it was used since the
    /// last check.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, is_used: impl FnOnce() -> bool) -> Poll<Verdict> {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_known && !self.next.is_elapsed() {
            return Poll::Pending;
        }
        self.waker = Some(context.waker().clone());
        if self.poll_next(context).is_pending() {
            return Poll::Pending;
        }
        self.next.as_mut().reset(Instant::now() + CHECK_INTERVAL);
        // Register the waker with the reset timer.
        let _ = self.poll_next(context);
        self.unused = if is_used() { 0 } else { self.unused + 1 };
        match self.unused {
            0..IDLE_CHECKS => Poll::Pending,
            IDLE_CHECKS => Poll::Ready(Verdict::ShutDown),
            _ => Poll::Ready(Verdict::Close),
        }
    }

    /// Without the coop budget: an exhausted budget would return pending without registering the
    /// waker.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut unconstrained(self.next.as_mut())).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_shut_down_and_then_closed() {
        let (mut idle, start) = (IdleTimer::default(), Instant::now());
        let mut uses = vec![false, false, true];
        let verdict = poll_fn(|context| idle.poll(context, || uses.pop().unwrap_or_default())).await;
        assert_eq!((verdict, start.elapsed().as_secs() / 30), (Verdict::ShutDown, 4), "one look found it used");
        let verdict = poll_fn(|context| idle.poll(context, || false)).await;
        assert_eq!((verdict, start.elapsed().as_secs() / 30), (Verdict::Close, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_used_during_graceful_shutdown_stays_open() {
        let mut idle = IdleTimer::default();
        assert_eq!(poll_fn(|context| idle.poll(context, || false)).await, Verdict::ShutDown);
        let mut uses = vec![true; 10];
        assert_eq!(poll_fn(|context| idle.poll(context, || uses.pop().unwrap_or_default())).await, Verdict::ShutDown);
        assert!(uses.is_empty());
    }
}
