//! Rolling updates: the new set grows and the old ones shrink within the limits.

use std::sync::Arc;

use kubewright_api::apps::v1::ReplicaSet;

use super::revision::by_creation;
use super::sizes::{self, active, available, sum, wanted};
use super::status::is_complete;
use super::{DeploymentRollout, Deployments, Sets};
use crate::error::Error;
use crate::worker::Synced;

impl Deployments {
    /// Takes the next step of a rolling update.
    #[doc(alias = "rolloutRolling")]
    pub(super) async fn roll(&self, rollout: &mut DeploymentRollout) -> Synced {
        let sets = self.classify(rollout, true).await?;
        if self.grow_new(rollout, &sets).await? || self.shrink_old(rollout, &sets).await? {
            // The changed set queues the key again.
            return self.update_status(rollout, &sets).await;
        }
        if rollout.deployment.status.as_ref().is_some_and(|status| is_complete(rollout, status)) {
            self.trim_history(rollout, &sets.old).await?;
        }
        self.update_status(rollout, &sets).await
    }

    /// Scales the new set up within the limits; returns whether it changed.
    #[doc(alias = "reconcileNewReplicaSet")]
    pub(super) async fn grow_new(&self, rollout: &DeploymentRollout, sets: &Sets) -> Result<bool, Error> {
        let Some(new) = &sets.new else { return Ok(false) };
        let (current, replicas) = (wanted(new), rollout.replicas());
        let size = match current.cmp(&replicas) {
            std::cmp::Ordering::Equal => return Ok(false),
            std::cmp::Ordering::Greater => replicas,
            std::cmp::Ordering::Less => sizes::of_new_set(&rollout.spec, sum(&sets.all(), wanted), current),
        };
        Ok(self.resize(rollout, new, size).await?.is_some())
    }

    /// Scales old sets down within the limits; returns whether any changed.
    #[doc(alias = "reconcileOldReplicaSets")]
    async fn shrink_old(&self, rollout: &DeploymentRollout, sets: &Sets) -> Result<bool, Error> {
        let mut old = active(&sets.old);
        let Some(new) = sets.new.as_ref().filter(|_| !old.is_empty()) else { return Ok(false) };
        let minimum = rollout.replicas() - sizes::max_unavailable(&rollout.spec);
        let unavailable_of_new = wanted(new) - available(new);
        let budget = sum(&sets.all(), wanted) - minimum - unavailable_of_new;
        if budget <= 0 {
            return Ok(false);
        }
        old.sort_by(|a, b| by_creation(a, b));
        let unhealthy = self.take(rollout, &mut old, budget, |set| wanted(set) - available(set)).await?;
        // Available replicas beyond the minimum. A status may still count replicas that were
        // already removed, which client-go's controller counts twice.
        let remaining = sum(&old, |set| available(set).min(wanted(set)));
        let spare = remaining + available(new) - minimum;
        let healthy = if spare > 0 { self.take(rollout, &mut old, spare, wanted).await? } else { 0 };
        Ok(unhealthy + healthy > 0)
    }

    /// Removes up to `budget` replicas from these sets, oldest first, from each as many as `of`
    /// returns.
    async fn take(
        &self,
        rollout: &DeploymentRollout,
        sets: &mut [Arc<ReplicaSet>],
        budget: i32,
        of: impl Fn(&ReplicaSet) -> i32,
    ) -> Result<i32, Error> {
        let mut taken = 0;
        for set in sets {
            let count = of(set).min(wanted(set)).min(budget - taken);
            if count <= 0 {
                continue;
            }
            if let Some(resized) = self.resize(rollout, set, wanted(set) - count).await? {
                *set = resized;
            }
            taken += count;
        }
        Ok(taken)
    }
}
