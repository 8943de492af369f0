//! A small cluster for tests.

use std::sync::Arc;

use kubewright_api::core::v1::{Namespace, Node, Pod};
use kubewright_api::policy::v1::PodDisruptionBudget;
use kubewright_core::json::Reader;
use kubewright_core::message::Message;
use kubewright_core::{Decoder, Map, Object, Str};

use super::cluster::Cluster;
use super::filter::Filter;
use super::messages::unavailable;
use super::placements::{NodeLoad, Placements};
use super::pod_info::PodInfo;
use super::{Decision, decide};

fn decode<T: Message + Default>(json: &str) -> T {
    let (mut object, mut decoder) = (T::default(), Decoder::default());
    if let Err(error) = Reader::new(json.as_bytes(), &mut decoder).message(&mut object) {
        panic!("{error}: {json}");
    }
    object
}

/// A pod in JSON.
pub(super) fn pod(json: &str) -> Arc<Pod> {
    Arc::new(decode(json))
}

fn pod_of(namespace: &str, name: &str, labels: &str, spec: &str) -> Arc<Pod> {
    let metadata = format!(r#"{{"namespace":"{namespace}","name":"{name}","uid":"{name}","labels":{{{labels}}}}}"#);
    pod(&format!(r#"{{"metadata":{metadata},"spec":{{{spec}}}}}"#))
}

#[derive(Default)]
pub(super) struct World {
    nodes: Vec<Arc<Node>>,
    placements: Placements,
    pub(super) namespaces: Vec<(&'static str, &'static str)>,
    budgets: Vec<Arc<PodDisruptionBudget>>,
}

impl World {
    /// Nodes with four CPUs; a label is `key=value`.
    pub(super) fn with_nodes(nodes: &[(&str, &str)]) -> Self {
        let node = |(name, label): &(&str, &str)| {
            let label = label.split_once('=').map(|(key, value)| format!(r#""{key}":"{value}","#)).unwrap_or_default();
            let labels = format!(r#"{{{label}"kubernetes.io/hostname":"{name}"}}"#);
            let status = r#"{"allocatable":{"cpu":"4","memory":"16Gi","pods":"110"}}"#;
            Arc::new(decode(&format!(r#"{{"metadata":{{"name":"{name}","labels":{labels}}},"status":{status}}}"#)))
        };
        World { nodes: nodes.iter().map(node).collect(), ..Default::default() }
    }

    /// Replaces the spec or status of a node.
    pub(super) fn patch_node(&mut self, name: &str, json: &str) {
        let patch: Node = decode(json);
        let node = self.nodes.iter_mut().find(|node| node.name() == name).expect("the node exists");
        let node = Arc::make_mut(node);
        if patch.spec.is_some() {
            node.spec = patch.spec;
        }
        if patch.status.is_some() {
            node.status = patch.status;
        }
    }

    pub(super) fn place(&mut self, namespace: &str, name: &str, labels: &str, spec: &str, node: &str) {
        self.placements.place(&Arc::new(PodInfo::new(&pod_of(namespace, name, labels, spec))), node);
    }

    pub(super) fn nominate(&mut self, namespace: &str, name: &str, labels: &str, spec: &str, node: &str) {
        self.placements.nominate(&Arc::new(PodInfo::new(&pod_of(namespace, name, labels, spec))), node);
    }

    pub(super) fn budget(&mut self, labels: &str, allowed: i32) {
        let spec = format!(r#"{{"selector":{{"matchLabels":{labels}}}}}"#);
        let status = format!(r#"{{"disruptionsAllowed":{allowed}}}"#);
        let metadata = r#"{"namespace":"default","name":"budget"}"#;
        self.budgets.push(Arc::new(decode(&format!(r#"{{"metadata":{metadata},"spec":{spec},"status":{status}}}"#))));
    }

    fn with_cluster<T>(&self, use_it: impl FnOnce(&Cluster<'_>) -> T) -> T {
        let labels = |name: &str| -> Map<Str> {
            let found = self.namespaces.iter().find(|(namespace, _)| *namespace == name);
            let namespace = found.map(|(_, labels)| decode(&format!(r#"{{"metadata":{{"labels":{labels}}}}}"#)));
            namespace.map(|namespace: Namespace| namespace.metadata.labels.clone()).unwrap_or_default()
        };
        use_it(&Cluster { nodes: &self.nodes, placements: &self.placements, labels_of_namespace: &labels })
    }

    /// The nodes on which a new pod fits, or the reasons.
    pub(super) fn feasible(&self, namespace: &str, labels: &str, spec: &str) -> Result<String, String> {
        let info = Arc::new(PodInfo::new(&pod_of(namespace, "new", labels, spec)));
        self.with_cluster(|cluster| {
            let mut filter = Filter::new(cluster, &info);
            let (mut names, mut rejections, none) = (Vec::new(), Vec::new(), NodeLoad::default());
            for node in cluster.nodes {
                match filter.check(node, cluster.placements.load(node.name()).unwrap_or(&none)) {
                    Ok(()) => names.push(node.name()),
                    Err(rejection) => rejections.push(rejection),
                }
            }
            if names.is_empty() {
                let message = unavailable(cluster.nodes.len(), &rejections);
                let reasons = message.split_once(": ").map_or(&*message, |(_, reasons)| reasons);
                return Err(reasons.trim_end_matches('.').to_owned());
            }
            Ok(names.join(" "))
        })
    }

    fn decide(&self, namespace: &str, labels: &str, spec: &str) -> Decision {
        let info = Arc::new(PodInfo::new(&pod_of(namespace, "new", labels, spec)));
        self.with_cluster(|cluster| decide(cluster, &info, &self.budgets))
    }

    /// The node of a new pod.
    pub(super) fn best(&self, namespace: &str, labels: &str, spec: &str) -> String {
        match self.decide(namespace, labels, spec) {
            Decision::Assign(node) => node.to_string(),
            Decision::Refuse { message, .. } => message,
        }
    }

    /// The node and the victims of a new pod, or the message.
    pub(super) fn preemption(&self, labels: &str, spec: &str) -> String {
        match self.decide("default", labels, spec) {
            Decision::Assign(node) => format!("fits on {node}"),
            Decision::Refuse { candidate: Some(candidate), .. } => {
                let mut names: Vec<&str> = candidate.victims.iter().map(|pod| pod.name()).collect();
                names.sort_unstable();
                format!("{}: {}", candidate.node, names.join(" "))
            }
            Decision::Refuse { message, .. } => message,
        }
    }
}
