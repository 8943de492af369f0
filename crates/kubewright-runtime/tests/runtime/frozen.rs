//! A process that can be suspended: its futures are not polled while it is frozen, but the clock
//! advances.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// Freezes and thaws the futures run in it.
#[derive(Clone)]
pub struct Freezer(watch::Sender<bool>);

impl Freezer {
    pub fn new() -> Self {
        Freezer(watch::Sender::new(false))
    }

    pub fn set(&self, frozen: bool) {
        self.0.send_replace(frozen);
    }

    /// The same work, done only while not frozen.
    pub fn hold<F: Future>(&self, work: F) -> Freezable<F> {
        Freezable { work: Box::pin(work), frozen: self.0.subscribe(), thaw: None }
    }
}

pub struct Freezable<F> {
    work: Pin<Box<F>>,
    frozen: watch::Receiver<bool>,
    thaw: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<F: Future> Future for Freezable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            if let Some(thaw) = &mut self.thaw {
                if thaw.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.thaw = None;
            }
            if !*self.frozen.borrow() {
                return self.work.as_mut().poll(context);
            }
            let mut frozen = self.frozen.clone();
            self.thaw = Some(Box::pin(async move {
                let _ = frozen.wait_for(|frozen| !frozen).await;
            }));
        }
    }
}
