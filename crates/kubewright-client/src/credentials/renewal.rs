//! Renewals of credentials, which go on although those who wait for them give up.
//!
//! A request has a time limit, and a login with a browser takes longer. A provider takes each refresh token once, so that an answer nobody
//! waits for any more is the only one there will be.

use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::task::{self, BoxFuture};

/// The last renewal of some credentials. Ends together with them.
#[derive(Debug, Default)]
pub(super) struct Renewal(Mutex<Option<AbortHandle>>);

impl Renewal {
    /// Starts `work`, and waits for it. What `work` has to leave behind it does itself: nobody may be waiting by then.
    ///
    /// There is one at a time, which is up to the caller: let `work` own what a second would need. `None` if it was broken off.
    pub(super) async fn run<T: Send + 'static>(&self, work: BoxFuture<'static, T>) -> Option<T> {
        let (done, result) = oneshot::channel();
        let work = Box::pin(async move {
            // Nobody may be waiting any more.
            let _ = done.send(work.await);
        });
        {
            // Locked before it starts: it may end, and another begin, before we come to remember it.
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(task::spawn(work).abort_handle());
        }
        result.await.ok()
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn what_has_begun_goes_on_without_who_waits_for_it() {
        let (renewal, (begun, mut has_begun)) = (Renewal::default(), oneshot::channel());
        let (release, released) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            let _ = begun.send(());
            let _ = released.await;
            let _ = done.send("new");
        };
        tokio::select! {
            _ = renewal.run(Box::pin(work)) => panic!("nobody has released it"),
            _ = &mut has_begun => {}
        }
        release.send(()).unwrap();
        assert_eq!(is_done.await, Ok("new"));
    }

    #[tokio::test]
    async fn nothing_goes_on_without_the_credentials() {
        let renewal = Renewal::default();
        let (begun, mut has_begun) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let work = async move {
            let _held = end;
            let _ = begun.send(());
            pending::<()>().await
        };
        tokio::select! {
            _ = renewal.run(Box::pin(work)) => panic!("it never ends"),
            _ = &mut has_begun => {}
        }
        drop(renewal);
        assert!(ended.await.is_err(), "it is gone with all that it held");
    }
}
