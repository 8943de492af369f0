//! Waits for a condition on a watch channel that is polled often and changes rarely.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop::unconstrained;

/// Ready when a value of the channel meets a condition, or when its sender is dropped.
///
/// A future of the channel takes locks whenever it is polled, and a watch is polled twice for each
/// event. Here a poll only compares version numbers, as long as the channel does not change and the
/// same task polls.
pub(crate) struct ChannelCondition<T> {
    channel: watch::Receiver<T>,
    met: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Option<Waker>,
}

impl<T: Send + Sync + 'static> ChannelCondition<T> {
    /// Waits until `is_met` holds for a value of the channel.
    pub(crate) fn new(channel: &watch::Receiver<T>, is_met: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        let mut waited = channel.clone();
        // Without tokio's cooperative budget: an exhausted budget would return pending before the
        // channel has registered the waker.
        let met = Box::pin(unconstrained(async move { drop(waited.wait_for(is_met).await) }));
        ChannelCondition { channel: channel.clone(), met, waker: None }
    }

    /// Ready once the condition is met. Do not poll again after that.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_registered = self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_registered && !self.channel.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        // Before the poll, so that a change after it is noticed by the next one.
        self.channel.mark_unchanged();
        self.waker = Some(context.waker().clone());
        self.met.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_task_that_polled_last_is_woken() {
        let (sender, receiver) = watch::channel(0);
        let mut five = ChannelCondition::new(&receiver, |number| *number == 5);
        let none = Duration::from_millis(5);
        assert!(timeout(none, poll_fn(|context| five.poll(context))).await.is_err());
        sender.send_replace(4);
        assert!(timeout(none, poll_fn(|context| five.poll(context))).await.is_err(), "another value");
        // Another task has a different waker.
        let waiting = tokio::spawn(async move { poll_fn(|context| five.poll(context)).await });
        tokio::task::yield_now().await;
        sender.send_replace(5);
        timeout(Duration::from_secs(60), waiting).await.expect("woken").expect("no panic");
    }

    #[tokio::test]
    async fn a_dropped_sender_ends_the_wait() {
        let (sender, receiver) = watch::channel(0);
        let mut five = ChannelCondition::new(&receiver, |number| *number == 5);
        let waiting = tokio::spawn(async move { poll_fn(|context| five.poll(context)).await });
        tokio::task::yield_now().await;
        drop(sender);
        timeout(Duration::from_secs(60), waiting).await.expect("woken").expect("no panic");
    }
}
