//! The NodeRestriction plugin: a kubelet changes its own node, and the pods of its node, only.
//!
//! A kubelet is the user `system:node:NAME` of the group `system:nodes`. The authorization mode
//! `Node` decides what it may read. This plugin looks at the objects that it writes.

use std::collections::BTreeSet;

use kubewright_core::Value;

use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::object::{Meta, text_map, tree};
use kubewright_resources::catalog::Resource;
use kubewright_storage::Key;

use crate::User;

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";

/// Labels of Kubernetes that a kubelet sets on its own node.
const KUBELET_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// The prefixes of further such labels.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The prefix of labels that only others set.
const RESTRICTED_PREFIX: &str = "node-restriction.kubernetes.io";

/// Volumes that refer to other objects, and the message about them.
const REFERRING_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// The same for the sources of projected volumes.
const REFERRING_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// Reads the common name of a certificate request in base64.
pub type ReadCommonName = fn(&str) -> Result<String, String>;

/// A write that admission looks at.
pub struct RestrictedWrite<'a> {
    /// Reads the objects that it refers to.
    pub objects: &'a dyn ObjectReader,
    /// Its user.
    pub user: &'a User,
    /// The kind of write.
    pub operation: RestrictedOperation,
    /// The resource.
    pub resource: &'a Resource,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name in the path. Empty for a creation.
    pub name: &'a str,
    /// The new object. `None` for a deletion.
    pub object: Option<&'a Value>,
    /// The stored object. `None` for a creation.
    pub old: Option<&'a Value>,
    /// `None` accepts certificate requests for any name.
    pub common_name: Option<ReadCommonName>,
}

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestrictedOperation {
    /// A creation.
    Create,
    /// An update or patch.
    Update,
    /// A deletion.
    Delete,
}

impl RestrictedOperation {
    fn name(self) -> &'static str {
        match self {
            RestrictedOperation::Create => "CREATE",
            RestrictedOperation::Update => "UPDATE",
            RestrictedOperation::Delete => "DELETE",
        }
    }
}

/// The verdict of NodeRestriction about a write.
pub enum Restriction<'a> {
    /// It is allowed.
    None,
    /// It is forbidden, for this reason.
    Forbidden(String),
    /// It is allowed if the kubelet may request tokens for this audience.
    IfAuthorizedFor(&'a str),
}

/// Restricts the write of a kubelet. Other users are not restricted.
pub fn restriction<'a>(write: &'a RestrictedWrite<'a>) -> Restriction<'a> {
    let Some(node) = write.user.name.strip_prefix("system:node:").filter(|_| write.user.is_in("system:nodes")) else {
        return Restriction::None;
    };
    if node.is_empty() {
        return Restriction::Forbidden(format!("could not determine node from user {:?}", write.user.name.as_str()));
    }
    let kubelet = Kubelet { node, write };
    match (kubelet.check(), kubelet.foreign_audience()) {
        (Err(why), _) => Restriction::Forbidden(why),
        (Ok(()), Some(audience)) => Restriction::IfAuthorizedFor(audience),
        (Ok(()), None) => Restriction::None,
    }
}

/// A write of a kubelet.
struct Kubelet<'a> {
    node: &'a str,
    write: &'a RestrictedWrite<'a>,
}

