//! Inter-pod affinity and anti-affinity.
//!
//! Each term is counted once per scheduling cycle, by topology. A check of a node is then a lookup.

use std::collections::HashMap;

use kubewright_api::core::v1::Node;
use kubewright_core::{Map, Object, Str};

use super::cluster::Cluster;
use super::messages::Rejection;
use super::placements::Placed;
use super::pod_info::{PodInfo, Term};

/// The weight of required terms of assigned pods, for scores.
#[doc(alias = "HardPodAffinityWeight")]
const REQUIRED_WEIGHT: i64 = 1;

/// Matching pods by topology key and value.
type Counts = HashMap<(Str, Str), i64>;

/// Matches of the required terms of the incoming pod and of assigned pods.
#[derive(Debug, Default)]
pub(in crate::nodes) struct AffinityCounts {
    /// Anti-affinity terms of assigned pods that match the incoming pod.
    repelled: Counts,
    /// Pods that match all affinity terms of the incoming pod.
    attracting: Counts,
    /// Pods that match an anti-affinity term of the incoming pod.
    repelling: Counts,
    of_namespace: Map<Str>,
}

impl AffinityCounts {
    pub(in crate::nodes) fn new(cluster: &Cluster<'_>, incoming: &PodInfo) -> Self {
        let of_namespace = (cluster.labels_of_namespace)(incoming.pod.namespace());
        let mut counts = AffinityCounts { of_namespace, ..Default::default() };
        for Placed { info, node } in cluster.placements.with_affinity() {
            if let Some(node) = cluster.node(node) {
                counts.shift_repelled(incoming, info, node, 1);
            }
        }
        let terms = || incoming.affinity.iter().chain(&incoming.anti_affinity);
        matching(cluster, terms, |info, node, of_namespace| counts.shift_own(incoming, info, node, of_namespace, 1));
        counts
    }

    /// Accounts for a pod that is added to a node (1) or removed from it (-1).
    pub(in crate::nodes) fn shift(
        &mut self,
        cluster: &Cluster<'_>,
        incoming: &PodInfo,
        other: &PodInfo,
        node: &Node,
        delta: i64,
    ) {
        self.shift_repelled(incoming, other, node, delta);
        if !incoming.affinity.is_empty() || !incoming.anti_affinity.is_empty() {
            let of_namespace = (cluster.labels_of_namespace)(other.pod.namespace());
            self.shift_own(incoming, other, node, &of_namespace, delta);
        }
    }

    fn shift_repelled(&mut self, incoming: &PodInfo, other: &PodInfo, node: &Node, delta: i64) {
        for term in &other.anti_affinity {
            if term.matches(&incoming.pod, &self.of_namespace) {
                count(&mut self.repelled, term, node, delta);
            }
        }
    }

    fn shift_own(&mut self, incoming: &PodInfo, other: &PodInfo, node: &Node, of_namespace: &Map<Str>, delta: i64) {
        if incoming.affinity.iter().all(|term| term.matches(&other.pod, of_namespace)) {
            incoming.affinity.iter().for_each(|term| count(&mut self.attracting, term, node, delta));
        }
        for term in incoming.anti_affinity.iter().filter(|term| term.matches(&other.pod, of_namespace)) {
            count(&mut self.repelling, term, node, delta);
        }
    }

