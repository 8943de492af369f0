//! A worker: takes keys, reconciles them, and plans the next step.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kubewright_client::Client;
use kubewright_core::{ObjectKey, Str};
use kubewright_net::observation::{ObservedReconcile, Observer};
use kubewright_workqueue::{AddOptions, Claim};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Level, Span};

use super::context::{Context, ContextInner, SharedContext};
use super::observed_run;
use super::outcome::{Outcome, ReconcileFailure};
use super::reason::{Reason, ReasonKind};
use super::reconcile_error::{ErrorAction, ErrorPolicy, action_after};
use super::relation::Relation;
use super::results::Reconciled;
use super::run::{ReconcileResult, Run, RunSlot, RunSlots};
use super::shared::SharedController;
use crate::error::chain;
use crate::sharding::{Permission, Permit, Sharding};

/// Retry delay of a key whose writes are not in the cache, in case no event wakes it.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// How keys are reconciled.
pub(super) struct WorkerPlan {
    pub(super) client: Client,
    pub(super) places: RunSlots,
    pub(super) timeout: Option<Duration>,
    pub(super) error_policy: Option<ErrorPolicy>,
    pub(super) time_limit: Duration,
    pub(super) observer: Option<Arc<dyn Observer>>,
}

impl WorkerPlan {
    /// Reconciles keys until told to stop; the current reconcile is finished first.
    pub(super) async fn work(self: Arc<Self>, shared: Arc<SharedController>, stop: CancellationToken) {
        let mut place = (self.places)();
        let shared_context = Arc::new(SharedContext { client: self.client.clone(), shared, stop });
        let (shared, mut stopped) = (&shared_context.shared, pin!(shared_context.stop.cancelled()));
        loop {
            if shared.gate.is_paused() && shared_context.stop.run_until_cancelled(shared.gate.opened()).await.is_none()
            {
                return;
            }
            let mut next = pin!(shared.queue.get());
            // The stop token is checked before each key, but polled only if no key is queued.
            let next = poll_fn(|context| {
                if shared_context.stop.is_cancelled() {
                    return Poll::Ready(None);
                }
                match next.as_mut().poll(context) {
                    Poll::Pending => stopped.as_mut().poll(context).map(|()| None),
                    next => next,
                }
            });
            let Some(claim) = next.await else { return };
            if !shared.gate.pass() {
                shared.queue.add_with(claim.key().clone(), AddOptions::new().priority(claim.priority()));
                continue;
            }
            let right = shared.sharding.get().map(|sharding| shared.right(sharding, claim.key()));
            let (permit, is_listed) = match right {
                // The owner of the shard receives the event too, and a later owner reconciles all
                // its keys.
                Some(Permission::Denied) => {
                    shared.leave(claim.key());
                    continue;
                }
                Some(Permission::NotYet) => (None, false),
                Some(Permission::Granted(permit)) => (Some(permit), true),
                None => (None, true),
            };
            if is_listed && self.has_seen_own_writes(shared, claim.key()) {
                self.reconcile(&shared_context, claim, permit, &mut *place).await;
            } else {
                // The claim is released, so that the worker is free; an event or the timer queues
                // the key again.
                let again = AddOptions::new().after(RETRY_DELAY).priority(claim.priority());
                shared.queue.add_with(claim.key().clone(), again);
            }
        }
    }

    fn has_seen_own_writes(&self, shared: &SharedController, key: &ObjectKey) -> bool {
        if shared.writes.is_empty() {
            return true;
        }
        let relations = shared.relations();
        let has_seen = |write: &crate::own_writes::OwnWrite| {
            // A cache that does not follow the server may never show it; fresh reads then ask the
            // server.
            let is_seen = |relation: &Arc<dyn Relation>| relation.is_adrift() || relation.has_seen(write);
            let is_seen = relations.get(write.relation).is_none_or(is_seen);
            if !is_seen && write.at.elapsed() > self.time_limit {
                tracing::warn!(controller = %shared.name, %key, object = %write.object, "the cache never showed a write");
                return true;
            }
            is_seen
        };
        shared.writes.settle(key, has_seen)
    }

