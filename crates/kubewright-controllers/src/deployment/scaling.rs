//! Resizes replica sets: one, or several in proportion.

use std::cmp::Reverse;
use std::sync::Arc;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_client::Api;
use kubewright_core::Object;

use super::annotations::{desired_replicas, max_replicas, set_replicas};
use super::sizes::{active, available, max_surge, sum, wanted};
use super::{DeploymentRollout, Deployments, Sets, is_recreate};
use crate::error::Error;
use crate::worker::Synced;

/// Whether the deployment was resized since its sets were last sized.
#[doc(alias = "isScalingEvent")]
pub(super) fn is_scaling(rollout: &DeploymentRollout) -> bool {
    active(&rollout.sets).iter().filter_map(|set| desired_replicas(set)).any(|size| size != rollout.replicas())
}

impl Deployments {
    /// Resizes sets without continuing a rollout.
    #[doc(alias = "sync")]
    pub(super) async fn scale_only(&self, rollout: &mut DeploymentRollout) -> Synced {
        let sets = self.classify(rollout, false).await?;
        self.scale(rollout, &sets).await?;
        if rollout.is_paused() {
            self.trim_history(rollout, &sets.old).await?;
        }
        self.update_counts(rollout, &sets).await
    }

    async fn scale(&self, rollout: &DeploymentRollout, sets: &Sets) -> Result<(), Error> {
        if let Some(only) = active_or_latest(sets) {
            // Also if only its annotations are stale: otherwise it would count as being scaled
            // forever.
            self.resize(rollout, &only, rollout.replicas()).await?;
            return Ok(());
        }
        if sets.new.as_ref().is_some_and(|new| is_saturated(rollout, new)) {
            for set in active(&sets.old) {
                self.resize(rollout, &set, 0).await?;
            }
            return Ok(());
        }
        if !is_recreate(&rollout.spec) {
            for (set, size) in in_proportion(rollout, active(&sets.all())) {
                self.resize(rollout, &set, size).await?;
            }
        }
        Ok(())
    }

