//! The status of a deployment: counts, conditions and progress.

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetStatus};
use kubewright_client::clock;
use kubewright_core::{Object, Time};

use super::conditions::{self, AVAILABLE, NEW_SET_AVAILABLE, PAUSED, PROGRESSING, REPLICA_FAILURE, TIMED_OUT};
use super::sizes::{available, max_unavailable, sum, wanted};
use super::{DeploymentRollout, Deployments, Sets};
use crate::error::Error;
use crate::worker::Synced;

/// Whether the deployment has a progress deadline.
pub(super) fn has_progress_deadline(spec: &DeploymentSpec) -> bool {
    spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i32::MAX)
}

/// Whether all replicas are of the new set and available, and no old ones are left.
#[doc(alias = "DeploymentComplete")]
pub(super) fn is_complete(rollout: &DeploymentRollout, status: &DeploymentStatus) -> bool {
    let replicas = rollout.replicas();
    status.updated_replicas.unwrap_or_default() == replicas
        && status.replicas.unwrap_or_default() == replicas
        && status.available_replicas.unwrap_or_default() == replicas
        && status.observed_generation >= rollout.deployment.generation()
}

impl Deployments {
    /// Records that a rollout is paused or resumed, so that a pause does not count as a lack of
    /// progress.
    #[doc(alias = "checkPausedConditions")]
    pub(super) async fn note_pause(&self, rollout: &mut DeploymentRollout) -> Result<(), Error> {
        if !has_progress_deadline(&rollout.spec) {
            return Ok(());
        }
        let is_paused = rollout.is_paused();
        let status = rollout.deployment.status.get_or_insert_default();
        let reason = conditions::get(status, PROGRESSING).and_then(|condition| condition.reason.as_deref());
        if reason == Some(TIMED_OUT) {
            return Ok(());
        }
        let (reason, message) = match (is_paused, reason == Some(PAUSED)) {
            (true, false) => (PAUSED, "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(()),
        };
        conditions::set(status, conditions::new(PROGRESSING, "Unknown", reason, message, clock::now()));
        self.write(rollout).await
    }

    /// Only records the observed generation.
    pub(super) async fn observe(&self, rollout: &DeploymentRollout) -> Synced {
        let mut changed =
            DeploymentRollout { deployment: rollout.deployment.clone(), spec: rollout.spec.clone(), sets: Vec::new() };
        let status = changed.deployment.status.get_or_insert_default();
        if status.observed_generation < rollout.deployment.metadata.generation {
            status.observed_generation = rollout.deployment.metadata.generation;
            self.write(&mut changed).await?;
        }
        Ok(None)
    }

    /// Updates the counts of a deployment that is being deleted.
    pub(super) async fn update_counts_of_deleted(&self, rollout: &mut DeploymentRollout) -> Synced {
        let sets = self.classify(rollout, false).await?;
        self.update_counts(rollout, &sets).await
    }

    /// Updates the counts.
    #[doc(alias = "syncDeploymentStatus")]
    pub(super) async fn update_counts(&self, rollout: &mut DeploymentRollout, sets: &Sets) -> Synced {
        let status = calculate(rollout, sets, clock::now());
        if rollout.deployment.status.as_ref() != Some(&status) {
            rollout.deployment.status = Some(status);
            self.write(rollout).await?;
        }
        Ok(None)
    }

    /// Updates counts and progress; returns when the deadline is to be checked.
    #[doc(alias = "syncRolloutStatus")]
    pub(super) async fn update_status(&self, rollout: &mut DeploymentRollout, sets: &Sets) -> Synced {
        let now = clock::now();
        let mut status = calculate(rollout, sets, now);
        note_progress(rollout, sets, &mut status, now);
        let failure = sets.new.iter().chain(&sets.old).find_map(|set| failure_of(set));
        match failure {
            Some((reason, message)) => {
                conditions::set(&mut status, conditions::new(REPLICA_FAILURE, "True", &reason, &message, now));
            }
            None => conditions::remove(&mut status, REPLICA_FAILURE),
        }
        let again = until_deadline(rollout, &status, now);
        if rollout.deployment.status.as_ref() != Some(&status) {
            rollout.deployment.status = Some(status);
            self.write(rollout).await?;
        }
        Ok(again)
    }
}

/// Computes the counts, and whether enough replicas are available.
fn calculate(rollout: &DeploymentRollout, sets: &Sets, now: Time) -> DeploymentStatus {
    let all = sets.all();
    let of = |pick: fn(&ReplicaSetStatus) -> i32| move |set: &ReplicaSet| set.status.as_ref().map_or(0, pick);
    let told = |count: i32| (count != 0).then_some(count);
    let replicas = of(|status| status.replicas);
    let new: Vec<Arc<ReplicaSet>> = sets.new.iter().cloned().collect();
    let are_available = sum(&all, available);
    let mut status = rollout.deployment.status.clone().unwrap_or_default();
    status.observed_generation = rollout.deployment.generation();
    status.replicas = told(sum(&all, replicas));
    status.updated_replicas = told(sum(&new, replicas));
    status.ready_replicas = told(sum(&all, of(|status| status.ready_replicas.unwrap_or_default())));
    status.available_replicas = told(are_available);
    status.unavailable_replicas = told((sum(&all, wanted) - are_available).max(0));
    status.terminating_replicas = Some(sum(&all, of(|status| status.terminating_replicas.unwrap_or_default())));
    let (is_available, reason, message) = if are_available >= rollout.replicas() - max_unavailable(&rollout.spec) {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut status, conditions::new(AVAILABLE, is_available, reason, message, now));
    status
}

/// Sets the progress condition.
fn note_progress(rollout: &DeploymentRollout, sets: &Sets, status: &mut DeploymentStatus, now: Time) {
    if !has_progress_deadline(&rollout.spec) {
        conditions::remove(status, PROGRESSING);
        return;
    }
    let current = conditions::get(status, PROGRESSING).cloned();
    let is_done = current.as_ref().is_some_and(|condition| condition.reason.as_deref() == Some(NEW_SET_AVAILABLE));
    if is_done && status.replicas == status.updated_replicas {
        return;
    }
    let who = match &sets.new {
        Some(new) => format!("ReplicaSet {:?}", new.name()),
        None => format!("Deployment {:?}", rollout.deployment.name()),
    };
    if is_complete(rollout, status) {
        let message = format!("{who} has successfully progressed.");
        conditions::set(status, conditions::new(PROGRESSING, "True", NEW_SET_AVAILABLE, &message, now));
    } else if is_progressing(rollout, status) {
        let message = format!("{who} is progressing.");
        let mut condition = conditions::new(PROGRESSING, "True", "ReplicaSetUpdated", &message, now);
        // Each step updates the time of the condition, even if nothing else changes.
        if let Some(current) = current.filter(|current| current.status == "True") {
            condition.last_transition_time = current.last_transition_time;
        }
        conditions::remove(status, PROGRESSING);
        status.conditions.push(condition);
    } else if is_stuck(rollout, status, now) {
        let message = format!("{who} has timed out progressing.");
        conditions::set(status, conditions::new(PROGRESSING, "False", TIMED_OUT, &message, now));
    }
}

/// Whether any count has improved.
#[doc(alias = "DeploymentProgressing")]
fn is_progressing(rollout: &DeploymentRollout, new: &DeploymentStatus) -> bool {
    let nothing = DeploymentStatus::default();
    let old = rollout.deployment.status.as_ref().unwrap_or(&nothing);
    let count = |number: Option<i32>| number.unwrap_or_default();
    let outdated = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(new.updated_replicas) > count(old.updated_replicas)
        || outdated(new) < outdated(old)
        || count(new.ready_replicas) > count(old.ready_replicas)
        || count(new.available_replicas) > count(old.available_replicas)
}

/// Whether the deadline has passed without progress.
#[doc(alias = "DeploymentTimedOut")]
fn is_stuck(rollout: &DeploymentRollout, status: &DeploymentStatus, now: Time) -> bool {
    let Some(condition) = conditions::get(status, PROGRESSING) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_SET_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => deadline(rollout, status).is_some_and(|deadline| now > deadline),
    }
}