    async fn reconcile(
        &self,
        shared_context: &Arc<SharedContext>,
        claim: Claim<'_, ObjectKey>,
        permit: Option<Permit>,
        place: &mut dyn RunSlot,
    ) {
        let shared = &*shared_context.shared;
        let failures = shared.limiter(&claim, || shared.queue.num_requeues(&claim));
        // The trace of the key ends with this function.
        let (reasons, trace) = shared.pending.take(&claim);
        let context = Context::new(ContextInner {
            key: claim.key().clone(),
            reasons,
            attempt: failures.unwrap_or_default().saturating_add(1),
            reconcile_id: shared.random.next(),
            shared_context: shared_context.clone(),
        });
        let span = span_of(shared, &context, trace.as_ref());
        let is_observed = shared.results.is_observed();
        let kept = (is_observed || self.error_policy.is_some()).then(|| context.clone());
        let began = is_observed.then(Instant::now);
        let active = shared.numbers.as_ref().map(|numbers| numbers.began());
        let observed = self.observer.as_ref();
        let observed = observed.map(|observer| observed_run::begin(&**observer, &shared.name, &context));
        let work = observed.as_ref().map(ObservedReconcile::work);
        let mut run = Run::new(place, context, span.as_ref(), work);
        let ended = match (&permit, self.timeout) {
            _ if shared.is_undecodable(&claim) => Some(Err(ReconcileFailure::Undecodable)),
            (None, None) => Some(ended((&mut run).await)),
            (permit, limit) => while_permitted(permit.as_ref(), within(limit, &mut run)).await,
        };
        // The future of a timed-out run must be dropped before its key is released.
        drop(run);
        drop(active);
        let _entered = span.as_ref().map(Span::enter);
        if let (Some(observed), Some(ended)) = (observed, &ended) {
            observed_run::end(observed, ended);
        }
        match ended {
            Some(ended) => {
                let ended = ended.map_err(|failure| {
                    let action = action_after(&failure, self.error_policy.as_ref(), kept.as_ref());
                    (failure, action)
                });
                if let (Some(context), Some(began)) = (&kept, began) {
                    shared.results.publish(&Reconciled::new(context, began.elapsed(), &ended));
                }
                conclude(shared, &claim, failures != Some(0), ended);
            }
            None => {
                tracing::warn!(controller = %shared.name, key = %claim.key(), "dropped: the shard of the key is lost");
                shared.leave(&claim);
            }
        }
    }
}

impl SharedController {
    /// Whether the cache of the main kind could not decode the newest state of this object.
    fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.main().is_some_and(|main| main.is_undecodable(key))
    }

    /// This replica's permission to reconcile `key`: that of the object, or of the request if there
    /// is no main kind.
    fn right(&self, sharding: &Sharding, key: &ObjectKey) -> Permission {
        match self.main() {
            Some(main) => main.right(sharding, key),
            None if self.events.has_main => Permission::Denied,
            None => sharding.permit(key).map_or(Permission::Denied, Permission::Granted),
        }
    }
}

/// The span of a run, below that of its trace; `None` without a subscriber, which is cheaper than a
/// disabled span.
fn span_of(shared: &SharedController, context: &Context, trace: Option<&Span>) -> Option<Span> {
    if !tracing::enabled!(Level::INFO) {
        return None;
    }
    let _trace = trace.map(Span::enter);
    // At info level, so that each log line of a reconciler has the key.
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

fn ended(ended: Result<ReconcileResult, String>) -> Result<Outcome, ReconcileFailure> {
    ended.map_err(ReconcileFailure::Panic)?.map_err(ReconcileFailure::Error)
}

/// Cancels a run that exceeds `limit`, if there is one.
async fn within(limit: Option<Duration>, run: &mut Run<'_>) -> Result<Outcome, ReconcileFailure> {
    match limit {
        Some(limit) => ended(timeout(limit, run).await.map_err(|_| ReconcileFailure::Timeout(limit))?),
        None => ended(run.await),
    }
}

/// Runs `work` while this replica owns the key; `None` if it was lost first, and the work dropped.
async fn while_permitted<R>(permit: Option<&Permit>, work: impl Future<Output = R>) -> Option<R> {
    let Some(permit) = permit else { return Some(work.await) };
    tokio::select! {
        biased;
        () = permit.lost() => None,
        result = work => Some(result),
    }
}

/// Plans the next step of the key. `has_failed` tells whether the limiter has failures to forget:
/// it cannot change while the key is claimed.
fn conclude(
    shared: &SharedController,
    claim: &Claim<'_, ObjectKey>,
    has_failed: bool,
    ended: Result<Outcome, (ReconcileFailure, ErrorAction)>,
) {
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
    let reason = |kind| Reason { source: Str::from_static("reconcile"), object: None, kind };
    match ended {
        Ok(Outcome::Done) => {
            forget();
            shared.succeeded(key);
        }
        Ok(Outcome::Requeue { after, priority }) => {
            let options = priority.map_or(options, |priority| options.priority(priority));
            shared.succeeded(key);
            match after {
                Some(delay) => {
                    forget();
                    shared.enqueue(key.clone(), reason(ReasonKind::Requeued), options.after(delay));
                }
                None => shared.enqueue_limited(key, reason(ReasonKind::Requeued), options),
            }
        }
        Err((failure, action)) => {
            let error = chain(&failure);
            tracing::warn!(controller = %shared.name, %key, error, ?action, "reconcile failed");
            match action {
                ErrorAction::BackOff => {
                    shared.failed(key, error);
                    shared.enqueue_limited(key, reason(ReasonKind::Retried), options);
                }
                ErrorAction::RetryAfter(delay) => {
                    shared.failed(key, error);
                    shared.enqueue(key.clone(), reason(ReasonKind::Retried), options.after(delay));
                }
                ErrorAction::Terminal => {
                    forget();
                    shared.gave_up(key, error);
                }
            }
        }
    }
}
