//! A worker: from a key in hand to what happens to it next.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;

use kubewright_client::Client;
use kubewright_core::{ObjectKey, Str};
use kubewright_workqueue::{AddOptions, Claim};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Span};

use super::context::{Context, Inner, Means};
use super::outcome::{Failure, Outcome};
use super::reason::{Change, Reason};
use super::relation::Relation;
use super::run::{Ended, Place, Places, Run};
use super::running::chain;
use super::shared::{ControllerHandle, Shared};
use crate::sharding::{Permit, Right, Sharding};

/// A key whose writes are not in the cache is looked at again after this time, should no event wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A task that asks for reconciles.
pub(super) type Feed = Box<dyn FnOnce(ControllerHandle) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// How keys are reconciled.
pub(super) struct Plan {
    pub(super) client: Client,
    pub(super) places: Places,
    pub(super) timeout: Option<Duration>,
    pub(super) patience: Duration,
}

impl Plan {
    /// Reconciles one key after the other until told to stop; the key in hand is finished first.
    pub(super) async fn work(self: Arc<Self>, shared: Arc<Shared>, stop: CancellationToken) {
        let mut place = (self.places)();
        let means = Arc::new(Means { client: self.client.clone(), shared, stop });
        let (shared, mut stopped) = (&means.shared, pin!(means.stop.cancelled()));
        loop {
            let mut next = pin!(shared.queue.get());
            // Whether to stop is asked before each key, but to be woken for it only where there is none.
            let next = poll_fn(|context| {
                if means.stop.is_cancelled() {
                    return Poll::Ready(None);
                }
                match next.as_mut().poll(context) {
                    Poll::Pending => stopped.as_mut().poll(context).map(|()| None),
                    next => next,
                }
            });
            let Some(claim) = next.await else { return };
            let right = shared.sharding.get().map(|sharding| shared.right(sharding, claim.key()));
            let (permit, is_listed) = match right {
                // Whoever has the shard is told as well, and whoever gets it later looks at all its keys.
                Some(Right::Denied) => {
                    shared.leave(claim.key());
                    continue;
                }
                Some(Right::NotYet) => (None, false),
                Some(Right::Granted(permit)) => (Some(permit), true),
                None => (None, true),
            };
            if is_listed && self.has_seen_own_writes(shared, claim.key()) {
                self.reconcile(&means, claim, permit, &mut *place).await;
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
            // A cache that does not follow the server may never show it; fresh reads ask the server
            // then.
            let is_seen = |relation: &Arc<dyn Relation>| relation.is_adrift() || relation.has_seen(write);
            let is_seen = relations.get(write.relation).is_none_or(is_seen);
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
        means: &Arc<Means>,
        claim: Claim<'_, ObjectKey>,
        permit: Option<Permit>,
        place: &mut dyn Place,
    ) {
        let shared = &*means.shared;
        let failures = shared.limiter(&claim, || shared.queue.num_requeues(&claim));
        let context = Context::new(Inner {
            key: claim.key().clone(),
            reasons: shared.pending.take(&claim),
            attempt: failures.unwrap_or_default().saturating_add(1),
            reconcile_id: shared.random.next(),
            means: means.clone(),
        });
        let span = span_of(shared, &context);
        let active = shared.numbers.as_ref().map(|numbers| numbers.began());
        let mut run = Run::new(place, context, span.as_ref());
        let ended = match (&permit, self.timeout) {
            _ if shared.is_undecodable(&claim) => Some(Err(Failure::Undecodable)),
            (None, None) => Some(ended((&mut run).await)),
            (permit, limit) => while_permitted(permit.as_ref(), within(limit, &mut run)).await,
        };
        // What is left of a run that took too long has to be gone before its key is free.
        drop(run);
        drop(active);
        let _entered = span.as_ref().map(Span::enter);
        match ended {
            Some(ended) => conclude(shared, &claim, failures != Some(0), ended),
            None => {
                tracing::warn!(controller = %shared.name, key = %claim.key(), "dropped: the shard of the key is lost");
                shared.leave(&claim);
            }
        }
    }
}

impl Shared {
    /// Whether the cache of the main kind could not decode the newest state of this object.
    fn is_undecodable(&self, key: &ObjectKey) -> bool {
        let relations = self.relations.read().unwrap_or_else(PoisonError::into_inner);
        relations.first().is_some_and(|main| main.is_undecodable(key))
    }

    /// The right of this replica to reconcile `key`, which the main relation knows.
    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Right {
        let relations = self.relations.read().unwrap_or_else(PoisonError::into_inner);
        relations.first().map_or(Right::Denied, |main| main.right(sharding, key))
    }
}

/// The span of a run; `None` where nobody listens, which is cheaper than a span that is disabled.
fn span_of(shared: &Shared, context: &Context) -> Option<Span> {
    if !tracing::enabled!(Level::INFO) {
        return None;
    }
    // At the level of what reconcilers say, so that each line of theirs has the key.
    let span = tracing::info_span!(
        "reconcile",
        controller = %shared.name,
        key = %context.key(),
        reconcile_id = context.reconcile_id(),
        attempt = context.attempt(),
    );
    span.in_scope(|| tracing::debug!(reasons = %context.reasons(), "reconciling"));
    Some(span)
}

fn ended(ended: Result<Ended, String>) -> Result<Outcome, Failure> {
    ended.map_err(Failure::Panic)?.map_err(Failure::Error)
}

/// Ends a run that takes longer than `limit`, if there is one.
async fn within(limit: Option<Duration>, run: &mut Run<'_>) -> Result<Outcome, Failure> {
    match limit {
        Some(limit) => ended(timeout(limit, run).await.map_err(|_| Failure::Timeout(limit))?),
        None => ended(run.await),
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

/// Plans what happens to the key next. `has_failed` says whether the limiter knows of failures that it may have to forget: nobody
/// else counts them while the key is claimed.
fn conclude(shared: &Shared, claim: &Claim<'_, ObjectKey>, has_failed: bool, ended: Result<Outcome, Failure>) {
    if let Some(numbers) = &shared.numbers {
        numbers.ended(&ended);
    }
    let key = claim.key();
    let options = AddOptions::new().priority(claim.priority());
    let forget = || {
        if has_failed {
            shared.forget(key);
        }
    };
    let reason = |change| Reason { source: Str::from_static("reconcile"), object: None, change };
    match ended {
        Ok(Outcome::Done) => {
            forget();
            shared.succeeded(key);
        }
        Ok(Outcome::RequeueAfter(delay)) => {
            forget();
            shared.succeeded(key);
            shared.enqueue(key.clone(), reason(Change::Requeued), options.after(delay));
        }
        Ok(Outcome::BackOff) => {
            shared.succeeded(key);
            shared.enqueue_limited(key, reason(Change::Requeued), options);
        }
        Ok(Outcome::GiveUp(why)) => {
            tracing::warn!(controller = %shared.name, %key, why, "given up until something changes");
            forget();
            shared.gave_up(key, why);
        }
        Err(failure) => {
            let error = chain(&failure);
            tracing::warn!(controller = %shared.name, %key, error, "reconcile failed");
            shared.failed(key, error);
            shared.enqueue_limited(key, reason(Change::Retried), options);
        }
    }
}
