//! Reports the start and the end of a reconcile to an observer.

use kubewright_core::Str;
use kubewright_net::observation::{ObservedReconcile, Observer, ReconcileEnd, ReconcileStart, StartReason};

use super::context::Context;
use super::outcome::{Outcome, ReconcileFailure};
use super::reason::Reason;
use crate::error::chain;

pub(super) fn begin(observer: &dyn Observer, controller: &str, context: &Context) -> ObservedReconcile {
    let reason = |reason: &Reason| StartReason {
        source: reason.source.clone(),
        object: reason.object.clone(),
        kind: Str::from_static(reason.kind.as_str()),
    };
    let start = ReconcileStart {
        controller,
        key: &context.key().to_string(),
        reasons: context.reasons().iter().map(reason).collect(),
        attempt: context.attempt(),
        id: context.random_id(),
    };
    ObservedReconcile::begin(observer, start)
}

pub(super) fn end(observed: ObservedReconcile, ended: &Result<Outcome, ReconcileFailure>) {
    match ended {
        Ok(Outcome::Done) => observed.end(ReconcileEnd::Done),
        Ok(Outcome::Requeue { after, .. }) => observed.end(ReconcileEnd::Requeue(*after)),
        Err(failure) => observed.end(ReconcileEnd::Failed(&chain(failure))),
    }
}
