//! The cluster as one scheduling cycle sees it.

use std::sync::Arc;

use kubewright_api::core::v1::Node;
use kubewright_core::{Map, Object, Str};

use super::placements::Placements;

/// Nodes, their pods, and the labels of namespaces.
pub(in crate::nodes) struct Cluster<'a> {
    /// Invariant: sorted by name.
    pub(in crate::nodes) nodes: &'a [Arc<Node>],
    pub(in crate::nodes) placements: &'a Placements,
    pub(in crate::nodes) labels_of_namespace: &'a dyn Fn(&str) -> Map<Str>,
}

impl Cluster<'_> {
    pub(in crate::nodes) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        let at = self.nodes.binary_search_by(|node| node.name().cmp(name)).ok()?;
        self.nodes.get(at)
    }
}
