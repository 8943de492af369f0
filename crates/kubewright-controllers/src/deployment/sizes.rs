//! Sizes and limits of replica sets.

use std::sync::Arc;

use kubewright_api::apps::v1::{DeploymentSpec, ReplicaSet};
use kubewright_core::IntOrString;

use super::is_recreate;

/// The desired replicas of a set.
pub(super) fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().map_or(0, |spec| spec.replicas.unwrap_or(1))
}

/// The available replicas of a set.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default()
}

/// The sum over several sets.
pub(super) fn sum(sets: &[Arc<ReplicaSet>], of: impl Fn(&ReplicaSet) -> i32) -> i32 {
    sets.iter().map(|set| of(set)).sum()
}

/// The sets with desired replicas.
pub(super) fn active(sets: &[Arc<ReplicaSet>]) -> Vec<Arc<ReplicaSet>> {
    sets.iter().filter(|set| wanted(set) > 0).cloned().collect()
}

/// Maximum surge and maximum unavailable.
///
/// Surge is rounded up and unavailability down; if both are zero, one replica may be unavailable,
/// so that the rollout can progress.
#[doc(alias = "ResolveFenceposts")]
pub(super) fn fence_posts(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, replicas: i32) -> (i32, i32) {
    let resolve = |value: Option<&IntOrString>, round_up: bool| {
        let scaled = value.and_then(|value| value.scaled_value_from(i64::from(replicas), round_up).ok());
        scaled.and_then(|scaled| i32::try_from(scaled).ok()).unwrap_or_default()
    };
    match (resolve(surge, true), resolve(unavailable, false)) {
        (0, 0) => (0, 1),
        both => both,
    }
}

fn limits(spec: &DeploymentSpec) -> (i32, i32) {
    let rolling = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    fence_posts(surge, unavailable, spec.replicas.unwrap_or(1))
}

/// Maximum surge of a deployment.
pub(super) fn max_surge(spec: &DeploymentSpec) -> i32 {
    if is_recreate(spec) { 0 } else { limits(spec).0 }
}

/// Maximum unavailable replicas of a deployment.
pub(super) fn max_unavailable(spec: &DeploymentSpec) -> i32 {
    let replicas = spec.replicas.unwrap_or(1);
    if is_recreate(spec) || replicas == 0 { 0 } else { limits(spec).1.min(replicas) }
}

/// The size to which the new set may grow, with `total` replicas in all sets.
#[doc(alias = "NewRSNewReplicas")]
pub(super) fn of_new_set(spec: &DeploymentSpec, total: i32, current: i32) -> i32 {
    let replicas = spec.replicas.unwrap_or(1);
    if is_recreate(spec) {
        return replicas;
    }
    let room = replicas + max_surge(spec) - total;
    if room <= 0 { current } else { current + room.min(replicas - current) }
}

#[cfg(test)]
mod tests {
    use kubewright_api::apps::v1::{DeploymentStrategy, RollingUpdateDeployment};

    use super::*;

    fn spec(replicas: i32, surge: impl Into<IntOrString>, unavailable: impl Into<IntOrString>) -> DeploymentSpec {
        let rolling =
            RollingUpdateDeployment { max_surge: Some(surge.into()), max_unavailable: Some(unavailable.into()) };
        let strategy = DeploymentStrategy { rolling_update: Some(rolling.into()), ..Default::default() };
        DeploymentSpec { replicas: Some(replicas), strategy: Some(strategy.into()), ..Default::default() }
    }

    #[test]
    fn surge_is_rounded_up_and_unavailability_down() {
        // DP-3
        for (surge, unavailable, replicas, want) in [
            ("0%", "0%", 10, (0, 1)),
            ("39%", "39%", 10, (4, 3)),
            ("oops", "39%", 10, (0, 3)),
            ("55%", "urg", 10, (6, 0)),
            ("25%", "25%", 1, (1, 0)),
        ] {
            let got = fence_posts(Some(&surge.into()), Some(&unavailable.into()), replicas);
            assert_eq!(got, want, "{surge} {unavailable}");
        }
    }

    #[test]
    fn a_new_set_grows_up_to_max_surge() {
        // DP-3
        for (replicas, surge, total, current, want) in [
            (10, 0, 10, 5, 5),
            (10, 0, 8, 5, 7),
            (10, 2, 10, 0, 2),
            (10, 2, 12, 4, 4),
            (10, 5, 5, 0, 10),
            (3, 1, 0, 0, 3),
        ] {
            assert_eq!(of_new_set(&spec(replicas, surge, 1), total, current), want, "{replicas} {surge} {total}");
        }
    }

    #[test]
    fn max_unavailable_never_exceeds_the_replicas() {
        // DP-4
        assert_eq!(max_unavailable(&spec(5, 1, 10)), 5);
        assert_eq!(max_unavailable(&spec(0, 1, 10)), 0);
        assert_eq!(max_unavailable(&spec(10, 0, "50%")), 5);
    }
}
