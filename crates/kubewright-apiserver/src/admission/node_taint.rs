//! The TaintNodesByCondition plugin: a new node repels pods until it is ready.
//!
//! Otherwise pods could be scheduled to it before its first status arrives.

use kubewright_core::Value;

use super::plugins::AdmissionPlugin;
use super::state::ClusterState;
use kubewright_objects::object::tree;
use kubewright_resources::catalog::Resource;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Adds the taint of nodes that are not ready to a new node.
pub(crate) fn add(cluster: &dyn ClusterState, resource: &Resource, node: &mut Value) {
    if !resource.is("", "nodes") || !cluster.has_plugin(AdmissionPlugin::TaintNodesByCondition) {
        return;
    }
    let mut taints = tree::items(node, &["spec", "taints"]).to_vec();
    let is_not_ready =
        |taint: &Value| tree::text(taint, &["key"]) == NOT_READY && tree::text(taint, &["effect"]) == "NoSchedule";
    if !taints.iter().any(is_not_ready) {
        taints.push(tree::map([("effect", "NoSchedule".into()), ("key", NOT_READY.into())]));
        tree::set(node, &["spec", "taints"], taints);
    }
}