fn deadline(rollout: &DeploymentRollout, status: &DeploymentStatus) -> Option<Time> {
    let since = conditions::get(status, PROGRESSING)?.last_update_time?;
    let seconds = u64::try_from(rollout.spec.progress_deadline_seconds?).ok()?;
    since.checked_add(Duration::from_secs(seconds))
}

/// When to check the deadline; a second late, since times in objects have no fractions.
#[doc(alias = "requeueStuckDeployment")]
fn until_deadline(rollout: &DeploymentRollout, status: &DeploymentStatus, now: Time) -> Option<Duration> {
    let condition = conditions::get(status, PROGRESSING).filter(|_| has_progress_deadline(&rollout.spec))?;
    if is_complete(rollout, status) || condition.reason.as_deref() == Some(TIMED_OUT) {
        return None;
    }
    let left = deadline(rollout, status)?.duration_since(now).unwrap_or_default();
    Some(left + Duration::from_secs(1))
}

fn failure_of(set: &ReplicaSet) -> Option<(String, String)> {
    let conditions = &set.status.as_ref()?.conditions;
    let failure =
        conditions.iter().find(|condition| condition.type_ == REPLICA_FAILURE && condition.status == "True")?;
    let text = |text: &Option<kubewright_core::Str>| text.as_deref().unwrap_or_default().to_owned();
    Some((text(&failure.reason), text(&failure.message)))
}
