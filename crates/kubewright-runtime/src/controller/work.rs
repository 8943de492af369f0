//! One run of a reconciler: from a key in hand to what happens to it next.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kubewright_client::Client;
use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::{AddOptions, Claim};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::context::{Context, Inner};
use super::outcome::{BoxError, Failure, Outcome};
use super::reason::{Change, Reason};
use super::shared::{ControllerHandle, Shared};
use super::unwind::CatchUnwind;
use crate::sharding::Permit;

/// A key whose writes are not in the cache is looked at again after this time, should no event wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

type Run = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send>>;

/// A task that asks for reconciles.
pub(super) type Feed = Box<dyn FnOnce(ControllerHandle) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// How keys are reconciled.
pub(super) struct Plan {
    pub(super) client: Client,
    pub(super) reconcile: Box<dyn Fn(Context) -> Run + Send + Sync>,
    pub(super) timeout: Option<Duration>,
    pub(super) patience: Duration,
}

impl Plan {
    /// Reconciles one key after the other until told to stop; the key in hand is finished first.
    pub(super) async fn work(self: Arc<Self>, shared: Arc<Shared>, stop: CancellationToken) {
        while let Some(claim) = stop.run_until_cancelled(shared.queue.get()).await.flatten() {
            let permit = match shared.sharding.get().map(|sharding| sharding.permit(claim.key())) {
                // Whoever has the shard is told as well, and whoever gets it later looks at all its keys.
                Some(None) => {
                    shared.leave(claim.key());
                    continue;
                }
                Some(permit) => permit,
                None => None,
            };
            if self.has_seen_own_writes(&shared, claim.key()) {
                self.reconcile(&shared, claim, permit, &stop).await;
            } else {
                // The claim is given back, so that the worker is free meanwhile; the event or the clock brings the key back.
                let again = AddOptions::new().after(LOOK_AGAIN).priority(claim.priority());
                shared.queue.add_with(claim.key().clone(), again);
            }
        }
    }

    fn has_seen_own_writes(&self, shared: &Shared, key: &ObjectKey) -> bool {
        if shared.writes.is_empty() {
            return true;
        }
        let relations = shared.relations();
        let has_seen = |write: &crate::consistency::Write| {
            let is_seen = relations.get(write.relation).is_none_or(|relation| relation.has_seen(write));
            if !is_seen && write.at.elapsed() > self.patience {
                tracing::warn!(controller = %shared.name, %key, object = %write.object, "the cache never showed a write");
                return true;
            }
            is_seen
        };
        shared.writes.settle(key, has_seen)
    }

    async fn reconcile(
        &self,
        shared: &Arc<Shared>,
        claim: Claim<'_, ObjectKey>,
        permit: Option<Permit>,
        stop: &CancellationToken,
    ) {
        let inner = Inner {
            key: claim.key().clone(),
            reasons: shared.pending.take(&claim),
            attempt: shared.queue.num_requeues(&claim).saturating_add(1),
            reconcile_id: shared.random.next(),
            client: self.client.clone(),
            shared: shared.clone(),
            stop: stop.clone(),
        };
        let context = Context { inner: Arc::new(inner) };
        let span = tracing::debug_span!(
            "reconcile",
            controller = %shared.name,
            key = %claim.key(),
            reconcile_id = context.reconcile_id(),
            attempt = context.attempt(),
        );
        let began = Instant::now();
        shared.numbers.active.inc();
        // A panic may come from the function as well as from the future that it returns.
        let run = CatchUnwind::new(async {
            tracing::debug!(reasons = %context.reasons(), "reconciling");
            (self.reconcile)(context.clone()).await
        });
        let ended = async {
            let ended = match self.timeout {
                Some(limit) => timeout(limit, run).await.map_err(|_| Failure::Timeout(limit))?,
                None => run.await,
            };
            ended.map_err(Failure::Panic)?.map_err(Failure::Error)
        };
        let ended = while_permitted(permit.as_ref(), ended.instrument(span.clone())).await;
        shared.numbers.active.dec();
        shared.numbers.time.observe(began.elapsed().as_secs_f64());
        span.in_scope(|| match ended {
            Some(ended) => conclude(shared, &claim, ended),
            None => {
                tracing::warn!("dropped: the shard of the key is lost");
                shared.leave(&claim);
            }
        });
    }
}

/// Does `work` as long as the key is this replica's; `None` if it was lost first, and the work dropped.
async fn while_permitted<R>(permit: Option<&Permit>, work: impl Future<Output = R>) -> Option<R> {
    let Some(permit) = permit else { return Some(work.await) };
    tokio::select! {
        biased;
        () = permit.lost() => None,
        result = work => Some(result),
    }
}

/// Plans what happens to the key next.
fn conclude(shared: &Shared, claim: &Claim<'_, ObjectKey>, ended: Result<Outcome, Failure>) {
    let (key, numbers) = (claim.key(), &shared.numbers);
    let options = AddOptions::new().priority(claim.priority());
    let reason = |change| Reason { source: Str::from_static("reconcile"), object: None, change };
    match ended {
        Ok(Outcome::Done) => {
            numbers.success.inc();
            shared.queue.forget(key);
            shared.succeeded(key);
        }
        Ok(Outcome::RequeueAfter(delay)) => {
            numbers.requeue_after.inc();
            shared.queue.forget(key);
            shared.succeeded(key);
            shared.enqueue(key.clone(), reason(Change::Requeued), options.after(delay));
        }
        Ok(Outcome::BackOff) => {
            numbers.requeue.inc();
            shared.succeeded(key);
            shared.enqueue(key.clone(), reason(Change::Requeued), options.rate_limited());
        }
        Ok(Outcome::GiveUp(why)) => {
            tracing::warn!(why, "given up until something changes");
            numbers.error.inc();
            numbers.errors.inc();
            numbers.terminal_errors.inc();
            shared.queue.forget(key);
            shared.gave_up(key, why);
        }
        Err(failure) => {
            tracing::warn!(error = %failure, "reconcile failed");
            numbers.error.inc();
            numbers.errors.inc();
            match &failure {
                Failure::Timeout(_) => drop(numbers.timeouts.inc()),
                Failure::Panic(_) => drop(numbers.panics.inc()),
                Failure::Error(_) => {}
            }
            shared.failed(key, failure.to_string());
            shared.enqueue(key.clone(), reason(Change::Retried), options.rate_limited());
        }
    }
}