    /// Resizes a set and records the deployment's size; returns the set if it changed.
    #[doc(alias = "scaleReplicaSet")]
    pub(super) async fn resize(
        &self,
        rollout: &DeploymentRollout,
        set: &Arc<ReplicaSet>,
        size: i32,
    ) -> Result<Option<Arc<ReplicaSet>>, Error> {
        let before = wanted(set);
        let mut changed = (**set).clone();
        let is_noted = set_replicas(&mut changed.metadata.annotations, rollout);
        if before == size && !is_noted {
            return Ok(None);
        }
        changed.spec.get_or_insert_default().replicas = Some(size);
        let changed = Api::<ReplicaSet>::namespaced(&self.client, set.namespace()).update(&changed).await?;
        self.own_sets.written(&rollout.deployment.key(), &changed);
        if before != size {
            let direction = if before < size { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {before} to {size}", set.name());
            self.events.normal(&rollout.deployment, "ScalingReplicaSet", message);
        }
        Ok(Some(Arc::new(changed)))
    }
}

/// The only set with replicas, or the newest if none has any; `None` if several have.
fn active_or_latest(sets: &Sets) -> Option<Arc<ReplicaSet>> {
    let mut with_replicas = active(&sets.all());
    match with_replicas.len() {
        0 => sets.new.clone().or_else(|| sets.old.last().cloned()),
        1 => with_replicas.pop(),
        _ => None,
    }
}

/// Whether the new set has its full size, and all of it is available.
fn is_saturated(rollout: &DeploymentRollout, new: &ReplicaSet) -> bool {
    let replicas = rollout.replicas();
    wanted(new) == replicas && desired_replicas(new) == Some(replicas) && available(new) == replicas
}

/// Distributes replicas in proportion; the rounding remainder goes to the largest set.
fn in_proportion(rollout: &DeploymentRollout, mut sets: Vec<Arc<ReplicaSet>>) -> Vec<(Arc<ReplicaSet>, i32)> {
    let replicas = rollout.replicas();
    let allowed = if replicas > 0 { replicas + max_surge(&rollout.spec) } else { 0 };
    let to_add = allowed - sum(&sets, wanted);
    // Largest first; of equal ones the newer grows first, and the older shrinks first.
    if to_add > 0 {
        sets.sort_by_key(|set| (Reverse(wanted(set)), Reverse(set.creation_timestamp())))
    } else {
        sets.sort_by_key(|set| (Reverse(wanted(set)), set.creation_timestamp()))
    }
    let mut added = 0;
    let mut sizes: Vec<i32> = Vec::new();
    for set in &sets {
        let share = share(rollout, set, to_add, added);
        added += share;
        sizes.push(wanted(set) + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    sets.into_iter().zip(sizes).collect()
}

/// The share of this set in `to_add`, after `added` was distributed.
#[doc(alias = "GetReplicaSetProportion")]
fn share(rollout: &DeploymentRollout, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if wanted(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let left = to_add - added;
    let fraction = fraction(rollout, set);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(rollout: &DeploymentRollout, set: &ReplicaSet) -> i32 {
    let size = wanted(set);
    if rollout.replicas() == 0 {
        return -size;
    }
    let most = rollout.replicas() + max_surge(&rollout.spec);
    let told = rollout.deployment.status.as_ref().and_then(|status| status.replicas);
    let before = max_replicas(set).filter(|most| *most > 0).or(told).unwrap_or_default();
    if before == 0 {
        return 0;
    }
    let scaled = f64::from(size) * f64::from(most) / f64::from(before);
    // Sizes of sets fit in 32 bits.
    scaled.round() as i32 - size
}

#[cfg(test)]
mod tests {
    use kubewright_api::apps::v1::{DeploymentSpec, ReplicaSetSpec};
    use kubewright_core::Time;

    use super::*;

    fn sizes_after(replicas: i32, before: i32, sets: &[(i32, i64)]) -> Vec<i32> {
        let old = DeploymentRollout {
            deployment: Default::default(),
            spec: DeploymentSpec { replicas: Some(before), ..rolling_without_surge() },
            sets: Vec::new(),
        };
        let sets = sets.iter().map(|(size, age)| {
            let mut set = ReplicaSet::default();
            set.metadata.name = Some(format!("set-{age}").into());
            set.metadata.creation_timestamp = Time::from_unix(1_700_000_000 - age);
            set_replicas(&mut set.metadata.annotations, &old);
            set.spec = Some(ReplicaSetSpec { replicas: Some(*size), ..Default::default() });
            Arc::new(set)
        });
        let spec = DeploymentSpec { replicas: Some(replicas), ..rolling_without_surge() };
        let rollout = DeploymentRollout { deployment: Default::default(), spec, sets: Vec::new() };
        let mut sizes = in_proportion(&rollout, sets.collect());
        sizes.sort_by_key(|(set, _)| Reverse(set.creation_timestamp()));
        sizes.into_iter().map(|(_, size)| size).collect()
    }

    fn rolling_without_surge() -> DeploymentSpec {
        let rolling = kubewright_api::apps::v1::RollingUpdateDeployment {
            max_surge: Some(0.into()),
            max_unavailable: Some(1.into()),
        };
        let strategy =
            kubewright_api::apps::v1::DeploymentStrategy { rolling_update: Some(rolling.into()), ..Default::default() };
        DeploymentSpec { strategy: Some(strategy.into()), ..Default::default() }
    }

    #[test]
    fn scaling_a_deployment_scales_its_sets_in_proportion() {
        // DP-5: sizes of the newest set first.
        for (replicas, before, sizes, want) in [
            (12, 10, &[5, 5][..], &[6, 6][..]),
            (10, 12, &[6, 6], &[5, 5]),
            (20, 10, &[3, 7], &[6, 14]),
            (5, 10, &[7, 3], &[3, 2]),
            (5, 10, &[5, 3, 2], &[2, 2, 1]),
            (12, 10, &[5, 3, 2], &[6, 4, 2]),
            (0, 10, &[3, 3, 4], &[0, 0, 0]),
        ] {
            let sets: Vec<(i32, i64)> = sizes.iter().zip(0..).map(|(size, age)| (*size, age)).collect();
            let got = sizes_after(replicas, before, &sets);
            assert_eq!(got, want, "{before} to {replicas} over {sizes:?}");
            assert_eq!(got.iter().sum::<i32>(), replicas);
        }
    }
}
