//! Workers: each takes a key from the queue and brings its object into order.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use kubewright_workqueue::{Options, RateLimitingQueue, limiter};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::activity::Counts;
use crate::context::ControllerContext;
use crate::error::Error;

/// What came of a key: nothing to wait for, or when to look at it again.
pub(crate) type Synced = Result<Option<Duration>, Error>;

/// Brings objects into order.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// Which one, in logs and metrics.
    const NAME: &'static str;
    /// How often a failing key is tried before it is left alone until something happens to it.
    const MAX_RETRIES: Option<u32> = None;
    /// What is looked after.
    type Key: Clone + Debug + Eq + Hash + Send + Sync + 'static;

    /// Looks at one object, and does what it needs.
    fn sync(&self, key: &Self::Key) -> impl Future<Output = Synced> + Send;
}

/// A queue for the keys of one controller. Each key backs off by itself; there is no limit on all together, because
/// servers that need one say so.
pub(crate) fn queue<K>(context: &ControllerContext, name: &str) -> RateLimitingQueue<K>
where
    K: Clone + Eq + Hash + Send + 'static,
{
    let mut options = Options::new().name(name);
    if let Some(metrics) = &context.queue_metrics {
        options = options.metrics(metrics);
    }
    RateLimitingQueue::new(limiter::ItemExponential::new(Duration::from_millis(5), Duration::from_secs(1000)), options)
}

/// Lets workers work, as many as the context says, until `stop` is cancelled; returns when the last one has finished the key in hand.
pub(crate) async fn work<R: Reconcile>(
    reconcile: Arc<R>,
    queue: &RateLimitingQueue<R::Key>,
    context: &ControllerContext,
    stop: &CancellationToken,
) {
    let (counts, workers) = (context.activity.watch(R::NAME, queue), context.workers.max(1));
    // Dropping this future ends the workers as well.
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(one(reconcile.clone(), queue.clone(), counts.clone(), stop.clone()));
    }
    tracing::debug!(controller = R::NAME, workers, "working");
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
            && !stop.is_cancelled()
        {
            tracing::error!(controller = R::NAME, "a worker panicked and is replaced");
            tasks.spawn(one(reconcile.clone(), queue.clone(), counts.clone(), stop.clone()));
        }
    }
    queue.shut_down();
}

async fn one<R: Reconcile>(
    reconcile: Arc<R>,
    queue: RateLimitingQueue<R::Key>,
    counts: Arc<Counts>,
    stop: CancellationToken,
) {
    while let Some(claim) = stop.run_until_cancelled(queue.get()).await.flatten() {
        let key = claim.key();
        let synced = {
            let _busy = counts.busy();
            reconcile.sync(key).await
        };
        match synced {
            Ok(again) => {
                queue.forget(key);
                if let Some(delay) = again {
                    queue.add_after(key.clone(), delay);
                }
            }
            // Nothing can be done there any more, and nothing has to.
            Err(error) if error.is_namespace_terminating() => queue.forget(key),
            Err(error) => {
                counts.failed();
                retry::<R>(&queue, key, &error);
            }
        }
    }
}

fn retry<R: Reconcile>(queue: &RateLimitingQueue<R::Key>, key: &R::Key, error: &Error) {
    let (controller, cause) = (R::NAME, error as &dyn std::error::Error);
    if R::MAX_RETRIES.is_some_and(|limit| queue.num_requeues(key) >= limit) {
        tracing::warn!(controller, ?key, cause, "given up");
        queue.forget(key);
        return;
    }
    match error.is_conflict() {
        true => tracing::debug!(controller, ?key, cause, "tried again"),
        false => tracing::warn!(controller, ?key, cause, "tried again"),
    }
    queue.add_rate_limited(key.clone());
}
