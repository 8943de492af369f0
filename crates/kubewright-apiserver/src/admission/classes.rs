//! Applies StorageClasses, IngressClasses and RuntimeClasses to objects that use them.

use kubewright_core::meta::v1::Status;
use kubewright_core::{Quantity, Str, Value};

use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use kubewright_objects::object::{Meta, text_map, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::{Key, KeyRange};

/// The deprecated annotation with the storage class of a claim.
const OLD_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The deprecated annotation with the class of an ingress.
const OLD_INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Sets the default class of a new object, or applies its RuntimeClass to a pod.
pub(crate) fn complete(cluster: &dyn ClusterState, resource: &Resource, value: &mut Value) -> Result<(), Rejection> {
    let (plugin, field, annotation, classes, mark) = match (&*resource.group, &*resource.plural) {
        ("", "persistentvolumeclaims") => (
            AdmissionPlugin::DefaultStorageClass,
            "storageClassName",
            OLD_STORAGE_CLASS,
            "storageclasses.storage.k8s.io",
            "storageclass.kubernetes.io/is-default-class",
        ),
        ("networking.k8s.io", "ingresses") => (
            AdmissionPlugin::DefaultIngressClass,
            "ingressClassName",
            OLD_INGRESS_CLASS,
            "ingressclasses.networking.k8s.io",
            "ingressclass.kubernetes.io/is-default-class",
        ),
        ("", "pods") => return apply_runtime_class(cluster, resource, value),
        _ => return Ok(()),
    };
    if !cluster.has_plugin(plugin) {
        return Ok(());
    }
    let says =
        tree::get(value, &["spec", field]).is_some() || text_map(value.meta("annotations")).contains_key(annotation);
    if !says && let Some(name) = default_of(cluster, classes, mark) {
        tree::set(value, &["spec", field], name);
    }
    Ok(())
}

/// Checks again after mutation that a pod agrees with its RuntimeClass.
pub(crate) fn check(cluster: &dyn ClusterState, resource: &Resource, value: &Value) -> Result<(), Rejection> {
    let spec = |field: &str| tree::get(value, &["spec", field]).is_some();
    if !resource.is("", "pods") || !(spec("runtimeClassName") || spec("overhead")) {
        return Ok(());
    }
    apply_runtime_class(cluster, resource, &mut value.clone())
}

/// The newest class with the default-class annotation.
fn default_of(cluster: &dyn ClusterState, classes: &str, mark: &str) -> Option<Str> {
    let all = cluster.all(&KeyRange::resource(classes.to_owned()));
    let is_default =
        |class: &&Value| text_map(class.meta("annotations")).get(mark).is_some_and(|is| is.as_str() == "true");
    let made = |class: &Value| class.meta("creationTimestamp").and_then(Value::as_str).unwrap_or_default().to_owned();
    let defaults = all.iter().map(|entry| entry.object.value()).filter(is_default);
    // Classes of the same second are ordered by name.
    let latest = defaults.max_by(|one, two| made(one).cmp(&made(two)).then_with(|| two.name().cmp(one.name())));
    latest.map(|class| class.name().into())
}

/// Rejects the expansion of a claim whose storage class does not allow it.
pub(crate) fn check_growth(
    cluster: &dyn ClusterState,
    resource: &Resource,
    old: &Value,
    new: &Value,
) -> Result<(), Rejection> {
    let size =
        |claim: &Value| tree::text(claim, &["spec", "resources", "requests", "storage"]).parse::<Quantity>().ok();
    let grows = matches!((size(old), size(new)), (Some(before), Some(now)) if now > before);
    let is_on = cluster.has_plugin(AdmissionPlugin::PersistentVolumeClaimResize);
    if !is_on || !resource.is("", "persistentvolumeclaims") || !grows {
        return Ok(());
    }
    let class_of = |claim: &Value| match text_map(claim.meta("annotations")).get(OLD_STORAGE_CLASS) {
        Some(name) => name.clone(),
        None => tree::text(claim, &["spec", "storageClassName"]).into(),
    };
    let name = class_of(old);
    let class = cluster.newest(&Key::cluster("storageclasses.storage.k8s.io", &name));
    let may_grow = class.is_some_and(|class| tree::is_true(class.object.value(), &["allowVolumeExpansion"]));
    let why = match (tree::text(old, &["status", "phase"]), may_grow && !name.is_empty() && class_of(new) == name) {
        ("Bound", true) => return Ok(()),
        ("Bound", false) => {
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        }
        _ => "Only bound persistent volume claims can be expanded",
    };
    Err(Status::forbidden(&resource.group_resource(), new.name(), why).into())
}

/// Applies the overhead, node selector and tolerations of a pod's RuntimeClass.
fn apply_runtime_class(cluster: &dyn ClusterState, resource: &Resource, pod: &mut Value) -> Result<(), Rejection> {
    if !cluster.has_plugin(AdmissionPlugin::RuntimeClass) {
        return Ok(());
    }
    let refuse = |pod: &Value, why: &str| Err(Status::forbidden(&resource.group_resource(), pod.name(), why).into());
    let name: Str = tree::text(pod, &["spec", "runtimeClassName"]).into();
    let class = if name.is_empty() {
        None
    } else {
        match cluster.newest(&Key::cluster("runtimeclasses.node.k8s.io", &name)) {
            Some(class) => Some(class.object),
            None => return refuse(pod, &format!("pod rejected: RuntimeClass {:?} not found", name.as_str())),
        }
    };
    let nothing = Value::default();
    let class = class.as_ref().map_or(&nothing, |class| class.value());
    let overhead = tree::get(class, &["overhead", "podFixed"]).cloned();
    match (overhead, tree::get(pod, &["spec", "overhead"])) {
        (Some(overhead), None) => tree::set(pod, &["spec", "overhead"], overhead),
        (Some(overhead), Some(given)) if !is_same_amount(&overhead, given) => {
            return refuse(pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
        (None, Some(_)) => {
            return refuse(pod, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        }
        _ => {}
    }
    for (key, value) in text_map(tree::get(class, &["scheduling", "nodeSelector"])).iter() {
        let given: Str = tree::text(pod, &["spec", "nodeSelector", key]).into();
        if !given.is_empty() && given != *value {
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return refuse(pod, &why);
        }
        tree::set(pod, &["spec", "nodeSelector", key], value.clone());
    }
    let more = tree::items(class, &["scheduling", "tolerations"]);
    if !more.is_empty() {
        let mut all = tree::items(pod, &["spec", "tolerations"]).to_vec();
        all.extend(more.iter().filter(|one| !tree::items(pod, &["spec", "tolerations"]).contains(one)).cloned());
        tree::set(pod, &["spec", "tolerations"], all);
    }
    Ok(())
}

/// Whether two resource lists are equal, whatever the notation of their quantities.
fn is_same_amount(one: &Value, two: &Value) -> bool {
    let read = |value: &Value| -> Vec<(Str, Option<Quantity>)> {
        text_map(Some(value)).iter().map(|(key, amount)| (key.clone(), amount.parse().ok())).collect()
    };
    read(one) == read(two)
}
