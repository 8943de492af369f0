//! Leader election with callbacks, as in client-go.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;

use kubewright_core::Str;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::elector::LeaderElector;
use super::lock::BoxFuture;

type Started = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>;
type Stopped = Box<dyn FnOnce() + Send>;
type Payload = Box<dyn Any + Send>;
type NewLeader = Box<dyn FnMut(&str) + Send>;

/// Callbacks of a leader election.
pub struct LeaderCallbacks {
    started: Started,
    stopped: Stopped,
    new_leader: NewLeader,
}

impl LeaderCallbacks {
    /// `on_started_leading` is the leader's work; its token tells when to stop.
    /// `on_stopped_leading` is called at the end in any case, even if this process never led.
    #[doc(alias = "OnStartedLeading")]
    #[doc(alias = "OnStoppedLeading")]
    #[inline]
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        on_started_leading: impl FnOnce(CancellationToken) -> F + Send + 'static,
        on_stopped_leading: impl FnOnce() + Send + 'static,
    ) -> Self {
        LeaderCallbacks {
            started: Box::new(|stop| Box::pin(on_started_leading(stop))),
            stopped: Box::new(on_stopped_leading),
            new_leader: Box::new(|_| {}),
        }
    }

    /// Called with each new leader, including the first one and this process, in a separate task.
    #[doc(alias = "OnNewLeader")]
    #[must_use]
    pub fn on_new_leader(mut self, function: impl FnMut(&str) + Send + 'static) -> Self {
        self.new_leader = Box::new(function);
        self
    }
}

/// The lease could not be renewed in time; another process may lead by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leader election lost")]
pub struct LeadershipLost;

/// Calls its function on drop.
struct CallOnDrop(Option<Stopped>);

impl Drop for CallOnDrop {
    #[inline]
    fn drop(&mut self) {
        if let Some(function) = self.0.take() {
            function();
        }
    }
}

impl LeaderElector {
    /// Acquires leadership, runs the work, and returns when leadership has ended: by `stop`, or by
    /// losing it.
    ///
    /// When `stop` is cancelled, the work is told to stop, and the lease is released when it has
    /// ended. Work that takes longer than the lease duration is dropped, and the lease expires.
    ///
    /// # Errors
    /// If leadership was lost. It is best to exit then, as in client-go: work started elsewhere may
    /// not know.
    ///
    /// # Panics
    /// If the work panics, after the lease has been released: otherwise this process would lead
    /// without doing the work.
    #[doc(alias = "RunOrDie")]
    #[inline]
    pub async fn run(mut self, callbacks: LeaderCallbacks, stop: &CancellationToken) -> Result<(), LeadershipLost> {
        let LeaderCallbacks { started, stopped, mut new_leader } = callbacks;
        let _finally = CallOnDrop(Some(stopped));
        let mut seen = self.shared.seen.subscribe();
        // Dropping the set aborts its tasks.
        let mut reporter = JoinSet::new();
        reporter.spawn(async move {
            let mut reported = Str::new();
            while let Ok(leader) = seen.wait_for(|seen| !seen.leader.is_empty() && seen.leader != reported).await {
                reported = leader.leader.clone();
                drop(leader);
                new_leader(&reported);
            }
        });
        let Some(leadership) = self.acquire(stop).await else { return Ok(()) };
        if stop.is_cancelled() {
            leadership.release().await;
            return Ok(());
        }
        if !leadership.is_leading() {
            return Err(LeadershipLost);
        }
        let stop_work = CancellationToken::new();
        let mut work = JoinSet::new();
        work.spawn(started(stop_work.clone()));
        let panicked = tokio::select! {
            biased;
            () = leadership.lost() => {
                stop_work.cancel();
                return Err(LeadershipLost);
            }
            () = stop.cancelled() => None,
            payload = panic_in(&mut work) => Some(payload),
        };
        stop_work.cancel();
        if let Some(payload) = panicked {
            leadership.release().await;
            resume_unwind(payload);
        }
        // Renewals continue, but work that does not end must not hold the lease forever.
        let ended = tokio::select! {
            biased;
            () = leadership.lost() => return Err(LeadershipLost),
            ended = timeout_at(leadership.valid_until(), work.join_next()) => ended,
        };
        let Ok(ended) = ended else {
            work.shutdown().await;
            return Ok(());
        };
        leadership.release().await;
        match ended.and_then(payload_of) {
            Some(payload) => resume_unwind(payload),
            None => Ok(()),
        }
    }
}

/// Resolves if the work panics; never if it ends, after which the lease is still held.
async fn panic_in(work: &mut JoinSet<()>) -> Payload {
    match work.join_next().await.and_then(payload_of) {
        Some(payload) => payload,
        None => std::future::pending().await,
    }
}

fn payload_of(ended: Result<(), JoinError>) -> Option<Payload> {
    ended.err()?.try_into_panic().ok()
}

impl fmt::Debug for LeaderCallbacks {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderCallbacks").finish_non_exhaustive()
    }
}
