//! Annotations of deployments and their replica sets.

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_core::{Map, Object, Str};

use super::DeploymentRollout;
use super::sizes::max_surge;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum length of a set's revision history.
const MAX_HISTORY: usize = 2000;

/// The revision of an object; 0 if it has none.
#[doc(alias = "Revision")]
pub(super) fn revision(object: &impl Object) -> i64 {
    object.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The deployment's replicas when this set was last sized.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    set.annotations().get(DESIRED_REPLICAS)?.parse().ok()
}

/// The maximum replicas when this set was last sized.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    set.annotations().get(MAX_REPLICAS)?.parse().ok()
}

/// Records the deployment's size; returns whether it changed.
#[doc(alias = "SetReplicasAnnotations")]
pub(super) fn set_replicas(annotations: &mut Map<Str>, rollout: &DeploymentRollout) -> bool {
    let most = rollout.replicas() + max_surge(&rollout.spec);
    let desired = put(annotations, DESIRED_REPLICAS, rollout.replicas().to_string());
    put(annotations, MAX_REPLICAS, most.to_string()) || desired
}

/// Copies the deployment's annotations and revision to the new set; returns whether anything
/// changed.
#[doc(alias = "SetNewReplicaSetAnnotations")]
pub(super) fn copy_to_set(deployment: &Deployment, annotations: &mut Map<Str>, new_revision: i64) -> bool {
    let mut changed = false;
    for (key, value) in deployment.annotations().iter().filter(|(key, _)| is_copied(key)) {
        changed |= put(annotations, key, value);
    }
    let written = annotations.get(REVISION).map(|text| text.to_string());
    let old_revision = written.as_deref().and_then(|text| text.parse::<i64>().ok());
    if old_revision.unwrap_or_default() < new_revision {
        changed |= put(annotations, REVISION, new_revision.to_string());
        // A set that becomes the newest again keeps its previous revisions.
        if let Some(old) = written.filter(|_| old_revision.is_some()) {
            let history = annotations.get(REVISION_HISTORY).map_or("", |text| text.as_str());
            put(annotations, REVISION_HISTORY, append_history(history, &old));
        }
    }
    changed
}

/// Copies the annotations of a set that is rolled back to.
pub(super) fn copy_from_set(set: &ReplicaSet, annotations: &mut Map<Str>) {
    annotations.retain(|key, _| !is_copied(key));
    for (key, value) in set.annotations().iter().filter(|(key, _)| is_copied(key)) {
        put(annotations, key, value);
    }
}

/// Sets an annotation; returns whether it changed.
pub(super) fn put(annotations: &mut Map<Str>, key: &str, value: impl Into<Str>) -> bool {
    let value = value.into();
    if annotations.get(key) == Some(&value) {
        return false;
    }
    annotations.insert(key, value);
    true
}

fn is_copied(key: &str) -> bool {
    !matches!(key, LAST_APPLIED | REVISION | REVISION_HISTORY | DESIRED_REPLICAS | MAX_REPLICAS | ROLLBACK_TO)
}

fn append_history(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|text| !text.is_empty()).collect();
    revisions.push(revision);
    // Drops the oldest first.
    while revisions.len() > 1 && revisions.iter().map(|text| text.len() + 1).sum::<usize>() > MAX_HISTORY {
        revisions.remove(0);
    }
    revisions.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rolled_back_set_records_its_revision_history() {
        // DP-2
        let deployment = Deployment::default();
        let mut annotations = Map::from([(REVISION, Str::from("1"))]);
        assert!(copy_to_set(&deployment, &mut annotations, 3));
        assert!(copy_to_set(&deployment, &mut annotations, 5));
        assert!(!copy_to_set(&deployment, &mut annotations, 5));
        assert_eq!(annotations.get(REVISION).unwrap(), "5");
        assert_eq!(annotations.get(REVISION_HISTORY).unwrap(), "1,3");
    }

    #[test]
    fn the_history_is_cut_at_its_beginning() {
        // DP-2
        let mut history = String::new();
        for revision in 0..1000 {
            history = append_history(&history, &revision.to_string());
        }
        assert!(history.len() <= MAX_HISTORY && history.ends_with(",999"), "{}", history.len());
    }
}
