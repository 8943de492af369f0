//! What a channel seldom says, for those who ask at every turn.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::sync::watch;
use tokio::task::coop::unconstrained;

/// Done when a value of the channel is what was waited for, or when its sender is gone.
///
/// A future of the channel takes locks whenever it is polled. A watch is polled twice for each event, with other things to look
/// at: here it costs a look at a number, as long as the channel says nothing and the same task asks.
pub(crate) struct Seldom<T> {
    channel: watch::Receiver<T>,
    coming: Pin<Box<dyn Future<Output = ()> + Send>>,
    asker: Option<Waker>,
}

impl<T: Send + Sync + 'static> Seldom<T> {
    pub(crate) fn new(channel: &watch::Receiver<T>, is_it: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        let mut waited = channel.clone();
        // A channel that a task may not look at now, because it has done much already, would not know that it was asked.
        let coming = Box::pin(unconstrained(async move { drop(waited.wait_for(is_it).await) }));
        Seldom { channel: channel.clone(), coming, asker: None }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_known = self.asker.as_ref().is_some_and(|asker| asker.will_wake(context.waker()));
        if is_known && !self.channel.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        // Before the look, so that a word after it is heard the next time.
        self.channel.mark_unchanged();
        self.asker = Some(context.waker().clone());
        self.coming.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn it_comes_to_whoever_asked_last() {
        let (sender, receiver) = watch::channel(0);
        let mut five = Seldom::new(&receiver, |number| *number == 5);
        let none = Duration::from_millis(5);
        assert!(timeout(none, poll_fn(|context| five.poll(context))).await.is_err());
        sender.send_replace(4);
        assert!(timeout(none, poll_fn(|context| five.poll(context))).await.is_err(), "another value");
        // Another task, which only its own waker can wake.
        let waiting = tokio::spawn(async move { poll_fn(|context| five.poll(context)).await });
        tokio::task::yield_now().await;
        sender.send_replace(5);
        timeout(Duration::from_secs(60), waiting).await.expect("woken").expect("no panic");
    }

    #[tokio::test]
    async fn it_comes_when_nobody_is_left_to_say_it() {
        let (sender, receiver) = watch::channel(0);
        let mut five = Seldom::new(&receiver, |number| *number == 5);
        let waiting = tokio::spawn(async move { poll_fn(|context| five.poll(context)).await });
        tokio::task::yield_now().await;
        drop(sender);
        timeout(Duration::from_secs(60), waiting).await.expect("woken").expect("no panic");
    }
}
