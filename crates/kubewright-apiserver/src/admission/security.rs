//! Pod Security admission: enforces the pod security standard of each namespace's labels.
//!
//! `pod-security.kubernetes.io/enforce` rejects pods. `…/warn` sends warnings to the client for
//! pods and for workloads with a pod template. `…/audit` has no effect, because there is no audit
//! log. Version labels appear in messages; the checks are always those of the latest version.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;

use super::control::Control;
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;
use kubewright_storage::Key;
use kubewright_validation::pod_security::{Standard, images_differ};

/// Rejects a pod that violates the enforced standard, and warns about the `warn` standard.
pub(crate) fn check(
    cluster: &dyn ClusterState,
    control: &Control<'_>,
    resource: &Resource,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Rejection> {
    if !cluster.has_plugin(AdmissionPlugin::PodSecurity) {
        return Ok(());
    }
    let is_pod = resource.is("", "pods");
    let Some(pod) = pod_of(resource, new) else { return Ok(()) };
    match old.and_then(|old| pod_of(resource, old)) {
        Some(old) if is_pod && !images_differ(old, pod) => return Ok(()),
        Some(old) if !is_pod && old == pod => return Ok(()),
        _ => {}
    }
    let Some(namespace) = cluster.newest(&Key::cluster("namespaces", new.namespace())) else { return Ok(()) };
    let namespace = namespace.object.value();
    if is_pod && let Some(complaint) = Standard::read(namespace, "enforce").complaint(pod) {
        let why = complaint.replacen("violate", "violates", 1);
        return Err(Status::forbidden(&resource.group_resource(), new.name(), why).into());
    }
    if let Some(complaint) = Standard::read(namespace, "warn").complaint(pod) {
        control.warn(format!("would {complaint}"));
    }
    Ok(())
}

/// The pod of an object, or its pod template.
fn pod_of<'a>(resource: &Resource, value: &'a Value) -> Option<&'a Value> {
    match (&*resource.group, &*resource.plural) {
        _ if resource.is_custom() => None,
        ("", "pods") => Some(value),
        ("batch", "cronjobs") => tree::get(value, &["spec", "jobTemplate", "spec", "template"]),
        ("", "podtemplates") => value.get("template"),
        ("", "replicationcontrollers") | ("apps", _) | ("batch", "jobs") => tree::get(value, &["spec", "template"]),
        _ => None,
    }
}
