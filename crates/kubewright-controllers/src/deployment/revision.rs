//! Finds or creates the new replica set of a deployment.

use std::sync::Arc;

use kubewright_api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use kubewright_client::Api;
use kubewright_client::clock;
use kubewright_core::{Object, Str, owner};

use super::annotations::{self, REVISION, revision};
use super::conditions::{self, PROGRESSING};
use super::sizes::{self, sum, wanted};
use super::status::has_progress_deadline;
use super::template::{self, HASH_LABEL};
use super::{DeploymentRollout, Deployments, KIND, Sets};
use crate::error::{Error, is_namespace_terminating};

impl Deployments {
    /// Classifies the sets of a rollout and updates revisions; creates the new set if requested and
    /// missing.
    #[doc(alias = "getAllReplicaSetsAndSyncRevision")]
    pub(super) async fn classify(&self, rollout: &mut DeploymentRollout, may_create: bool) -> Result<Sets, Error> {
        rollout.sets.sort_by(|a, b| by_creation(a, b));
        let is_new = |set: &Arc<ReplicaSet>| template_is(set, &rollout.spec.template);
        let new = rollout.sets.iter().find(|set| is_new(set)).cloned();
        let is_other = |set: &&Arc<ReplicaSet>| new.as_ref().is_none_or(|new| new.uid() != set.uid());
        let old: Vec<_> = rollout.sets.iter().filter(is_other).cloned().collect();
        let next = old.iter().map(|set| revision(&**set)).max().unwrap_or_default() + 1;
        let new = match new {
            Some(set) => Some(self.keep(rollout, set, next).await?),
            None if may_create => Some(self.make(rollout, &old, next).await?),
            None => None,
        };
        Ok(Sets { new, old })
    }

    /// Updates the annotations of the new set, and the revision of the deployment.
    async fn keep(
        &self,
        rollout: &mut DeploymentRollout,
        set: Arc<ReplicaSet>,
        next: i64,
    ) -> Result<Arc<ReplicaSet>, Error> {
        let mut changed = (*set).clone();
        let mut is_changed = annotations::copy_to_set(&rollout.deployment, &mut changed.metadata.annotations, next);
        if let Some(spec) = &mut changed.spec
            && spec.min_ready_seconds.unwrap_or_default() != rollout.spec.min_ready_seconds.unwrap_or_default()
        {
            spec.min_ready_seconds = rollout.spec.min_ready_seconds;
            is_changed = true;
        }
        let set = if is_changed {
            let api = Api::<ReplicaSet>::namespaced(&self.client, set.namespace());
            let changed = api.update(&changed).await?;
            self.own_sets.written(&rollout.deployment.key(), &changed);
            Arc::new(changed)
        } else {
            set
        };
        let reason = ("FoundNewReplicaSet", format!("Found new replica set {:?}", set.name()));
        let is_unknown = conditions::get(rollout.deployment.status.get_or_insert_default(), PROGRESSING).is_none();
        self.note_revision(rollout, &set, is_unknown.then_some(reason)).await?;
        Ok(set)
    }

    async fn make(
        &self,
        rollout: &mut DeploymentRollout,
        old: &[Arc<ReplicaSet>],
        next: i64,
    ) -> Result<Arc<ReplicaSet>, Error> {
        let set = new_set(rollout, old, next);
        let api = Api::<ReplicaSet>::namespaced(&self.client, rollout.deployment.namespace());
        let made = match api.create(&set).await {
            Ok(made) => made,
            Err(error) if error.is_already_exists() => {
                let existing = api.get(set.name()).await?;
                let is_ours = owner::is_controlled_by(&existing.metadata, &rollout.deployment.metadata);
                if is_ours && template_is(&existing, &rollout.spec.template) {
                    // Our own set, which the cache does not show yet.
                    self.note_revision(rollout, &existing, None).await?;
                    return Ok(Arc::new(existing));
                }
                return Err(self.note_collision(rollout, set.name()).await?);
            }
            // Further creations will fail too, and no event can be recorded.
            Err(error) if is_namespace_terminating(&error) => return Err(error.into()),
            Err(error) => {
                let message = format!("Failed to create new replica set {:?}: {error}", set.name());
                if has_progress_deadline(&rollout.spec) {
                    let status = rollout.deployment.status.get_or_insert_default();
                    let failed = "ReplicaSetCreateError";
                    conditions::set(status, conditions::new(PROGRESSING, "False", failed, &message, clock::now()));
                    self.write(rollout).await?;
                }
                self.events.warning(&rollout.deployment, "ReplicaSetCreateError", message);
                return Err(error.into());
            }
        };
        self.own_sets.written(&rollout.deployment.key(), &made);
        let size = wanted(&made);
        if size > 0 {
            let message = format!("Scaled up replica set {} from 0 to {size}", made.name());
            self.events.normal(&rollout.deployment, "ScalingReplicaSet", message);
        }
        let reason = ("NewReplicaSetCreated", format!("Created new replica set {:?}", made.name()));
        self.note_revision(rollout, &made, Some(reason)).await?;
        Ok(Arc::new(made))
    }

