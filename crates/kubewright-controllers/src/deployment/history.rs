//! Rollbacks and the revision history limit.

use std::sync::Arc;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_client::Api;
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;

use super::annotations::{ROLLBACK_TO, copy_from_set, revision};
use super::revision::template_is;
use super::sizes::wanted;
use super::template::HASH_LABEL;
use super::{DeploymentRollout, Deployments};
use crate::error::Error;

impl Deployments {
    /// Rolls back to an older revision if an annotation requests it; returns whether it does.
    #[doc(alias = "rollback")]
    pub(super) async fn roll_back(&self, rollout: &mut DeploymentRollout) -> Result<bool, Error> {
        let Some(text) = rollout.deployment.metadata.annotations.get(ROLLBACK_TO) else { return Ok(false) };
        let asked: i64 = text.parse().unwrap_or_default();
        let mut changed = rollout.deployment.clone();
        changed.metadata.annotations.remove(ROLLBACK_TO);
        match find_revision(&rollout.sets, asked) {
            Some(set) => {
                let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
                if template_is(set, &rollout.spec.template) {
                    let message = format!("The rollback revision contains the same template as {:?}", changed.name());
                    self.events.warning(&rollout.deployment, "DeploymentRollbackTemplateUnchanged", message);
                } else {
                    let spec = changed.spec.get_or_insert_default();
                    spec.template = template.into_inner();
                    spec.template.metadata.labels.remove(HASH_LABEL);
                    copy_from_set(set, &mut changed.metadata.annotations);
                    let message =
                        format!("Rolled back deployment {:?} to revision {}", changed.name(), revision(&**set));
                    self.events.normal(&rollout.deployment, "DeploymentRollback", message);
                }
            }
            None => {
                let message = "Unable to find the revision to rollback to.";
                self.events.warning(&rollout.deployment, "DeploymentRollbackRevisionNotFound", message);
            }
        }
        let changed = Api::<Deployment>::namespaced(&self.client, changed.namespace()).update(&changed).await?;
        self.own_deployments.written(&changed.key(), &changed);
        Ok(true)
    }

    /// Deletes the oldest empty sets beyond the limit.
    #[doc(alias = "cleanupDeployment")]
    pub(super) async fn trim_history(&self, rollout: &DeploymentRollout, old: &[Arc<ReplicaSet>]) -> Result<(), Error> {
        let Some(limit) = rollout.spec.revision_history_limit.and_then(|limit| usize::try_from(limit).ok()) else {
            return Ok(());
        };
        let mut sets: Vec<_> = old.iter().filter(|set| !set.is_being_deleted()).collect();
        sets.sort_by_key(|set| revision(&***set));
        let surplus = sets.len().saturating_sub(limit);
        for set in sets.into_iter().take(surplus).filter(|set| is_empty(set)) {
            let api = Api::<ReplicaSet>::namespaced(&self.client, set.namespace());
            match api.delete_with(set.name(), &DeleteOptions::default().uid(set.uid())).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The set of this revision; 0 means the previous one.
fn find_revision(sets: &[Arc<ReplicaSet>], asked: i64) -> Option<&Arc<ReplicaSet>> {
    let mut sets: Vec<_> = sets.iter().collect();
    sets.sort_by_key(|set| revision(&***set));
    match asked {
        0 => sets.len().checked_sub(2).map(|index| sets[index]),
        asked => sets.into_iter().find(|set| revision(&***set) == asked),
    }
}

fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.as_ref();
    let is_observed = set.generation() <= status.and_then(|status| status.observed_generation);
    wanted(set) == 0 && is_observed && status.is_none_or(|status| status.replicas == 0)
}
