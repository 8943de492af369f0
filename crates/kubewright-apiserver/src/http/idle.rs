//! Connections that nobody uses are ended.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep};

/// A connection is looked at so often. What happens between two looks need not be timed.
const LOOK: Duration = Duration::from_secs(30);
/// One that was found unused so many times in a row is asked to end: after a minute and a half, as Go's servers do.
const LOOKS: u32 = 3;

/// How long a connection has not been used.
pub(super) struct Idle {
    next: Pin<Box<Sleep>>,
    unused: u32,
    /// Who is woken by the next look. Asked at every turn, a timer would be told the same again and again.
    asker: Option<Waker>,
}

/// What is to be done about a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its client is told that no more requests are taken.
    Ask,
    /// It is given up: it was asked, and nobody answers.
    End,
}

impl Default for Idle {
    fn default() -> Self {
        Idle { next: Box::pin(sleep(LOOK)), unused: 0, asker: None }
    }
}

impl Idle {
    /// Ready when something is to be done; `is_used` tells whether the connection has been since it was asked the last time.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, is_used: impl FnOnce() -> bool) -> Poll<Verdict> {
        let is_known = self.asker.as_ref().is_some_and(|asker| asker.will_wake(context.waker()));
        if is_known && !self.next.is_elapsed() {
            return Poll::Pending;
        }
        self.asker = Some(context.waker().clone());
        if self.poll_next(context).is_pending() {
            return Poll::Pending;
        }
        self.next.as_mut().reset(Instant::now() + LOOK);
        // So that it knows whom to wake.
        let _ = self.poll_next(context);
        self.unused = if is_used() { 0 } else { self.unused + 1 };
        match self.unused {
            0..LOOKS => Poll::Pending,
            LOOKS => Poll::Ready(Verdict::Ask),
            _ => Poll::Ready(Verdict::End),
        }
    }

    /// A timer that a task may not look at now, because it has done much already, would not know that it was asked.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut unconstrained(self.next.as_mut())).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_used_is_asked_to_end_and_then_given_up() {
        let (mut idle, start) = (Idle::default(), Instant::now());
        let mut uses = vec![false, false, true];
        let verdict = poll_fn(|context| idle.poll(context, || uses.pop().unwrap_or_default())).await;
        assert_eq!((verdict, start.elapsed().as_secs() / 30), (Verdict::Ask, 4), "one look found it used");
        let verdict = poll_fn(|context| idle.poll(context, || false)).await;
        assert_eq!((verdict, start.elapsed().as_secs() / 30), (Verdict::End, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_used_after_it_was_asked_to_end_is_not_given_up() {
        let mut idle = Idle::default();
        assert_eq!(poll_fn(|context| idle.poll(context, || false)).await, Verdict::Ask);
        let mut uses = vec![true; 10];
        assert_eq!(poll_fn(|context| idle.poll(context, || uses.pop().unwrap_or_default())).await, Verdict::Ask);
        assert!(uses.is_empty());
    }
}
