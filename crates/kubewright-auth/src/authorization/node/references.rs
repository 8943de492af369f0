//! The references from the pods of a node to secrets, config maps, claims, volumes and accounts.

use kubewright_core::{Str, Value};
use kubewright_objects::lookup::{IndexTerm, ObjectReader};
use kubewright_objects::object::{Meta, tree};
use kubewright_storage::Key;

/// Static pods have this annotation. A kubelet creates them, and must not grant itself rights by
/// them.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The index term of a pod: its node.
pub fn node_term(pod: &Value) -> Option<IndexTerm> {
    let node = tree::text(pod, &["spec", "nodeName"]);
    (!node.is_empty()).then(|| IndexTerm::Node { name: node.into() })
}

/// The objects that have to do with a node.
pub(super) struct NodeObjects<'a> {
    pub(super) objects: &'a dyn ObjectReader,
    pub(super) node: &'a str,
}

impl NodeObjects<'_> {
    /// Whether a pod runs on the node.
    pub(super) fn has_pod(&self, namespace: &str, name: &str) -> bool {
        self.owns_by("pods", namespace, name, "nodeName")
    }

    /// Whether a field of `spec` of an object names the node.
    pub(super) fn owns_by(&self, resource: &'static str, namespace: &str, name: &str, field: &str) -> bool {
        self.read(resource, namespace, name).is_some_and(|object| tree::text(&object, &["spec", field]) == self.node)
    }

    /// Whether a pod of the node uses a secret, by itself or by a volume.
    pub(super) fn use_secret(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(Some(namespace), |pod| {
            secrets_of(pod).any(|secret| secret == name)
                || claims_of(pod).any(|claim| self.volume_uses_secret(namespace, &claim, name))
        })
    }

    /// Whether a pod of the node uses a config map.
    pub(super) fn use_config_map(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(Some(namespace), |pod| config_maps_of(pod).any(|map| map == name))
    }

    /// Whether a pod of the node uses a volume claim.
    pub(super) fn use_claim(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(Some(namespace), |pod| claims_of(pod).any(|claim| claim == name))
    }

    /// Whether a pod of the node uses the claim that a volume is bound to.
    pub(super) fn use_volume(&self, name: &str) -> bool {
        let Some(volume) = self.read("persistentvolumes", "", name) else { return false };
        let claim = |field| tree::text(&volume, &["spec", "claimRef", field]);
        !claim("name").is_empty() && self.use_claim(claim("namespace"), claim("name"))
    }

    /// Whether a pod of the node runs as a service account.
    pub(super) fn use_service_account(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(Some(namespace), |pod| tree::text(pod, &["spec", "serviceAccountName"]) == name)
    }

    /// Whether a pod of the node uses a resource claim.
    pub(super) fn use_resource_claim(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(Some(namespace), |pod| {
            let named = tree::items(pod, &["spec", "resourceClaims"]).iter();
            let made = tree::items(pod, &["status", "resourceClaimStatuses"]).iter();
            let extended = tree::text(pod, &["status", "extendedResourceClaimStatus", "resourceClaimName"]);
            named.chain(made).any(|claim| tree::text(claim, &["resourceClaimName"]) == name) || extended == name
        })
    }

    fn volume_uses_secret(&self, namespace: &str, claim: &str, secret: &str) -> bool {
        let Some(claim_object) = self.read("persistentvolumeclaims", namespace, claim) else { return false };
        let volume = tree::text(&claim_object, &["spec", "volumeName"]);
        let Some(volume) = self.read("persistentvolumes", "", volume) else { return false };
        let bound = |field| tree::text(&volume, &["spec", "claimRef", field]);
        bound("namespace") == namespace
            && bound("name") == claim
            && secrets_of_volume(&volume).any(|(of, name)| of == namespace && name == secret)
    }

    /// Whether `test` holds for a pod of the node, other than a mirror pod.
    fn any_pod(&self, namespace: Option<&str>, test: impl Fn(&Value) -> bool) -> bool {
        let node = IndexTerm::Node { name: self.node.into() };
        let keys: Vec<Key> = self.objects.terms().keys(&node).cloned().collect();
        keys.iter().filter(|key| key.namespace() == namespace).any(|key| {
            self.objects.durable(key).is_some_and(|pod| {
                let pod = pod.object.tree();
                tree::get(&pod, &["metadata", "annotations", MIRROR]).is_none() && test(&pod)
            })
        })
    }

    fn read(&self, resource: &'static str, namespace: &str, name: &str) -> Option<Value> {
        let key = match namespace {
            "" => Key::cluster(resource, name),
            namespace => Key::namespaced(resource, namespace, name),
        };
        self.objects.durable(&key).map(|found| found.object.tree().into_owned())
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|kind| tree::items(pod, &["spec", kind]))
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    tree::items(pod, &["spec", "volumes"]).iter()
}

