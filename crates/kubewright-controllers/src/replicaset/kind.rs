//! Replica sets and replication controllers behind one trait.
//!
//! The spec and status of a replication controller are converted to those of a replica set and
//! back.

use kubewright_api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use kubewright_api::core::v1::{ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus};
use kubewright_client::HasStatus;
use kubewright_core::meta::v1::{LabelSelector, ObjectMeta};
use kubewright_core::{GroupVersionKind, Kind, Namespaced};

/// A kind with replicas of a pod template.
pub(super) trait Replicated: Kind<Scope = Namespaced> + HasStatus {
    /// The kind in owner references.
    const KIND: GroupVersionKind;
    /// The controller name in logs and metrics.
    const NAME: &'static str;
    /// The component in events.
    const COMPONENT: &'static str;

    fn metadata(&self) -> &ObjectMeta;

    fn spec(&self) -> Option<ReplicaSetSpec>;

    fn status(&self) -> Option<ReplicaSetStatus>;

    fn set_status(&mut self, status: ReplicaSetStatus);
}

impl Replicated for ReplicaSet {
    const KIND: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "ReplicaSet");
    const NAME: &'static str = "replicaset";
    const COMPONENT: &'static str = "replicaset-controller";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn spec(&self) -> Option<ReplicaSetSpec> {
        self.spec.clone()
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        self.status.clone()
    }

    fn set_status(&mut self, status: ReplicaSetStatus) {
        self.status = Some(status);
    }
}

impl Replicated for ReplicationController {
    const KIND: GroupVersionKind = GroupVersionKind::from_static("", "v1", "ReplicationController");
    const NAME: &'static str = "replicationcontroller";
    const COMPONENT: &'static str = "replication-controller";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn spec(&self) -> Option<ReplicaSetSpec> {
        let spec = self.spec.clone()?;
        Some(ReplicaSetSpec {
            replicas: spec.replicas,
            min_ready_seconds: spec.min_ready_seconds,
            selector: LabelSelector { match_labels: spec.selector, ..Default::default() },
            template: spec.template,
        })
    }

    fn status(&self) -> Option<ReplicaSetStatus> {
        let status = self.status.clone()?;
        let condition = |one: &ReplicationControllerCondition| ReplicaSetCondition {
            type_: one.type_.clone(),
            status: one.status.clone(),
            last_transition_time: one.last_transition_time,
            reason: one.reason.clone(),
            message: one.message.clone(),
        };
        Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            terminating_replicas: None,
            observed_generation: status.observed_generation,
            conditions: status.conditions.iter().map(condition).collect(),
        })
    }

    /// There is no field for the number of terminating pods.
    fn set_status(&mut self, status: ReplicaSetStatus) {
        let condition = |one: &ReplicaSetCondition| ReplicationControllerCondition {
            type_: one.type_.clone(),
            status: one.status.clone(),
            last_transition_time: one.last_transition_time,
            reason: one.reason.clone(),
            message: one.message.clone(),
        };
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: status.fully_labeled_replicas,
            ready_replicas: status.ready_replicas,
            available_replicas: status.available_replicas,
            observed_generation: status.observed_generation,
            conditions: status.conditions.iter().map(condition).collect(),
        });
    }
}
