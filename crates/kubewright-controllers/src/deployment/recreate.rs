//! The Recreate strategy: all old pods end before the first new one is created.

use kubewright_core::Object;

use super::sizes::{active, wanted};
use super::status::is_complete;
use super::{DeploymentRollout, Deployments, Sets};
use crate::error::Error;
use crate::indices;
use crate::pods::is_finished;
use crate::worker::Synced;

impl Deployments {
    /// Takes the next step.
    #[doc(alias = "rolloutRecreate")]
    pub(super) async fn recreate(&self, rollout: &mut DeploymentRollout) -> Synced {
        let mut sets = self.classify(rollout, false).await?;
        if self.empty_old(rollout, &sets).await? || self.are_old_pods_left(&sets) {
            return self.update_status(rollout, &sets).await;
        }
        if sets.new.is_none() {
            sets = self.classify(rollout, true).await?;
        }
        self.grow_new(rollout, &sets).await?;
        if rollout.deployment.status.as_ref().is_some_and(|status| is_complete(rollout, status)) {
            self.trim_history(rollout, &sets.old).await?;
        }
        self.update_status(rollout, &sets).await
    }

    async fn empty_old(&self, rollout: &DeploymentRollout, sets: &Sets) -> Result<bool, Error> {
        let mut changed = false;
        for set in active(&sets.old).iter().filter(|set| wanted(set) > 0) {
            changed |= self.resize(rollout, set, 0).await?.is_some();
        }
        Ok(changed)
    }

    /// Whether pods of old sets still run, including terminating ones, or the status of an old set
    /// says so. Otherwise the status of the deployment would count old and new pods together.
    #[doc(alias = "oldPodsRunning")]
    fn are_old_pods_left(&self, sets: &Sets) -> bool {
        if sets.old.iter().any(|set| set.status.as_ref().is_some_and(|status| status.replicas > 0)) {
            return true;
        }
        let mut pods = sets.old.iter().flat_map(|set| indices::controlled_by(&self.pods, set.uid()));
        pods.any(|pod| !is_finished(&pod))
    }
}
