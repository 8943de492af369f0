//! Topology spread constraints.

use std::collections::{BTreeMap, HashMap};

use kubewright_api::core::v1::{Node, Pod, TopologySpreadConstraint};
use kubewright_core::selector::Operator;
use kubewright_core::{Object, Selector, Str};

use super::cluster::Cluster;
use super::filter;
use super::messages::Rejection;
use super::placements::Placed;
use super::pod_info::{PodInfo, selector, with_labels};
use crate::placement::is_allowed;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// The preferred spread of pods without constraints: topology key and maximum skew.
const DEFAULTS: [(&str, i64); 2] = [(HOSTNAME, 3), (ZONE, 5)];

/// A constraint.
#[derive(Debug)]
struct Constraint {
    max_skew: i64,
    topology_key: Str,
    selector: Selector,
    min_domains: usize,
    honours_affinity: bool,
    honours_taints: bool,
}

impl Constraint {
    fn new(pod: &Pod, constraint: &TopologySpreadConstraint) -> Self {
        let selector = selector(constraint.label_selector.as_deref());
        Constraint {
            max_skew: constraint.max_skew.into(),
            topology_key: constraint.topology_key.clone(),
            selector: with_labels(selector, &pod.metadata.labels, &constraint.match_label_keys, Operator::In),
            min_domains: constraint.min_domains.and_then(|count| usize::try_from(count).ok()).unwrap_or(1),
            honours_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honours_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    /// Whether the pods of a node count.
    fn includes(&self, incoming: &PodInfo, node: &Node) -> bool {
        let is_allowed = || incoming.pod.spec.as_ref().is_none_or(|spec| is_allowed(spec, node));
        (!self.honours_affinity || is_allowed())
            && (!self.honours_taints || filter::is_tolerated(incoming.tolerations(), node))
    }

    /// Whether an assigned pod counts. A selector of everything counts none.
    fn counts(&self, pod: &Pod) -> bool {
        !self.selector.is_everything() && !pod.is_being_deleted() && self.selector.matches(&pod.metadata.labels)
    }
}

/// The constraints of a pod with this action.
fn constraints(pod: &Pod, action: &str) -> Vec<Constraint> {
    let constraints = pod.spec.iter().flat_map(|spec| spec.topology_spread_constraints.iter());
    let of_action = constraints.filter(|constraint| constraint.when_unsatisfiable == action);
    of_action.map(|constraint| Constraint::new(pod, constraint)).collect()
}

/// The nodes that have all topologies.
fn with_topologies(node: &Node, constraints: &[Constraint]) -> bool {
    constraints.iter().all(|constraint| node.metadata.labels.contains_key(&constraint.topology_key))
}

/// Matching pods per domain.
#[derive(Debug, Default)]
struct Domains {
    count_of: HashMap<Str, i64>,
    /// Number of domains by their count, so that the minimum is found without a scan.
    domains_with: BTreeMap<i64, usize>,
}

impl Domains {
    fn add(&mut self, domain: &Str, delta: i64) {
        let new = match self.count_of.get_mut(domain) {
            Some(count) => {
                if let Some(domains) = self.domains_with.get_mut(count) {
                    *domains -= 1;
                    if *domains == 0 {
                        self.domains_with.remove(count);
                    }
                }
                *count += delta;
                *count
            }
            None => {
                self.count_of.insert(domain.clone(), delta);
                delta
            }
        };
        *self.domains_with.entry(new).or_default() += 1;
    }

    /// The count of the emptiest domain; zero if there are too few domains.
    fn minimum(&self, min_domains: usize) -> i64 {
        let minimum = self.domains_with.keys().next().copied().unwrap_or_default();
        if self.count_of.len() < min_domains { 0 } else { minimum }
    }
}

/// Pods that match the constraints which must hold, by domain.
#[derive(Debug)]
pub(in crate::nodes) struct SpreadCounts {
    constraints: Vec<(Constraint, Domains)>,
}

impl SpreadCounts {
    pub(in crate::nodes) fn new(cluster: &Cluster<'_>, incoming: &PodInfo) -> Self {
        let constraints = constraints(&incoming.pod, "DoNotSchedule");
        let mut all: Vec<(Constraint, Domains)> = Vec::new();
        let nodes: Vec<&Node> =
            cluster.nodes.iter().map(|node| &**node).filter(|node| with_topologies(node, &constraints)).collect();
        for constraint in constraints {
            let mut domains = Domains::default();
            for node in nodes.iter().filter(|node| constraint.includes(incoming, node)) {
                if let Some(domain) = node.metadata.labels.get(&constraint.topology_key) {
                    domains.add(domain, 0);
                }
            }
            all.push((constraint, domains));
        }
        let mut counts = SpreadCounts { constraints: all };
        if !counts.constraints.is_empty() {
            for Placed { info, node } in cluster.placements.in_namespace(incoming.pod.namespace()) {
                if let Some(node) = cluster.node(node).filter(|_| !info.pod.is_being_deleted()) {
                    counts.shift(incoming, info, node, 1);
                }
            }
        }
        counts
    }

    /// Accounts for a pod that is added to a node (1) or removed from it (-1).
    pub(in crate::nodes) fn shift(&mut self, incoming: &PodInfo, other: &PodInfo, node: &Node, delta: i64) {
        let has_topologies =
            self.constraints.iter().all(|(constraint, _)| node.metadata.labels.contains_key(&constraint.topology_key));
        if !has_topologies || other.pod.namespace() != incoming.pod.namespace() {
            return;
        }
        for (constraint, domains) in &mut self.constraints {
            let Some(domain) = node.metadata.labels.get(&constraint.topology_key) else { continue };
            if constraint.counts(&other.pod) && constraint.includes(incoming, node) {
                domains.add(domain, delta);
            }
        }
    }

    /// Whether the pod may run on a node.
    pub(in crate::nodes) fn check(&self, incoming: &PodInfo, node: &Node) -> Result<(), Rejection> {
        for (constraint, domains) in &self.constraints {
            let Some(domain) = node.metadata.labels.get(&constraint.topology_key) else {
                return Err(Rejection::unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let own = i64::from(constraint.selector.matches(&incoming.pod.metadata.labels));
            let have = domains.count_of.get(domain).copied().unwrap_or_default();
            if have + own - domains.minimum(constraint.min_domains) > constraint.max_skew {
                return Err(Rejection::resolvable("node(s) didn't match pod topology spread constraints"));
            }
        }
        Ok(())
    }
}

/// Pods that match the preferred constraints, by domain.
///
/// Pods without constraints are spread over nodes and zones. Then those of the same controller
/// count; kube-scheduler counts pods that match the selectors of their services and controllers.
#[derive(Debug)]
pub(in crate::nodes) struct SpreadScores {
    constraints: Vec<Preference>,
    /// Whether nodes need all topologies.
    is_strict: bool,
}

#[derive(Debug)]
struct Preference {
    topology_key: Str,
    max_skew: i64,
    count_of: HashMap<Str, i64>,
}

impl SpreadScores {
    /// Over the nodes that passed the filters.
    pub(in crate::nodes) fn new(cluster: &Cluster<'_>, incoming: &PodInfo, feasible: &[&Node]) -> Self {
        if incoming.pod.spec.as_ref().is_none_or(|spec| spec.topology_spread_constraints.is_empty()) {
            return SpreadScores { constraints: by_controller(cluster, incoming), is_strict: false };
        }
        let constraints = constraints(&incoming.pod, "ScheduleAnyway");
        let mut preferences: Vec<Preference> = constraints.iter().map(Preference::new).collect();
        for node in feasible.iter().filter(|node| with_topologies(node, &constraints)) {
            preferences.iter_mut().for_each(|preference| preference.add(node, 0));
        }
        if !constraints.is_empty() {
            for Placed { info, node } in cluster.placements.in_namespace(incoming.pod.namespace()) {
                let Some(node) = cluster.node(node).filter(|node| with_topologies(node, &constraints)) else {
                    continue;
                };
                for (constraint, preference) in constraints.iter().zip(&mut preferences) {
                    if constraint.counts(&info.pod) && constraint.includes(incoming, node) {
                        preference.add(node, 1);
                    }
                }
            }
        }
        SpreadScores { constraints: preferences, is_strict: true }
    }

    pub(in crate::nodes) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The weighted number of matching pods; `None` if the node lacks a topology.
    pub(in crate::nodes) fn of(&self, node: &Node) -> Option<i64> {
        let mut sum = 0.0;
        for preference in &self.constraints {
            match node.metadata.labels.get(&preference.topology_key) {
                Some(domain) => sum += preference.of(domain),
                None if self.is_strict => return None,
                None => {}
            }
        }
        Some(sum.round() as i64)
    }
}

impl Preference {
    fn new(constraint: &Constraint) -> Self {
        Preference {
            topology_key: constraint.topology_key.clone(),
            max_skew: constraint.max_skew,
            count_of: HashMap::new(),
        }
    }

    fn add(&mut self, node: &Node, count: i64) {
        if let Some(domain) = node.metadata.labels.get(&self.topology_key) {
            *self.count_of.entry(domain.clone()).or_default() += count;
        }
    }

    /// Counts of topologies with few domains weigh less, as each of them holds more pods.
    #[doc(alias = "scoreForCount")]
    fn of(&self, domain: &str) -> f64 {
        let weight = (self.count_of.len() as f64 + 2.0).ln();
        let count = self.count_of.get(domain).copied().unwrap_or_default();
        count as f64 * weight + (self.max_skew - 1) as f64
    }
}

fn by_controller(cluster: &Cluster<'_>, incoming: &PodInfo) -> Vec<Preference> {
    let controller = &incoming.controller;
    if controller.is_empty() {
        return Vec::new();
    }
    let preference = |(key, max_skew): (&str, i64)| {
        let mut preference = Preference { topology_key: key.into(), max_skew, count_of: HashMap::new() };
        for node in cluster.nodes {
            let load = cluster.placements.load(node.name());
            let pods = load.map_or(0, |load| load.of_controller(controller));
            preference.add(node, i64::try_from(pods).unwrap_or(i64::MAX));
        }
        preference
    };
    DEFAULTS.map(preference).into()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::World;

    fn spread(more: &str) -> String {
        format!(
            r#""topologySpreadConstraints":[{{"topologyKey":"zone","labelSelector":{{"matchLabels":{{"app":"web"}}}},{more}}}]"#
        )
    }

    const HARD: &str = r#""whenUnsatisfiable":"DoNotSchedule","maxSkew":1"#;
    const WEB: &str = r#""app":"web""#;

    #[test]
    fn required_constraints_limit_the_skew() {
        let mut world = World::with_nodes(&[("a1", "zone=a"), ("a2", "zone=a"), ("b1", "zone=b"), ("c1", "")]);
        world.place("default", "one", WEB, "", "a1");
        world.place("default", "two", r#""app":"web","rev":"2""#, "", "b1");
        world.place("default", "three", WEB, "", "a2");
        let hard = |more: &str| spread(&format!("{HARD}{more}"));
        let skewed = "node(s) didn't match pod topology spread constraints";
        for (namespace, labels, spec, want) in [
            // Zone a has two pods, zone b one.
            ("default", WEB, hard(""), Ok("b1")),
            ("default", WEB, spread(r#""whenUnsatisfiable":"DoNotSchedule","maxSkew":2"#), Ok("a1 a2 b1")),
            // A pod that does not match itself adds nothing.
            ("default", "", hard(""), Ok("a1 a2 b1")),
            ("other", WEB, hard(""), Ok("a1 a2 b1")),
            // With fewer domains than wanted, the minimum is zero.
            (
                "default",
                WEB,
                hard(r#","minDomains":3"#),
                Err(format!("1 {skewed} (missing required label), 3 {skewed}")),
            ),
            // Only pods with the same value count.
            ("default", r#""app":"web","rev":"2""#, hard(r#","matchLabelKeys":["rev"]"#), Ok("a1 a2")),
            // Nodes that the pod cannot use do not count.
            ("default", WEB, format!(r#"{},"nodeSelector":{{"zone":"a"}}"#, hard("")), Ok("a1 a2")),
            (
                "default",
                WEB,
                format!(r#"{},"nodeSelector":{{"zone":"a"}}"#, hard(r#","nodeAffinityPolicy":"Ignore""#)),
                Err(format!("2 node(s) didn't match Pod's node affinity/selector, 2 {skewed}")),
            ),
        ] {
            assert_eq!(
                world.feasible(namespace, labels, &spec),
                want.map(str::to_owned),
                "{namespace} {labels} {spec}"
            );
        }
    }

    #[test]
    fn preferred_constraints_choose_the_emptier_domain() {
        let mut world = World::with_nodes(&[("a1", "zone=a"), ("b1", "zone=b")]);
        world.place("default", "one", WEB, "", "a1");
        world.place("default", "other", "", "", "b1");
        world.place("default", "another", "", "", "b1");
        let soft = spread(r#""whenUnsatisfiable":"ScheduleAnyway","maxSkew":1"#);
        assert_eq!(world.best("default", WEB, &soft), "b1");
        assert_eq!(world.best("default", WEB, ""), "a1");
    }
}
