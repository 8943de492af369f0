//! Workers: take keys from a queue and reconcile their objects.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kubewright_net::observation::{ObservedReconcile, Observer, ReconcileEnd, ReconcileStart};
use kubewright_workqueue::{Claim, Gate, QueueOptions, RateLimitingQueue, limiter};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::activity::{ActivityCounts, chain, text_of};
use crate::context::ControllerContext;
use crate::error::Error;

/// The result of a reconcile: done, or when to reconcile again.
pub(crate) type Synced = Result<Option<Duration>, Error>;

/// A reconciler.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Maximum number of retries of a failing key, which is then dropped until the next event.
    const MAX_RETRIES: Option<u32> = None;
    /// The reconcile request.
    type Key: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// Reconciles one object.
    fn sync(&self, key: &Self::Key) -> impl Future<Output = Synced> + Send;
}

/// A queue for one controller with back-off per key; there is no overall limit, because servers
/// have flow control.
pub(crate) fn queue<K>(context: &ControllerContext, name: &str) -> RateLimitingQueue<K>
where
    K: Clone + Eq + Hash + Send + 'static,
{
    let mut options = QueueOptions::new().name(name);
    if let Some(metrics) = &context.queue_metrics {
        options = options.metrics(metrics);
    }
    RateLimitingQueue::new(limiter::ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000)), options)
}

/// Runs the configured number of workers until `stop` is cancelled; returns when running reconciles
/// have ended.
pub(crate) async fn work<R: Reconcile>(
    reconcile: Arc<R>,
    queue: &RateLimitingQueue<R::Key>,
    context: &ControllerContext,
    stop: &CancellationToken,
) {
    let (counts, workers) = (context.activity.watch(R::NAME, queue), context.workers.max(1));
    // Dropping this future stops the workers too.
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(one(reconcile.clone(), queue.clone(), counts.clone(), context.observer.clone(), stop.clone()));
    }
    tracing::debug!(controller = R::NAME, workers, "working");
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
            && !stop.is_cancelled()
        {
            tracing::error!(controller = R::NAME, "a worker panicked and is replaced");
            tasks.spawn(one(reconcile.clone(), queue.clone(), counts.clone(), context.observer.clone(), stop.clone()));
        }
    }
    queue.shut_down();
}

async fn one<R: Reconcile>(
    reconcile: Arc<R>,
    queue: RateLimitingQueue<R::Key>,
    counts: Arc<ActivityCounts>,
    observer: Option<Arc<dyn Observer>>,
    stop: CancellationToken,
) {
    while let Some(claim) = stop.run_until_cancelled(next(&queue, counts.gate())).await.flatten() {
        let key = claim.key();
        if !counts.gate().pass() {
            queue.add(key.clone());
            continue;
        }
        let synced = {
            let _busy = counts.busy();
            let started = Instant::now();
            let synced = match &observer {
                Some(observer) => observed(&**observer, &*reconcile, key, queue.num_requeues(key)).await,
                None => reconcile.sync(key).await,
            };
            counts.finished(key, started.elapsed(), &synced);
            synced
        };
        match synced {
            Ok(again) => {
                queue.forget(key);
                if let Some(delay) = again {
                    queue.add_after(key.clone(), delay);
                }
            }
            // Nothing can be done in a terminating namespace, and nothing has to.
            Err(error) if error.is_namespace_terminating() => queue.forget(key),
            Err(error) => {
                counts.failed();
                retry::<R>(&queue, key, &error);
            }
        }
    }
}

/// The next key, once the gate is open.
async fn next<'a, K: Clone + Eq + Hash + Send + 'static>(
    queue: &'a RateLimitingQueue<K>,
    gate: &Gate,
) -> Option<Claim<'a, K>> {
    gate.opened().await;
    queue.get().await
}

/// Reconciles a key, and reports it.
async fn observed<R: Reconcile>(observer: &dyn Observer, reconcile: &R, key: &R::Key, retries: u32) -> Synced {
    let observed = ObservedReconcile::begin(
        observer,
        ReconcileStart {
            controller: R::NAME,
            key: &text_of(key),
            reasons: Vec::new(),
            attempt: retries.saturating_add(1),
            id: 0,
        },
    );
    let synced = observed.run(reconcile.sync(key)).await;
    match &synced {
        Ok(None) => observed.end(ReconcileEnd::Done),
        Ok(again) => observed.end(ReconcileEnd::Requeue(*again)),
        Err(error) => observed.end(ReconcileEnd::Failed(&chain(error))),
    }
    synced
}

fn retry<R: Reconcile>(queue: &RateLimitingQueue<R::Key>, key: &R::Key, error: &Error) {
    let (controller, cause) = (R::NAME, error as &dyn std::error::Error);
    if R::MAX_RETRIES.is_some_and(|limit| queue.num_requeues(key) >= limit) {
        tracing::warn!(controller, ?key, cause, "given up");
        queue.forget(key);
        return;
    }
    if error.is_conflict() {
        tracing::debug!(controller, ?key, cause, "tried again")
    } else {
        tracing::warn!(controller, ?key, cause, "tried again")
    }
    queue.add_rate_limited(key.clone());
}
