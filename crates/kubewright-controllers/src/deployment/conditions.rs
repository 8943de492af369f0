//! The conditions of a deployment.

use kubewright_api::apps::v1::{DeploymentCondition, DeploymentStatus};
use kubewright_core::Time;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const PAUSED: &str = "DeploymentPaused";

/// The condition of this type.
pub(super) fn get<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// A new condition.
pub(super) fn new(type_: &str, status: &str, reason: &str, message: &str, now: Time) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.into(),
        status: status.into(),
        last_update_time: Some(now),
        last_transition_time: Some(now),
        reason: Some(reason.into()),
        message: Some(message.into()),
    }
}

/// Sets a condition, unless its status and reason are unchanged.
#[doc(alias = "SetDeploymentCondition")]
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(current) = get(status, &condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time;
        }
    }
    remove(status, &condition.type_.clone());
    status.conditions.push(condition);
}

/// Removes the condition of this type.
pub(super) fn remove(status: &mut DeploymentStatus, type_: &str) {
    status.conditions.retain(|condition| condition.type_ != type_);
}
