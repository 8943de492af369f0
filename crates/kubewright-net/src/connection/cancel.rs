//! Cancels the tasks of connections, including active requests.

use std::future::pending;

use tokio::sync::watch;

use crate::task::{self, BoxFuture};

/// Cancels tasks on demand. If the sender is dropped, tasks run to their end.
#[derive(Clone)]
pub(super) struct CancelSignal(pub(super) watch::Receiver<bool>);

impl CancelSignal {
    async fn wait(mut self) {
        if self.0.wait_for(|cancel| *cancel).await.is_err() {
            pending().await
        }
    }

    pub(super) fn spawn(&self, work: BoxFuture<'static, ()>) {
        let cancel = self.clone();
        task::spawn(Box::pin(async move {
            tokio::select! {
                () = work => {}
                () = cancel.wait() => {}
            }
        }));
    }
}