impl<'a> Kubelet<'a> {
    fn check(&self) -> Result<(), String> {
        let resource = self.write.resource;
        match (&*resource.group, &*resource.plural, self.write.subresource) {
            ("", "pods", "") => self.pod(),
            ("", "pods", "status") => self.pod_status(),
            ("", "pods", "eviction") => {
                let pod = self.stored("pods", self.write.name);
                self.runs_here(pod.as_ref(), || {
                    format!("node {} can only evict pods with spec.nodeName set to itself", self.node)
                })
            }
            ("", "pods", other) => {
                Err(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
            }
            ("", "nodes", _) => self.own_node(),
            ("", "persistentvolumeclaims", "status") => self.claim_status(),
            ("", "persistentvolumeclaims", _) => Err("may only update PVC status".to_owned()),
            ("", "serviceaccounts", "token") => self.token(),
            ("coordination.k8s.io", "leases", _) if self.write.namespace != LEASES => {
                Err(format!("can only access leases in the {LEASES:?} system namespace"))
            }
            ("coordination.k8s.io", "leases", _) => {
                self.is_own("can only access node lease with the same name as the requesting node")
            }
            ("storage.k8s.io", "csinodes", _) => {
                self.is_own("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices", _) => self.resource_slice(),
            ("certificates.k8s.io", "certificatesigningrequests", "") => self.signing_request(),
            _ => Ok(()),
        }
    }

    /// The name of the written object.
    fn name(&self) -> &str {
        match self.write.operation {
            RestrictedOperation::Create => self.write.object.map(Meta::name).unwrap_or_default(),
            _ => self.write.name,
        }
    }

    fn is_own(&self, why: &str) -> Result<(), String> {
        if self.name() == self.node { Ok(()) } else { Err(why.to_owned()) }
    }

    /// A stored object of the namespace of the request.
    fn stored(&self, resource: &str, name: &str) -> Option<Value> {
        let key = Key::namespaced(resource, self.write.namespace, name);
        self.write.objects.newest(&key).map(|entry| entry.object.tree().into_owned())
    }

    fn stored_in_cluster(&self, resource: &str, name: &str) -> Option<Value> {
        self.write.objects.newest(&Key::cluster(resource, name)).map(|entry| entry.object.tree().into_owned())
    }

    /// Whether a pod runs on the node. A pod that is missing gets a 404 later.
    fn runs_here(&self, pod: Option<&Value>, why: impl FnOnce() -> String) -> Result<(), String> {
        match pod {
            Some(pod) if tree::text(pod, &["spec", "nodeName"]) != self.node => Err(why()),
            _ => Ok(()),
        }
    }

    fn pod(&self) -> Result<(), String> {
        let node = self.node;
        match self.write.operation {
            RestrictedOperation::Create => self.mirror_pod(),
            RestrictedOperation::Delete => self.runs_here(self.write.old, || {
                format!("node {node:?} can only delete pods with spec.nodeName set to itself")
            }),
            operation => {
                let operation = operation.name();
                Err(format!("unexpected operation {operation:?}, node {node:?} can only create and delete mirror pods"))
            }
        }
    }

    fn mirror_pod(&self) -> Result<(), String> {
        let (node, Some(pod)) = (self.node, self.write.object) else { return Ok(()) };
        if text_map(pod.meta("annotations")).get(MIRROR).is_none() {
            return Err(format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"));
        }
        self.runs_here(Some(pod), || format!("node {node:?} can only create pods with spec.nodeName set to itself"))?;
        let owners = tree::items(pod, &["metadata", "ownerReferences"]);
        let itself = || Err(format!("node {node:?} can only create pods with an owner reference set to itself"));
        let owner = match owners {
            [owner] => owner,
            [] => return itself(),
            _ => {
                let why = "can only create pods with a single owner reference set to itself";
                return Err(format!("node {node:?} {why}"));
            }
        };
        let text = |field: &str| tree::text(owner, &[field]);
        if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", node) {
            return itself();
        }
        if owner.get("controller") != Some(&Value::Bool(true)) {
            return Err(format!("node {node:?} can only create pods with a controller owner reference set to itself"));
        }
        if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
            return Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
        }
        let stored = self.stored_in_cluster("nodes", node);
        let uid = stored.as_ref().map(|stored| stored.uid().to_owned());
        let uid = uid.ok_or_else(|| format!("error looking up node {node} to verify uid: node {node:?} not found"))?;
        if text("uid") != uid {
            return Err(format!("node {node} UID mismatch: expected {} got {uid}", text("uid")));
        }
        match reference(pod) {
            Some(what) => Err(format!("node {node:?} can not create pods that reference {what}")),
            None => Ok(()),
        }
    }

    fn pod_status(&self) -> Result<(), String> {
        let node = self.node;
        let (RestrictedOperation::Update, Some(old), Some(new)) =
            (self.write.operation, self.write.old, self.write.object)
        else {
            return Err(format!("unexpected operation {:?}", self.write.operation.name()));
        };
        self.runs_here(Some(old), || {
            format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself")
        })?;
        let differs = |path: &[&str]| !is_same(tree::get(old, path), tree::get(new, path));
        if differs(&["metadata", "labels"]) {
            return Err(format!("node {node:?} cannot update labels through pod status"));
        }
        if differs(&["status", "resourceClaimStatuses"]) {
            return Err(format!("node {node:?} cannot update resource claim statues"));
        }
        if differs(&["status", "extendedResourceClaimStatus"]) {
            return Err(format!("node {node:?} cannot update extended resource claim status"));
        }
        Ok(())
    }

    fn claim_status(&self) -> Result<(), String> {
        let (RestrictedOperation::Update, Some(old), Some(new)) =
            (self.write.operation, self.write.old, self.write.object)
        else {
            return Err(format!("unexpected operation {:?}", self.write.operation.name()));
        };
        let rest = |claim: &Value| {
            let mut claim = claim.clone();
            for path in [
                &["metadata", "resourceVersion"],
                &["metadata", "managedFields"],
                &["status", "capacity"],
                &["status", "conditions"],
                &["status", "allocatedResources"],
                &["status", "allocatedResourceStatuses"],
            ] {
                tree::remove(&mut claim, path);
            }
            claim
        };
        if rest(old) == rest(new) {
            return Ok(());
        }
        let why = "is not allowed to update fields other than status.quantity and status.conditions";
        Err(format!("node {:?} {why}", self.node))
    }

    fn own_node(&self) -> Result<(), String> {
        let (node, name) = (self.node, self.name());
        if name != node {
            return Err(format!("node {node:?} is not allowed to modify node {name:?}"));
        }
        let Some(new) = self.write.object else { return Ok(()) };
        let source = ["spec", "configSource"];
        let has_source = tree::get(new, &source).is_some_and(|found| !found.is_null());
        let Some(old) = self.write.old else {
            if has_source {
                return Err(format!("node {node:?} is not allowed to create pods with a non-nil configSource"));
            }
            let labels = forbidden_labels(new, &Value::Null);
            return match labels.is_empty() {
                true => Ok(()),
                false => Err(format!("node {node:?} is not allowed to set the following labels: {labels}")),
            };
        };
        let differs = |path: &[&str]| !is_same(tree::get(old, path), tree::get(new, path));
        if has_source && differs(&source) {
            return Err(format!("node {node:?} is not allowed to update configSource to a new non-nil configSource"));
        }
        if differs(&["spec", "taints"]) {
            return Err(format!("node {node:?} is not allowed to modify taints"));
        }
        if differs(&["metadata", "ownerReferences"]) {
            return Err(format!("node {node:?} is not allowed to modify ownerReferences"));
        }
        let labels = forbidden_labels(new, old);
        if labels.is_empty() { Ok(()) } else { Err(format!("is not allowed to modify labels: {labels}")) }
    }

    fn token(&self) -> Result<(), String> {
        let Some(request) = self.write.object.filter(|_| self.write.operation == RestrictedOperation::Create) else {
            return Ok(());
        };
        let bound = |field| tree::text(request, &["spec", "boundObjectRef", field]);
        if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || bound("name").is_empty() {
            return Err("node requested token not bound to a pod".to_owned());
        }
        if bound("uid").is_empty() {
            return Err("node requested token with a pod binding without a uid".to_owned());
        }
        // The token request itself reports a pod that is missing.
        let Some(pod) = self.stored("pods", bound("name")) else { return Ok(()) };
        if bound("uid") != pod.uid() {
            return Err(format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have \
                 been deleted and then recreated",
                bound("uid")
            ));
        }
        let elsewhere = "node requested token bound to a pod scheduled on a different node";
        self.runs_here(Some(&pod), || elsewhere.to_owned())?;
        match tree::items(request, &["spec", "audiences"]) {
            [] | [_] => Ok(()),
            _ => Err("node may only request 0 or 1 audiences".to_owned()),
        }
    }

