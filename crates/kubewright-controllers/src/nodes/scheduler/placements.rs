//! The pods of each node, including recent assignments, and nominated pods.
//!
//! The cache alone is not sufficient: while it is stale, several pods would get the last free
//! resources of a node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Str};

use super::pod_info::PodInfo;
use super::resources::Amounts;
use crate::pods::{is_finished, node_name};

/// Assigned pods that have not ended, and pods that are nominated to a node.
#[derive(Debug, Default)]
pub(in crate::nodes) struct Placements {
    placed: HashMap<Str, Placed>,
    /// Invariant: the loads are those of the pods in `placed`.
    load_of: HashMap<Str, NodeLoad>,
    /// Invariant: the uids in `placed`, by namespace.
    in_namespace: HashMap<Str, HashSet<Str>>,
    /// Invariant: the uids in `placed` whose pods have affinity terms.
    with_affinity: HashSet<Str>,
    nominated: HashMap<Str, Placed>,
    /// Invariant: the uids in `nominated`, by node.
    nominated_to: HashMap<Str, HashSet<Str>>,
}

/// A pod and its node.
#[derive(Debug, Clone)]
pub(in crate::nodes) struct Placed {
    pub(in crate::nodes) info: Arc<PodInfo>,
    pub(in crate::nodes) node: Str,
}

/// The pods of one node.
#[derive(Debug, Clone, Default)]
pub(in crate::nodes) struct NodeLoad {
    pub(in crate::nodes) pods: HashMap<Str, Arc<PodInfo>>,
    pub(in crate::nodes) used: Amounts,
    /// For scores.
    pub(in crate::nodes) assumed: Amounts,
    /// Number of pods by the uid of their controller.
    by_controller: HashMap<Str, usize>,
}

impl NodeLoad {
    pub(in crate::nodes) fn add(&mut self, info: &Arc<PodInfo>) {
        self.used.add(&info.requests);
        self.assumed.add(&info.assumed);
        *self.by_controller.entry(info.controller.clone()).or_default() += 1;
        self.pods.insert(info.pod.uid().into(), info.clone());
    }

    pub(in crate::nodes) fn remove(&mut self, uid: &str) {
        let Some(info) = self.pods.remove(uid) else { return };
        self.used.subtract(&info.requests);
        self.assumed.subtract(&info.assumed);
        if let Some(count) = self.by_controller.get_mut(&*info.controller) {
            *count -= 1;
            if *count == 0 {
                self.by_controller.remove(&*info.controller);
            }
        }
    }

    /// The number of pods of a controller.
    pub(in crate::nodes) fn of_controller(&self, uid: &str) -> usize {
        self.by_controller.get(uid).copied().unwrap_or_default()
    }
}

impl Placements {
    /// Records a pod from an event. A pod without a node may have been assigned since.
    pub(in crate::nodes) fn note(&mut self, pod: &Arc<Pod>) {
        match (is_finished(pod), node_name(pod)) {
            (true, _) => self.release(pod.uid()),
            (false, "") => {
                let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
                if let Some(node) = nominated.filter(|node| !node.is_empty() && !self.placed.contains_key(pod.uid())) {
                    self.nominate(&Arc::new(PodInfo::new(pod)), node);
                }
            }
            (false, node) => self.place(&Arc::new(PodInfo::new(pod)), node),
        }
    }

    /// Assigns a pod to a node.
    pub(in crate::nodes) fn place(&mut self, info: &Arc<PodInfo>, node: &str) {
        let uid: Str = info.pod.uid().into();
        self.release(&uid);
        let placed = Placed { info: info.clone(), node: node.into() };
        self.load_of.entry(placed.node.clone()).or_default().add(info);
        self.in_namespace.entry(info.pod.namespace().into()).or_default().insert(uid.clone());
        if info.has_affinity() {
            self.with_affinity.insert(uid.clone());
        }
        self.placed.insert(uid, placed);
    }

