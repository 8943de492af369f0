//! Credential renewals that continue when their waiters are dropped.
//!
//! A request has a timeout, but a browser login takes longer. A refresh token may be valid only
//! once, so its response must not be lost. A failure is shared by all waiters: if each retried in
//! turn, the last one would wait for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::task::{self, BoxFuture};

/// The last renewal of some credentials. It is aborted when they are dropped.
#[derive(Debug)]
pub(super) struct Renewal<T> {
    task: Mutex<Option<AbortHandle>>,
    ended: Arc<Mutex<CompletedRenewals<T>>>,
}

/// Number of completed renewals, and the last result.
#[derive(Debug)]
struct CompletedRenewals<T> {
    count: u64,
    last: Option<T>,
}

impl<T> Default for Renewal<T> {
    fn default() -> Self {
        Renewal { task: Mutex::default(), ended: Arc::new(Mutex::new(CompletedRenewals { count: 0, last: None })) }
    }
}

impl<T: Clone + Send + 'static> Renewal<T> {
    /// Number of completed renewals, for [`since`](Self::since). Read it before waiting for the
    /// lock.
    pub(super) fn count(&self) -> u64 {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// The result of a renewal that completed after the first `count`.
    pub(super) fn since(&self, count: u64) -> Option<T> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.last.clone().filter(|_| ended.count > count)
    }

    /// Starts `work` and waits for it. `work` must store its own results, because its waiters may
    /// be dropped.
    ///
    /// The caller ensures that there is one at a time: `work` owns the lock guard and returns it,
    /// so that the lock is released only when waiters can see the result. `None` if it was aborted.
    pub(super) async fn run<G: Send + 'static>(&self, work: BoxFuture<'static, (T, G)>) -> Option<T> {
        let (done, result) = oneshot::channel();
        let ended = self.ended.clone();
        let work = Box::pin(async move {
            let (result, turn) = work.await;
            {
                let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                *ended = CompletedRenewals { count: ended.count + 1, last: Some(result.clone()) };
            }
            drop(turn);
            // The waiter may have been dropped.
            let _ = done.send(result);
        });
        {
            // Locked before the task starts: it may end, and another one start, before its handle
            // is stored.
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
    async fn a_renewal_continues_without_its_caller() {
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
            _ = renewal.run(Box::pin(work)) => panic!("it was not released"),
            _ = &mut has_begun => {}
        }
        release.send(()).unwrap();
        assert_eq!(is_done.await, Ok("new"));
    }

    #[tokio::test]
    async fn a_renewal_ends_when_its_credentials_are_dropped() {
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