    /// Whether the required terms allow a node.
    pub(in crate::nodes) fn check(&self, incoming: &PodInfo, node: &Node) -> Result<(), Rejection> {
        if !self.is_attracted(incoming, node) {
            return Err(Rejection::unresolvable("node(s) didn't match pod affinity rules"));
        }
        let is_counted = |counts: &Counts, key: &Str, value: &Str| {
            !counts.is_empty() && counts.get(&(key.clone(), value.clone())).is_some_and(|count| *count > 0)
        };
        let is_repelling = |term: &Term| {
            node.metadata
                .labels
                .get(&term.topology_key)
                .is_some_and(|value| is_counted(&self.repelling, &term.topology_key, value))
        };
        if incoming.anti_affinity.iter().any(is_repelling) {
            return Err(Rejection::resolvable("node(s) didn't match pod anti-affinity rules"));
        }
        if node.metadata.labels.iter().any(|(key, value)| is_counted(&self.repelled, key, value)) {
            return Err(Rejection::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }

    fn is_attracted(&self, incoming: &PodInfo, node: &Node) -> bool {
        let topology =
            |term: &Term| Some((term.topology_key.clone(), node.metadata.labels.get(&term.topology_key)?.clone()));
        let Some(topologies) = incoming.affinity.iter().map(topology).collect::<Option<Vec<_>>>() else { return false };
        let is_matched = |topology: &(Str, Str)| self.attracting.get(topology).is_some_and(|count| *count > 0);
        // The first pod of a group that wants to be together matches its own terms.
        let is_first = || {
            self.attracting.values().all(|count| *count <= 0)
                && incoming.affinity.iter().all(|term| term.matches(&incoming.pod, &self.of_namespace))
        };
        topologies.iter().all(is_matched) || is_first()
    }
}

/// The sum of preferred terms, by topology.
#[derive(Debug, Default)]
pub(in crate::nodes) struct AffinityScores(Counts);

impl AffinityScores {
    pub(in crate::nodes) fn new(cluster: &Cluster<'_>, incoming: &PodInfo) -> Self {
        let mut scores = Counts::new();
        let of_namespace = (cluster.labels_of_namespace)(incoming.pod.namespace());
        for Placed { info, node } in cluster.placements.with_affinity() {
            let Some(node) = cluster.node(node) else { continue };
            let required = info.affinity.iter().map(|term| (REQUIRED_WEIGHT, term));
            let preferred = info.preferred.iter().map(|(weight, term)| (*weight, term));
            for (weight, term) in required.chain(preferred) {
                if term.matches(&incoming.pod, &of_namespace) {
                    count(&mut scores, term, node, weight);
                }
            }
        }
        let terms = || incoming.preferred.iter().map(|(_, term)| term);
        matching(cluster, terms, |info, node, of_namespace| {
            for (weight, term) in &incoming.preferred {
                if term.matches(&info.pod, of_namespace) {
                    count(&mut scores, term, node, *weight);
                }
            }
        });
        AffinityScores(scores)
    }

    pub(in crate::nodes) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::nodes) fn of(&self, node: &Node) -> i64 {
        let score = |(key, value): (&Str, &Str)| self.0.get(&(key.clone(), value.clone()));
        node.metadata.labels.iter().filter_map(score).sum()
    }
}

fn count(counts: &mut Counts, term: &Term, node: &Node, delta: i64) {
    if let Some(value) = node.metadata.labels.get(&term.topology_key) {
        *counts.entry((term.topology_key.clone(), value.clone())).or_default() += delta;
    }
}

/// Visits assigned pods in the namespaces of these terms, with the labels of their namespace.
fn matching<'t, I: Iterator<Item = &'t Term>>(
    cluster: &Cluster<'_>,
    terms: impl Fn() -> I,
    mut visit: impl FnMut(&PodInfo, &Node, &Map<Str>),
) {
    let mut visit_all = |placed: &mut dyn Iterator<Item = &Placed>| {
        let mut labels_of = HashMap::new();
        for Placed { info, node } in placed {
            let Some(node) = cluster.node(node) else { continue };
            let namespace = info.pod.namespace();
            let labels =
                labels_of.entry(Str::from(namespace)).or_insert_with(|| (cluster.labels_of_namespace)(namespace));
            visit(info, node, labels);
        }
    };
    if terms().any(|term| !term.namespace_selector.is_nothing()) {
        visit_all(&mut cluster.placements.all());
        return;
    }
    let mut namespaces: Vec<&Str> = terms().flat_map(|term| &term.namespaces).collect();
    namespaces.sort();
    namespaces.dedup();
    for namespace in namespaces {
        visit_all(&mut cluster.placements.in_namespace(namespace));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::World;

    const ZONES: [(&str, &str); 3] = [("a1", "zone=a"), ("a2", "zone=a"), ("b1", "zone=b")];

    fn term(kind: &str, selector: &str) -> String {
        format!(
            r#""affinity":{{"{kind}":{{"requiredDuringSchedulingIgnoredDuringExecution":
                [{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{{selector}}}}}}}]}}}}"#
        )
    }

    #[test]
    fn required_terms_choose_topologies() {
        let mut world = World::with_nodes(&ZONES);
        world.place("default", "db", r#""app":"db""#, "", "a1");
        world.place("default", "loner", r#""app":"loner""#, &term("podAntiAffinity", r#""app":"noisy""#), "b1");
        let affinity = "node(s) didn't match pod affinity rules";
        for (namespace, labels, spec, want) in [
            ("default", "", term("podAffinity", r#""app":"db""#), Ok("a1 a2")),
            ("default", "", term("podAntiAffinity", r#""app":"db""#), Ok("b1")),
            // Terms are about the own namespace.
            ("other", "", term("podAntiAffinity", r#""app":"db""#), Ok("a1 a2 b1")),
            ("other", "", term("podAffinity", r#""app":"db""#), Err(format!("3 {affinity}"))),
            // The first pod of a group.
            ("default", r#""app":"new""#, term("podAffinity", r#""app":"new""#), Ok("a1 a2 b1")),
            // Terms of assigned pods.
            ("default", r#""app":"noisy""#, String::new(), Ok("a1 a2")),
            ("other", r#""app":"noisy""#, String::new(), Ok("a1 a2 b1")),
        ] {
            let found = world.feasible(namespace, labels, &spec);
            assert_eq!(found, want.map(str::to_owned), "{namespace} {labels} {spec}");
        }
    }

    #[test]
    fn namespaces_are_selected_by_labels() {
        let mut world = World::with_nodes(&ZONES);
        world.namespaces.push(("shop", r#"{"team":"shop"}"#));
        world.place("shop", "db", r#""app":"db""#, "", "b1");
        let spec = |selector: &str| {
            format!(
                r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"zone",
                    "namespaceSelector":{selector},"labelSelector":{{"matchLabels":{{"app":"db"}}}}}}]}}}}"#
            )
        };
        let none = Err("3 node(s) didn't match pod affinity rules".to_owned());
        assert_eq!(world.feasible("default", "", &spec(r#"{"matchLabels":{"team":"shop"}}"#)), Ok("b1".into()));
        assert_eq!(world.feasible("default", "", &spec("{}")), Ok("b1".into()));
        assert_eq!(world.feasible("default", "", &spec(r#"{"matchLabels":{"team":"other"}}"#)), none);
    }

    #[test]
    fn preferred_terms_attract_and_repel() {
        let mut world = World::with_nodes(&ZONES);
        world.place("default", "db", r#""app":"db""#, "", "b1");
        let spec = |kind: &str| {
            format!(
                r#""affinity":{{"{kind}":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":10,
                    "podAffinityTerm":{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"db"}}}}}}}}]}}}}"#
            )
        };
        assert_eq!(world.best("default", "", &spec("podAffinity")), "b1");
        assert_eq!(world.best("default", "", &spec("podAntiAffinity")), "a1");
    }
}
