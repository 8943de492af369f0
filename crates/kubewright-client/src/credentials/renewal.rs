//! Renewals of credentials, which go on although those who wait for them give up.
//!
//! A request has a time limit, and a login with a browser takes longer. A provider takes each refresh token once, so that an answer nobody
//! waits for any more is the only one there will be. A failure is for all who waited as well: were each to try for itself, one after the
//! other, the last would wait as many times as there are of them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::task::{self, BoxFuture};

/// The last renewal of some credentials. Ends together with them.
#[derive(Debug)]
pub(super) struct Renewal<T> {
    task: Mutex<Option<AbortHandle>>,
    ended: Arc<Mutex<Ended<T>>>,
}

/// How many renewals have ended, and what the last has come to.
#[derive(Debug)]
struct Ended<T> {
    count: u64,
    last: Option<T>,
}

impl<T> Default for Renewal<T> {
    fn default() -> Self {
        Renewal { task: Mutex::default(), ended: Arc::new(Mutex::new(Ended { count: 0, last: None })) }
    }
}

impl<T: Clone + Send + 'static> Renewal<T> {
    /// How many renewals have ended, for [`since`](Self::since). To be asked before one waits for one's turn.
    pub(super) fn count(&self) -> u64 {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// What a renewal has come to that ended since there were `count` of them.
    pub(super) fn since(&self, count: u64) -> Option<T> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.last.clone().filter(|_| ended.count > count)
    }

    /// Starts `work`, and waits for it. What `work` has to leave behind it does itself: nobody may be waiting by then.
    ///
    /// There is one at a time, which is up to the caller: let `work` own what a second would need, and hand it back, so that it is free
    /// only when those who wait for it can see the result. `None` if it was broken off.
    pub(super) async fn run<G: Send + 'static>(&self, work: BoxFuture<'static, (T, G)>) -> Option<T> {
        let (done, result) = oneshot::channel();
        let ended = self.ended.clone();
        let work = Box::pin(async move {
            let (result, turn) = work.await;
            {
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                *ended = Ended { count: ended.count + 1, last: Some(result.clone()) };
            }
            drop(turn);
            // Nobody may be waiting any more.
            let _ = done.send(result);
        });
        {
            // Locked before it starts: it may end, and another begin, before we come to remember it.
            let mut last = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(task::spawn(work).abort_handle());
        }
        result.await.ok()
    }
}

impl<T> Drop for Renewal<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().unwrap_or_else(PoisonError::into_inner) {
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
        let (renewal, (begun, mut has_begun)) = (Renewal::<()>::default(), oneshot::channel());
        let (release, released) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            let _ = begun.send(());
            let _ = released.await;
            let _ = done.send("new");
            ((), ())
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
        let renewal = Renewal::<()>::default();
        let (begun, mut has_begun) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let work = async move {
            let _held = end;
            let _ = begun.send(());
            pending::<((), ())>().await
        };
        tokio::select! {
            _ = renewal.run(Box::pin(work)) => panic!("it never ends"),
            _ = &mut has_begun => {}
        }
        drop(renewal);
        assert!(ended.await.is_err(), "it is gone with all that it held");
    }
}