    /// The audience of a requested token, if the pod has no volume that needs it.
    fn foreign_audience(&self) -> Option<&'a str> {
        let resource = self.write.resource;
        let is_token = resource.is("", "serviceaccounts") && self.write.subresource == "token";
        let request = self.write.object.filter(|_| is_token && self.write.operation == RestrictedOperation::Create)?;
        let pod = self.stored("pods", tree::text(request, &["spec", "boundObjectRef", "name"]))?;
        let audience = tree::items(request, &["spec", "audiences"]).first().and_then(Value::as_str).unwrap_or_default();
        (!self.uses_audience(&pod, audience)).then_some(audience)
    }

    /// Whether a volume of a pod needs a token for an audience.
    fn uses_audience(&self, pod: &Value, audience: &str) -> bool {
        tree::items(pod, &["spec", "volumes"]).iter().any(|volume| {
            let sources = tree::items(volume, &["projected", "sources"]);
            let has_source = sources.iter().filter_map(|source| source.get("serviceAccountToken"));
            { has_source }.any(|source| tree::text(source, &["audience"]) == audience)
                || self.driver(pod, volume).is_some_and(|driver| {
                    let driver = self.stored_in_cluster("csidrivers.storage.k8s.io", &driver).unwrap_or_default();
                    let requests = tree::items(&driver, &["spec", "tokenRequests"]);
                    requests.iter().any(|request| tree::text(request, &["audience"]) == audience)
                })
        })
    }

    /// The CSI driver of a volume.
    fn driver(&self, pod: &Value, volume: &Value) -> Option<String> {
        let claim = if volume.get("ephemeral").is_some() {
            format!("{}-{}", pod.name(), tree::text(volume, &["name"]))
        } else {
            tree::text(volume, &["persistentVolumeClaim", "claimName"]).to_owned()
        };
        let driver = if claim.is_empty() {
            tree::text(volume, &["csi", "driver"]).to_owned()
        } else {
            let claim = self.stored("persistentvolumeclaims", &claim)?;
            let volume = self.stored_in_cluster("persistentvolumes", tree::text(&claim, &["spec", "volumeName"]))?;
            tree::text(&volume, &["spec", "csi", "driver"]).to_owned()
        };
        (!driver.is_empty()).then_some(driver)
    }

    fn resource_slice(&self) -> Result<(), String> {
        let (slice, verb) = match self.write.operation {
            RestrictedOperation::Create => (self.write.object, "create"),
            RestrictedOperation::Delete => (self.write.old, "delete"),
            _ => return Ok(()),
        };
        if slice.is_some_and(|slice| tree::text(slice, &["spec", "nodeName"]) == self.node) {
            return Ok(());
        }
        Err(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
    }

    fn signing_request(&self) -> Result<(), String> {
        let (RestrictedOperation::Create, Some(request)) = (self.write.operation, self.write.object) else {
            return Ok(());
        };
        let signer = tree::text(request, &["spec", "signerName"]);
        if !matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet") {
            return Ok(());
        }
        let wanted = format!("system:node:{}", self.node);
        let Some(common_name) = self.write.common_name else { return Ok(()) };
        if common_name(tree::text(request, &["spec", "request"]))? == wanted {
            return Ok(());
        }
        Err(format!("can only create a node CSR with CN={wanted}"))
    }
}

