//! The status of a replica set.

use std::sync::Arc;

use kubewright_api::apps::v1::{ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::{Selector, Time};

use super::ReplicaSets;
use super::kind::Replicated;
use crate::claim::selects;
use crate::error::Error;
use crate::pods::{is_ready, until_available};

/// The condition of failed creations or deletions.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Computes the status from a set's pods and the last error.
pub(super) fn calculate(
    set: &impl Replicated,
    spec: &ReplicaSetSpec,
    active: &[Arc<Pod>],
    terminating: usize,
    failure: Option<&Error>,
    now: Time,
) -> ReplicaSetStatus {
    let mut status = set.status().unwrap_or_default();
    let template = spec.template.as_ref().map(|template| template.metadata.labels.clone()).unwrap_or_default();
    let of_template = Selector::from_set(&template).unwrap_or_else(|_| Selector::everything());
    let minimum = spec.min_ready_seconds.unwrap_or_default();
    let count = |matches: &dyn Fn(&Pod) -> bool| number(active.iter().filter(|pod| matches(pod)).count());
    status.replicas = number(active.len());
    // Zero is omitted, as a Go server does.
    status.fully_labeled_replicas = told(count(&|pod| selects(&of_template, pod)));
    status.ready_replicas = told(count(&is_ready));
    status.available_replicas =
        told(count(&|pod| until_available(pod, minimum, now).is_some_and(|wait| wait.is_zero())));
    status.terminating_replicas = Some(number(terminating));
    let has_failure = status.conditions.iter().any(|condition| condition.type_ == REPLICA_FAILURE);
    match failure {
        Some(failure) if !has_failure => {
            let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
            let reason = if active.len() < wanted { "FailedCreate" } else { "FailedDelete" };
            status.conditions.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.into(),
                status: "True".into(),
                last_transition_time: Some(now),
                reason: Some(reason.into()),
                message: Some(failure.event_message().into()),
            });
        }
        None if has_failure => status.conditions.retain(|condition| condition.type_ != REPLICA_FAILURE),
        _ => {}
    }
    status.observed_generation = set.generation();
    status
}

impl<S: Replicated> ReplicaSets<S> {
    /// Writes a changed status; retries once if the cache was stale.
    pub(super) async fn write_status(&self, set: &S, status: ReplicaSetStatus) -> Result<(), Error> {
        let mut changed = set.clone();
        changed.set_status(status.clone());
        // Compared after the conversion: not every kind has all fields.
        if changed.status() == set.status() {
            return Ok(());
        }
        let api = Api::<S>::namespaced(&self.client, set.namespace());
        match api.update_status(&changed).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        let Some(mut fresh) = api.get_opt(set.name()).await? else { return Ok(()) };
        if fresh.uid() == set.uid() {
            fresh.set_status(status);
            api.update_status(&fresh).await?;
        }
        Ok(())
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn told(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}
