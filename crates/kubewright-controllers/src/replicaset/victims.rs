//! Chooses the pods to delete on a scale-down.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Time};

use crate::pods::{is_ready, node_name, phase, ready_since, restarts};

/// The annotation with the deletion cost of a pod.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods to delete first; `related` are the pods for the co-location rank.
#[doc(alias = "getPodsToDelete")]
#[doc(alias = "ActivePodsWithRanks")]
pub(crate) fn choose(mut pods: Vec<Arc<Pod>>, related: &[Arc<Pod>], count: usize, now: Time) -> Vec<Arc<Pod>> {
    if count < pods.len() {
        let mut pods_by_node: HashMap<&str, usize> = HashMap::new();
        for pod in related {
            *pods_by_node.entry(node_name(pod)).or_default() += 1;
        }
        let rank = |pod: &Pod| pods_by_node.get(node_name(pod)).copied().unwrap_or_default();
        pods.sort_by(|a, b| compare(a, b, &rank, now));
    }
    pods.truncate(count);
    pods
}

/// The lesser pod is deleted first.
fn compare(a: &Pod, b: &Pod, rank: &impl Fn(&Pod) -> usize, now: Time) -> Ordering {
    let is_assigned = |pod: &Pod| !node_name(pod).is_empty();
    let order = is_assigned(a)
        .cmp(&is_assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| is_ready(a).cmp(&is_ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| rank(b).cmp(&rank(a)));
    let order = if is_ready(a) && is_ready(b) {
        order.then_with(|| by_age(a, b, ready_since(a), ready_since(b), now))
    } else {
        order
    };
    let order = order.then_with(|| restarts(b).cmp(&restarts(a)));
    order.then_with(|| by_age(a, b, a.creation_timestamp(), b.creation_timestamp(), now))
}

/// Younger first; ages of the same order of magnitude are equal, and the uid decides. Otherwise the
/// pods of one rollout would be deleted in creation order, which often is the order of nodes and
/// zones.
fn by_age(a: &Pod, b: &Pod, since_a: Option<Time>, since_b: Option<Time>, now: Time) -> Ordering {
    let (Some(since_a), Some(since_b)) = (since_a, since_b) else {
        // A missing time counts as now.
        return Reverse(since_a.is_none()).cmp(&Reverse(since_b.is_none()));
    };
    if since_a == since_b {
        return Ordering::Equal;
    }
    let magnitude = |since: Time| now.duration_since(since).unwrap_or_default().as_secs().checked_ilog2();
    magnitude(since_a).cmp(&magnitude(since_b)).then_with(|| a.uid().cmp(b.uid()))
}

fn phase_rank(pod: &Pod) -> u8 {
    match phase(pod) {
        "Pending" | "" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubewright_api::core::v1::{ContainerStatus, PodSpec, PodStatus};

    use super::*;
    use crate::pods::new_condition;

    fn time(seconds: i64) -> Time {
        Time::from_unix(1_700_000_000 + seconds).unwrap()
    }

    fn pod(name: &str, node: &str, phase: &str, ready_since: Option<i64>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.uid = Some(name.into());
        pod.metadata.creation_timestamp = Some(time(0));
        pod.spec = Some(PodSpec { node_name: (!node.is_empty()).then(|| node.into()), ..Default::default() });
        let mut status = PodStatus { phase: Some(phase.into()), ..Default::default() };
        if let Some(since) = ready_since {
            status.conditions.push(new_condition("Ready", true, time(since)));
        }
        pod.status = Some(status);
        pod
    }

    fn first_of(pods: Vec<Pod>) -> String {
        let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
        let now = time(0).checked_add(Duration::from_secs(10_000)).unwrap();
        choose(pods.clone(), &pods, 1, now)[0].name().to_owned()
    }

    #[test]
    fn each_ranking_rule_breaks_ties_of_the_previous_ones() {
        // RS-5
        let ready = |name: &str| pod(name, "n1", "Running", Some(0));
        assert_eq!(first_of(vec![pod("a", "n1", "Pending", None), pod("b", "", "Running", Some(0))]), "b");
        assert_eq!(first_of(vec![pod("a", "n1", "Unknown", None), pod("b", "n1", "Pending", None)]), "b");
        assert_eq!(first_of(vec![pod("a", "n1", "Running", None), pod("b", "n1", "Unknown", None)]), "b");
        assert_eq!(first_of(vec![ready("a"), pod("b", "n1", "Running", None)]), "b");
        let mut cheap = ready("b");
        cheap.metadata.annotations.insert(DELETION_COST, "-5".into());
        assert_eq!(first_of(vec![ready("a"), cheap]), "b");
        let alone = pod("a", "n2", "Running", Some(0));
        let chosen = first_of(vec![alone, ready("b"), ready("c")]);
        assert_eq!(chosen, "b", "the node with more of them");
        assert_eq!(first_of(vec![ready("a"), pod("b", "n1", "Running", Some(9_900))]), "b");
        assert_eq!(first_of(vec![pod("b", "n1", "Running", Some(9_001)), pod("a", "n1", "Running", Some(9_000))]), "a");
        let mut restarted = ready("b");
        let status = ContainerStatus { restart_count: 3, ..Default::default() };
        restarted.status.as_mut().unwrap().container_statuses.push(status);
        assert_eq!(first_of(vec![ready("a"), restarted]), "b");
        let mut young = ready("b");
        young.metadata.creation_timestamp = Some(time(9_000));
        assert_eq!(first_of(vec![ready("a"), young]), "b");
    }
}