    /// Forgets a pod that has ended, is deleted, or could not be assigned.
    pub(in crate::nodes) fn release(&mut self, uid: &str) {
        self.withdraw(uid);
        let Some(Placed { info, node }) = self.placed.remove(uid) else { return };
        if let Some(load) = self.load_of.get_mut(&node) {
            load.remove(uid);
            if load.pods.is_empty() {
                self.load_of.remove(&node);
            }
        }
        if let Some(uids) = self.in_namespace.get_mut(info.pod.namespace()) {
            uids.remove(uid);
            if uids.is_empty() {
                self.in_namespace.remove(info.pod.namespace());
            }
        }
        self.with_affinity.remove(uid);
    }

    /// Keeps room on a node for a pod whose victims are leaving it.
    pub(in crate::nodes) fn nominate(&mut self, info: &Arc<PodInfo>, node: &str) {
        let uid: Str = info.pod.uid().into();
        self.withdraw(&uid);
        self.nominated_to.entry(node.into()).or_default().insert(uid.clone());
        self.nominated.insert(uid, Placed { info: info.clone(), node: node.into() });
    }

    /// Ends a nomination.
    pub(in crate::nodes) fn withdraw(&mut self, uid: &str) {
        let Some(Placed { node, .. }) = self.nominated.remove(uid) else { return };
        if let Some(uids) = self.nominated_to.get_mut(&node) {
            uids.remove(uid);
            if uids.is_empty() {
                self.nominated_to.remove(&node);
            }
        }
    }

    /// The node to which a pod is nominated.
    pub(in crate::nodes) fn nomination(&self, uid: &str) -> Option<&Str> {
        self.nominated.get(uid).map(|placed| &placed.node)
    }

    /// The pods that are nominated to a node.
    pub(in crate::nodes) fn nominated_to(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        let uids = self.nominated_to.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.nominated.get(uid)).map(|placed| &placed.info)
    }

    pub(in crate::nodes) fn load(&self, node: &str) -> Option<&NodeLoad> {
        self.load_of.get(node)
    }

    pub(in crate::nodes) fn all(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values()
    }

    pub(in crate::nodes) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Placed> {
        self.in_namespace.get(namespace).into_iter().flatten().filter_map(|uid| self.placed.get(uid))
    }

    pub(in crate::nodes) fn with_affinity(&self) -> impl Iterator<Item = &Placed> {
        self.with_affinity.iter().filter_map(|uid| self.placed.get(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::scheduler::fixtures::pod;

    #[test]
    fn resources_are_reserved_until_the_pod_is_gone() {
        let mut placements = Placements::default();
        let pod = |node: &str, phase: &str| {
            let node = if node.is_empty() { String::new() } else { format!(r#""nodeName":"{node}","#) };
            let requests = r#"{"requests":{"cpu":"1"}}"#;
            pod(&format!(
                r#"{{"metadata":{{"name":"a","uid":"a","namespace":"default"}},"status":{{"phase":"{phase}"}},
                    "spec":{{{node}"containers":[{{"name":"c","resources":{requests}}}]}}}}"#
            ))
        };
        let used = |placements: &Placements| placements.load("n").map(|load| (load.pods.len(), load.used.get("cpu")));
        placements.place(&Arc::new(PodInfo::new(&pod("", "Pending"))), "n");
        // A stale event of the pod releases nothing.
        placements.note(&pod("", "Pending"));
        assert_eq!(used(&placements), Some((1, 1000)));
        placements.note(&pod("n", "Running"));
        assert_eq!((used(&placements), placements.in_namespace("default").count()), (Some((1, 1000)), 1));
        placements.note(&pod("n", "Succeeded"));
        assert_eq!((used(&placements), placements.all().count()), (None, 0));
        placements.nominate(&Arc::new(PodInfo::new(&pod("", "Pending"))), "n");
        assert_eq!((placements.nominated_to("n").count(), used(&placements)), (1, None));
        placements.note(&pod("m", "Running"));
        assert_eq!((placements.nominated_to("n").count(), placements.load("m").unwrap().pods.len()), (0, 1));
    }
}
