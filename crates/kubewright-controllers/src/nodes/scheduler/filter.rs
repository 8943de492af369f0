//! Filters: the requirements of a pod that a node must meet.

use std::sync::Arc;

use kubewright_api::core::v1::{Node, Toleration};
use kubewright_core::{Object, Str};

use super::affinity::AffinityCounts;
use super::cluster::Cluster;
use super::messages::Rejection;
use super::placements::NodeLoad;
use super::pod_info::PodInfo;
use super::resources::{allocatable, pod_capacity};
use super::spread::SpreadCounts;
use crate::placement::{NODE_NAME_FIELD, UNSCHEDULABLE, is_allowed, repelling, tolerates};

/// The filters for one incoming pod, with what they count once per cycle.
pub(in crate::nodes) struct Filter<'a> {
    pub(in crate::nodes) cluster: &'a Cluster<'a>,
    pub(in crate::nodes) incoming: &'a Arc<PodInfo>,
    affinity: AffinityCounts,
    spread: SpreadCounts,
    /// The nodes that the pod names, if it does.
    named: Option<Vec<Str>>,
}

impl<'a> Filter<'a> {
    pub(in crate::nodes) fn new(cluster: &'a Cluster<'a>, incoming: &'a Arc<PodInfo>) -> Self {
        Filter {
            cluster,
            incoming,
            affinity: AffinityCounts::new(cluster, incoming),
            spread: SpreadCounts::new(cluster, incoming),
            named: named_nodes(incoming),
        }
    }

    /// Whether the pod fits on a node with this load, and would also fit beside the pods that are
    /// nominated to it with at least the same priority.
    #[doc(alias = "RunFilterPluginsWithNominatedPods")]
    pub(in crate::nodes) fn check(&mut self, node: &Node, load: &NodeLoad) -> Result<(), Rejection> {
        let own = self.incoming.clone();
        let is_ahead = |other: &&Arc<PodInfo>| other.pod.uid() != own.pod.uid() && other.priority() >= own.priority();
        let nominated: Vec<Arc<PodInfo>> =
            self.cluster.placements.nominated_to(node.name()).filter(is_ahead).cloned().collect();
        if !nominated.is_empty() {
            let mut with_nominated = load.clone();
            for info in &nominated {
                with_nominated.add(info);
                self.shift(info, node, 1);
            }
            let checked = self.check_alone(node, &with_nominated);
            nominated.iter().for_each(|info| self.shift(info, node, -1));
            checked?;
        }
        self.check_alone(node, load)
    }

    /// Accounts for a pod that is added to a node (1) or removed from it (-1).
    pub(in crate::nodes) fn shift(&mut self, other: &PodInfo, node: &Node, delta: i64) {
        self.affinity.shift(self.cluster, self.incoming, other, node, delta);
        self.spread.shift(self.incoming, other, node, delta);
    }

    /// The order is that of kube-scheduler: the first rejection counts.
    fn check_alone(&self, node: &Node, load: &NodeLoad) -> Result<(), Rejection> {
        let (pod, tolerations) = (&self.incoming.pod, self.incoming.tolerations());
        if self.named.as_ref().is_some_and(|names| !names.iter().any(|name| *name == *node.name())) {
            return Err(Rejection::unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]"));
        }
        if is_cordoned(node) && !tolerates_cordon(tolerations) {
            return Err(Rejection::unresolvable("node(s) were unschedulable"));
        }
        if !is_tolerated(tolerations, node) {
            return Err(Rejection::unresolvable("node(s) had untolerated taint(s)"));
        }
        if pod.spec.as_ref().is_some_and(|spec| !is_allowed(spec, node)) {
            return Err(Rejection::unresolvable("node(s) didn't match Pod's node affinity/selector"));
        }
        let mut ports = load.pods.values().flat_map(|other| &other.ports);
        if !self.incoming.ports.is_empty()
            && ports.any(|used| self.incoming.ports.iter().any(|port| port.conflicts_with(used)))
        {
            return Err(Rejection::resolvable("node(s) didn't have free ports for the requested pod ports"));
        }
        self.check_resources(node, load)?;
        self.spread.check(self.incoming, node)?;
        self.affinity.check(self.incoming, node)
    }

