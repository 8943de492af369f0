//! Scores: the choice among feasible nodes.
//!
//! Scores and weights are those of kube-scheduler's default plugins, except for image locality and
//! balanced allocation, which are absent. Equal nodes: the one with the fewest pods, then the first
//! by name. kube-scheduler chooses at random.

use kubewright_api::core::v1::Node;
use kubewright_core::Object;

use super::affinity::AffinityScores;
use super::cluster::Cluster;
use super::pod_info::PodInfo;
use super::resources::{Amounts, CPU, MEMORY, allocatable};
use super::spread::SpreadScores;
use crate::placement::{meets, repelling};

/// The best score of a plugin.
const MAXIMUM: i64 = 100;

const TAINTS_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const RESOURCES_WEIGHT: i64 = 1;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// The best of these nodes.
pub(in crate::nodes) fn best<'a>(cluster: &Cluster<'_>, incoming: &PodInfo, feasible: &[&'a Node]) -> Option<&'a Node> {
    if let [only] = feasible {
        return Some(only);
    }
    let mut totals = vec![0; feasible.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
    };
    add(TAINTS_WEIGHT, fewest_taints(incoming, feasible));
    add(NODE_AFFINITY_WEIGHT, preferred_nodes(incoming, feasible));
    add(RESOURCES_WEIGHT, feasible.iter().map(|node| least_allocated(cluster, incoming, node)).collect());
    add(SPREAD_WEIGHT, spread(&SpreadScores::new(cluster, incoming, feasible), feasible));
    add(POD_AFFINITY_WEIGHT, attraction(&AffinityScores::new(cluster, incoming), feasible));
    let pods = |node: &Node| cluster.placements.load(node.name()).map_or(0, |load| load.pods.len());
    let ranked = totals.into_iter().zip(feasible);
    let best = ranked.min_by(|(score, node), (other_score, other)| {
        let by_pods = || pods(node).cmp(&pods(other));
        other_score.cmp(score).then_with(by_pods).then_with(|| node.name().cmp(other.name()))
    });
    best.map(|(_, node)| *node)
}

/// Nodes with fewer PreferNoSchedule taints that the pod does not tolerate.
fn fewest_taints(incoming: &PodInfo, nodes: &[&Node]) -> Vec<i64> {
    let count = |node: &&Node| {
        let repelling = repelling(incoming.tolerations(), node);
        repelling.iter().filter(|taint| taint.effect == "PreferNoSchedule").count() as i64
    };
    let counts: Vec<i64> = nodes.iter().map(count).collect();
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    counts.iter().map(|count| MAXIMUM - MAXIMUM * count / most).collect()
}

/// Nodes that meet preferred node affinity.
fn preferred_nodes(incoming: &PodInfo, nodes: &[&Node]) -> Vec<i64> {
    let affinity = incoming.pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let Some(affinity) = affinity else { return vec![0; nodes.len()] };
    let weight = |node: &&Node| -> i64 {
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter();
        preferred.filter(|term| meets(node, &term.preference)).map(|term| i64::from(term.weight)).sum()
    };
    let weights: Vec<i64> = nodes.iter().map(weight).collect();
    let most = weights.iter().copied().max().unwrap_or_default().max(1);
    weights.iter().map(|weight| MAXIMUM * weight / most).collect()
}

/// The mean of the free shares of CPU and memory.
fn least_allocated(cluster: &Cluster<'_>, incoming: &PodInfo, node: &Node) -> i64 {
    let allocatable = allocatable(node);
    let none = Amounts::default();
    let used = cluster.placements.load(node.name()).map_or(&none, |load| &load.assumed);
    let free = |name: &str| {
        let capacity = allocatable.get(name);
        let requested = used.get(name).saturating_add(incoming.assumed.get(name));
        let free = i128::from(capacity.saturating_sub(requested).max(0)) * i128::from(MAXIMUM);
        (capacity > 0).then(|| i64::try_from(free / i128::from(capacity)).unwrap_or_default())
    };
    let shares: Vec<i64> = [CPU, MEMORY].into_iter().filter_map(free).collect();
    shares.iter().sum::<i64>() / shares.len().max(1) as i64
}

/// Domains with fewer matching pods.
fn spread(scores: &SpreadScores, nodes: &[&Node]) -> Vec<i64> {
    if scores.is_empty() {
        return vec![0; nodes.len()];
    }
    let counts: Vec<Option<i64>> = nodes.iter().map(|node| scores.of(node)).collect();
    let most = counts.iter().flatten().copied().max().unwrap_or_default();
    let fewest = counts.iter().flatten().copied().min().unwrap_or_default();
    let score = |count: &Option<i64>| match count {
        None => 0,
        Some(_) if most == 0 => MAXIMUM,
        Some(count) => MAXIMUM * (most + fewest - count) / most,
    };
    counts.iter().map(score).collect()
}

/// Topologies with pods that attract this one.
fn attraction(scores: &AffinityScores, nodes: &[&Node]) -> Vec<i64> {
    if scores.is_empty() {
        return vec![0; nodes.len()];
    }
    let sums: Vec<i64> = nodes.iter().map(|node| scores.of(node)).collect();
    let most = sums.iter().copied().max().unwrap_or_default();
    let least = sums.iter().copied().min().unwrap_or_default();
    let range = (most - least).max(1);
    sums.iter().map(|sum| MAXIMUM * (sum - least) / range).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::World;

    #[test]
    fn nodes_are_preferred_for_affinity_taints_and_free_resources() {
        let mut world = World::with_nodes(&[("a", ""), ("b", "disk=fast"), ("c", "")]);
        world.patch_node("a", r#"{"spec":{"taints":[{"key":"k","effect":"PreferNoSchedule"}]}}"#);
        let cpu =
            |amount: &str| format!(r#""containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{amount}"}}}}}}]"#);
        let fast = r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[
            {"weight":1,"preference":{"matchExpressions":[{"key":"disk","operator":"Exists"}]}}]}}"#;
        assert_eq!(world.best("default", "", ""), "b");
        world.place("default", "one", "", &cpu("2"), "b");
        assert_eq!(world.best("default", "", ""), "c");
        assert_eq!(world.best("default", "", fast), "b");
        world.place("default", "two", "", &cpu("3"), "c");
        assert_eq!(world.best("default", "", ""), "b");
        assert_eq!(world.best("default", "", r#""tolerations":[{"operator":"Exists"}]"#), "a");
    }
}
