//! The status of a stateful set.

use std::sync::Arc;

use kubewright_api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::{Object, Str, Time};

use super::StatefulSets;
use super::pod::{is_available, revision};
use crate::error::Error;
use crate::pods::{is_ready, phase};

/// Computes the status from a set's pods.
pub(super) fn calculate(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    pods: &[Arc<Pod>],
    (current, update): (&str, &str),
    collisions: i32,
    now: Time,
) -> StatefulSetStatus {
    let count = |matches: &dyn Fn(&Pod) -> bool| {
        let count = pods.iter().filter(|pod| matches(pod)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let is_of = |pod: &Pod, name: &str| !pod.is_being_deleted() && revision(pod) == name;
    // Zero is omitted, as a Go server does.
    let told = |count: i32| (count != 0).then_some(count);
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(&|_| true),
        ready_replicas: told(count(&|pod| phase(pod) == "Running" && is_ready(pod))),
        available_replicas: Some(count(&|pod| is_available(pod, spec, now))),
        current_replicas: told(count(&|pod| is_of(pod, current))),
        updated_replicas: told(count(&|pod| is_of(pod, update))),
        current_revision: Some(Str::from(current)),
        update_revision: Some(Str::from(update)),
        collision_count: Some(collisions),
        ..set.status.clone().unwrap_or_default()
    };
    if is_complete(spec, &status) {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    status
}

/// Whether all wanted pods are of the update revision, and ready.
#[doc(alias = "completeRollingUpdate")]
fn is_complete(spec: &StatefulSetSpec, status: &StatefulSetStatus) -> bool {
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    let wanted = spec.replicas.unwrap_or(1);
    strategy.is_none_or(|strategy| strategy == "RollingUpdate")
        && status.replicas == wanted
        && status.updated_replicas.unwrap_or_default() == wanted
        && status.ready_replicas.unwrap_or_default() == wanted
}

impl StatefulSets {
    /// Writes the status if it changed.
    pub(super) async fn write_status(&self, set: &StatefulSet, status: StatefulSetStatus) -> Result<(), Error> {
        // Go servers always write this field, and a zero decodes from protobuf as absent.
        let untold = |status: &StatefulSetStatus| StatefulSetStatus {
            available_replicas: status.available_replicas.filter(|count| *count != 0),
            ..status.clone()
        };
        if set.status.as_ref().map(untold) == Some(untold(&status)) {
            return Ok(());
        }
        let changed = StatefulSet { status: Some(status), ..set.clone() };
        match Api::<StatefulSet>::namespaced(&self.client, set.namespace()).update_status(&changed).await {
            Ok(written) => self.own_sets.written(&set.key(), &written),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