    fn check_resources(&self, node: &Node, load: &NodeLoad) -> Result<(), Rejection> {
        let mut rejection = Rejection { reasons: Vec::new(), is_resolvable: true };
        if load.pods.len() >= pod_capacity(node) {
            rejection.reasons.push("Too many pods".into());
        }
        for (name, is_resolvable) in self.incoming.requests.insufficient(&allocatable(node), &load.used) {
            rejection.reasons.push(format!("Insufficient {name}").into());
            rejection.is_resolvable &= is_resolvable;
        }
        if rejection.reasons.is_empty() { Ok(()) } else { Err(rejection) }
    }
}

/// The only nodes that every term of the required affinity names.
fn named_nodes(incoming: &PodInfo) -> Option<Vec<Str>> {
    let affinity = incoming.pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    if required.node_selector_terms.is_empty() {
        return None;
    }
    let mut names = Vec::new();
    for term in &required.node_selector_terms {
        let mut fields = term.match_fields.iter();
        let named = fields.find(|field| field.key == NODE_NAME_FIELD && field.operator == "In")?;
        names.extend(named.values.iter().cloned());
    }
    Some(names)
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
}

fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let cordon = kubewright_api::core::v1::Taint {
        key: UNSCHEDULABLE.into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    tolerations.iter().any(|toleration| tolerates(toleration, &cordon))
}

/// Whether the taints of a node let a pod in.
pub(in crate::nodes) fn is_tolerated(tolerations: &[Toleration], node: &Node) -> bool {
    repelling(tolerations, node)
        .iter()
        .all(|taint| taint.effect == "PreferNoSchedule" || taint.key == UNSCHEDULABLE && is_cordoned(node))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::World;

    #[test]
    fn each_filter_has_its_reason() {
        let mut world = World::with_nodes(&[("a", "disk=fast"), ("b", ""), ("c", "")]);
        world.patch_node("b", r#"{"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]}}"#);
        world.patch_node("c", r#"{"spec":{"unschedulable":true}}"#);
        let port = r#""containers":[{"name":"c","ports":[{"containerPort":80,"hostPort":80}]}]"#;
        world.place("default", "used", "", port, "a");
        let both = "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable";
        let cpu =
            |amount: &str| format!(r#""containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{amount}"}}}}}}]"#);
        for (spec, want) in [
            (cpu("1"), Ok("a".to_owned())),
            (cpu("5"), Err(format!("1 Insufficient cpu, {both}"))),
            (port.to_owned(), Err(format!("1 node(s) didn't have free ports for the requested pod ports, {both}"))),
            (
                r#""nodeSelector":{"disk":"slow"}"#.to_owned(),
                Err("1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), \
                    1 node(s) were unschedulable"
                    .to_owned()),
            ),
            (r#""tolerations":[{"operator":"Exists"}]"#.to_owned(), Ok("a b c".to_owned())),
            (
                r#""tolerations":[{"operator":"Exists"}],"affinity":{"nodeAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                        {"matchFields":[{"key":"metadata.name","operator":"In","values":["b"]}]}]}}}"#
                    .to_owned(),
                Ok("b".to_owned()),
            ),
        ] {
            assert_eq!(world.feasible("default", "", &spec), want, "{spec}");
        }
    }

    #[test]
    fn a_node_takes_pods_up_to_its_capacity() {
        let mut world = World::with_nodes(&[("a", "")]);
        world.patch_node("a", r#"{"status":{"allocatable":{"cpu":"4","pods":"2"}}}"#);
        let three = r#""containers":[{"name":"c","resources":{"requests":{"cpu":"3"}}}]"#;
        world.place("default", "one", "", three, "a");
        assert_eq!(world.feasible("default", "", three), Err("1 Insufficient cpu".into()));
        assert_eq!(world.feasible("default", "", ""), Ok("a".into()));
        world.place("default", "two", "", "", "a");
        assert_eq!(world.feasible("default", "", three), Err("1 Insufficient cpu, 1 Too many pods".into()));
    }
}