/// The names in the environment of containers: whole objects by `all`, single keys by `one`.
fn environment_names<'a>(pod: &'a Value, all: &'a str, one: &'a str) -> impl Iterator<Item = &'a str> {
    containers(pod).flat_map(move |container| {
        let from = tree::items(container, &["envFrom"]).iter().map(move |from| tree::text(from, &[all, "name"]));
        let keys = tree::items(container, &["env"]).iter();
        from.chain(keys.map(move |variable| tree::text(variable, &["valueFrom", one, "name"])))
    })
}

/// The names of the secrets that a pod names itself.
fn secrets_of(pod: &Value) -> impl Iterator<Item = &str> {
    const BY_VOLUME: [&[&str]; 10] = [
        &["azureFile", "secretName"],
        &["cephfs", "secretRef", "name"],
        &["cinder", "secretRef", "name"],
        &["csi", "nodePublishSecretRef", "name"],
        &["flexVolume", "secretRef", "name"],
        &["iscsi", "secretRef", "name"],
        &["rbd", "secretRef", "name"],
        &["scaleIO", "secretRef", "name"],
        &["secret", "secretName"],
        &["storageos", "secretRef", "name"],
    ];
    let pulled = tree::items(pod, &["spec", "imagePullSecrets"]).iter().map(|secret| tree::text(secret, &["name"]));
    let mounted = volumes(pod).flat_map(|volume| {
        let projected = tree::items(volume, &["projected", "sources"]).iter();
        let projected = projected.map(|source| tree::text(source, &["secret", "name"]));
        BY_VOLUME.iter().map(move |path| tree::text(volume, path)).chain(projected)
    });
    let names = pulled.chain(environment_names(pod, "secretRef", "secretKeyRef")).chain(mounted);
    names.filter(|name| !name.is_empty())
}

/// The names of the config maps that a pod uses.
fn config_maps_of(pod: &Value) -> impl Iterator<Item = &str> {
    let mounted = volumes(pod).flat_map(|volume| {
        let projected = tree::items(volume, &["projected", "sources"]).iter();
        let projected = projected.map(|source| tree::text(source, &["configMap", "name"]));
        projected.chain([tree::text(volume, &["configMap", "name"])])
    });
    environment_names(pod, "configMapRef", "configMapKeyRef").chain(mounted).filter(|name| !name.is_empty())
}

/// The claims that a pod names, and those of its ephemeral volumes.
fn claims_of(pod: &Value) -> impl Iterator<Item = Str> {
    volumes(pod).filter_map(|volume| match tree::text(volume, &["persistentVolumeClaim", "claimName"]) {
        "" if tree::get(volume, &["ephemeral"]).is_some() => {
            Some(format!("{}-{}", pod.name(), tree::text(volume, &["name"])).into())
        }
        "" => None,
        name => Some(name.into()),
    })
}

/// Namespaces and names of the secrets of a volume that the kubelet needs. Those for provisioners
/// and attachers are not among them.
fn secrets_of_volume(volume: &Value) -> impl Iterator<Item = (&str, &str)> {
    const REFERENCES: [(&str, &str); 10] = [
        ("cephfs", "secretRef"),
        ("cinder", "secretRef"),
        ("csi", "nodeExpandSecretRef"),
        ("csi", "nodePublishSecretRef"),
        ("csi", "nodeStageSecretRef"),
        ("flexVolume", "secretRef"),
        ("iscsi", "secretRef"),
        ("rbd", "secretRef"),
        ("scaleIO", "secretRef"),
        ("storageos", "secretRef"),
    ];
    // Without a namespace of its own, a reference is to the namespace of the claim.
    let of_claim = tree::text(volume, &["spec", "claimRef", "namespace"]);
    let named = REFERENCES.iter().map(move |(kind, field)| {
        let text = |part: &str| tree::text(volume, &["spec", kind, field, part]);
        (if text("namespace").is_empty() { of_claim } else { text("namespace") }, text("name"))
    });
    let azure = |field: &str| tree::text(volume, &["spec", "azureFile", field]);
    let azure = match azure("secretNamespace") {
        "" => (of_claim, azure("secretName")),
        namespace => (namespace, azure("secretName")),
    };
    named.chain([azure]).filter(|(_, name)| !name.is_empty())
}