/// Absent and empty values are the same.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let is_unset = |value: &&Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    one.filter(|value| !is_unset(value)) == other.filter(|value| !is_unset(value))
}

/// Labels that differ, and that a kubelet must not change, separated by commas.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let [new, old] = [new, old].map(|node| text_map(node.meta("labels")));
    let changed = new.iter().filter(|(key, value)| old.get(key) != Some(*value)).map(|(key, _)| key);
    let removed = old.iter().filter(|(key, _)| new.get(key).is_none()).map(|(key, _)| key);
    let forbidden: BTreeSet<&str> =
        changed.chain(removed).map(|key| key.as_str()).filter(|key| is_forbidden(key)).collect();
    Vec::from_iter(forbidden).join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_in = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    let is_kubelet = KUBELET_LABELS.contains(&label) || KUBELET_PREFIXES.iter().any(|domain| is_in(domain));
    is_in(RESTRICTED_PREFIX) || ((is_in("kubernetes.io") || is_in("k8s.io")) && !is_kubelet)
}

/// The kind of other objects that a pod refers to.
fn reference(pod: &Value) -> Option<&'static str> {
    let has = |value: &Value, field: &str| value.get(field).is_some_and(|found| !found.is_null());
    let spec = pod.get("spec")?;
    if !tree::text(spec, &["serviceAccountName"]).is_empty() {
        return Some("serviceaccounts");
    }
    let containers = ["containers", "initContainers", "ephemeralContainers"];
    let containers = || containers.iter().flat_map(|field| tree::items(spec, &[field]));
    let refers = |from: &str, key: &str| {
        { containers() }.any(|container| {
            tree::items(container, &["envFrom"]).iter().any(|source| has(source, from))
                || tree::items(container, &["env"])
                    .iter()
                    .any(|variable| tree::get(variable, &["valueFrom", key]).is_some())
        })
    };
    if !tree::items(spec, &["imagePullSecrets"]).is_empty() || refers("secretRef", "secretKeyRef") {
        return Some("secrets");
    }
    if refers("configMapRef", "configMapKeyRef") {
        return Some("configmaps");
    }
    if !tree::items(spec, &["resourceClaims"]).is_empty() {
        return Some("resourceclaims");
    }
    tree::items(spec, &["volumes"]).iter().find_map(|volume| {
        let of_volume = REFERRING_VOLUMES.iter().find(|(field, _)| has(volume, field));
        let sources = tree::items(volume, &["projected", "sources"]);
        let of_sources =
            sources.iter().find_map(|source| REFERRING_SOURCES.iter().find(|(field, _)| has(source, field)));
        of_volume.or(of_sources).map(|(_, what)| *what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_sets_its_own_labels_only() {
        for label in
            ["kubernetes.io/hostname", "node.kubernetes.io/any", "a.kubelet.kubernetes.io/x", "mine", "example.com/x"]
        {
            assert!(!is_forbidden(label), "{label}");
        }
        for label in
            ["node-restriction.kubernetes.io/x", "a.node-restriction.kubernetes.io/x", "kubernetes.io/x", "x.k8s.io/y"]
        {
            assert!(is_forbidden(label), "{label}");
        }
        let node = |labels: &str| format!(r#"{{"metadata":{{"labels":{labels}}}}}"#).parse().expect("valid JSON");
        let (old, new): (Value, Value) =
            (node(r#"{"k8s.io/a":"1","k8s.io/b":"1"}"#), node(r#"{"k8s.io/b":"2","c":"1"}"#));
        assert_eq!(forbidden_labels(&new, &old), "k8s.io/a, k8s.io/b");
        assert_eq!(forbidden_labels(&new, &new), "");
    }
}
