//! Actions that every kubelet may do, whatever its pods use.

use super::ResourceAction;

const READ: &[&str] = &["get", "list", "watch"];

/// Groups, resources and verbs. kube-apiserver: `NodeRules`, without the resources that are decided
/// object by object.
const RULES: &[(&[&str], &[&str], &[&str])] = &[
    (&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    (&["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"], &["create"]),
    (&[""], &["services"], READ),
    (&["", "events.k8s.io"], &["events"], &["create", "update", "patch"]),
    (&[""], &["endpoints"], &["get"]),
    (&["certificates.k8s.io"], &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    (&["certificates.k8s.io"], &["clustertrustbundles"], READ),
    (&["storage.k8s.io"], &["csidrivers"], READ),
    (&["node.k8s.io"], &["runtimeclasses"], READ),
];

/// Whether every kubelet may do this.
pub(super) fn allow(action: ResourceAction<'_>) -> bool {
    action.subresource.is_empty()
        && RULES.iter().any(|(groups, resources, verbs)| {
            groups.contains(&action.group) && resources.contains(&action.resource) && verbs.contains(&action.verb)
        })
}
