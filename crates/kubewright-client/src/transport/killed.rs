//! How the tasks of connections are ended, with what is under way on them.

use std::future::pending;

use tokio::sync::watch;

use crate::task::{self, BoxFuture};

/// Ends tasks when told to. One that is never told, also because nobody is left to tell it, runs to its end.
#[derive(Clone)]
pub(super) struct Killed(pub(super) watch::Receiver<bool>);

impl Killed {
    async fn wait(mut self) {
        if self.0.wait_for(|killed| *killed).await.is_err() {
            pending().await
        }
    }

    pub(super) fn spawn(&self, work: BoxFuture<'static, ()>) {
        let killed = self.clone();
        task::spawn(Box::pin(async move {
            tokio::select! {
                () = work => {}
                () = killed.wait() => {}
            }
        }));
    }
}