    /// Records a hash collision with another template; the next attempt uses another hash.
    async fn note_collision(&self, rollout: &mut DeploymentRollout, name: &str) -> Result<Error, Error> {
        let status = rollout.deployment.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or_default() + 1);
        self.write(rollout).await?;
        Ok(Error::HashCollision { name: name.into() })
    }

    /// Writes the set's revision and a progress condition to the deployment if they changed.
    async fn note_revision(
        &self,
        rollout: &mut DeploymentRollout,
        set: &ReplicaSet,
        reason: Option<(&str, String)>,
    ) -> Result<(), Error> {
        let number = set.annotations().get(REVISION).unwrap_or_default();
        let mut is_changed = annotations::put(&mut rollout.deployment.metadata.annotations, REVISION, number);
        if let Some((reason, message)) = reason
            && has_progress_deadline(&rollout.spec)
        {
            let status = rollout.deployment.status.get_or_insert_default();
            conditions::set(status, conditions::new(PROGRESSING, "True", reason, &message, clock::now()));
            is_changed = true;
        }
        if is_changed {
            self.write(rollout).await?;
        }
        Ok(())
    }

    /// Writes status and annotations of the deployment, and continues with the server's response.
    pub(super) async fn write(&self, rollout: &mut DeploymentRollout) -> Result<(), Error> {
        let api = Api::<Deployment>::namespaced(&self.client, rollout.deployment.namespace());
        rollout.deployment = api.update_status(&rollout.deployment).await?;
        self.own_deployments.written(&rollout.deployment.key(), &rollout.deployment);
        Ok(())
    }
}

fn new_set(rollout: &DeploymentRollout, old: &[Arc<ReplicaSet>], next: i64) -> ReplicaSet {
    let deployment = &rollout.deployment;
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash: Str = template::hash(&rollout.spec.template, collisions).into();
    let mut template = rollout.spec.template.clone();
    template.metadata.labels.insert(HASH_LABEL, hash.clone());
    let mut selector = rollout.spec.selector.clone();
    selector.match_labels.insert(HASH_LABEL, hash.clone());

    let mut set = ReplicaSet::default();
    set.metadata.name = Some(format!("{}-{hash}", deployment.name()).into());
    set.metadata.namespace = deployment.metadata.namespace.clone();
    set.metadata.labels = template.metadata.labels.clone();
    set.metadata.owner_references = [owner::new_controller_ref(&deployment.metadata, &KIND)].into();
    annotations::copy_to_set(deployment, &mut set.metadata.annotations, next);
    annotations::set_replicas(&mut set.metadata.annotations, rollout);
    set.spec = Some(ReplicaSetSpec {
        replicas: Some(sizes::of_new_set(&rollout.spec, sum(old, wanted), 0)),
        min_ready_seconds: rollout.spec.min_ready_seconds,
        selector,
        template: Some(template.into()),
    });
    set
}

/// Whether a set has this template.
pub(super) fn template_is(set: &ReplicaSet, template: &kubewright_api::core::v1::PodTemplateSpec) -> bool {
    let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    own.is_some_and(|own| template::are_equal(own, template))
}

/// Oldest first.
pub(super) fn by_creation(a: &ReplicaSet, b: &ReplicaSet) -> std::cmp::Ordering {
    a.creation_timestamp().cmp(&b.creation_timestamp()).then_with(|| a.name().cmp(b.name()))
}
