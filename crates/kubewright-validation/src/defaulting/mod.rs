//! Sets the defaults of API objects, as kube-apiserver does.

mod amounts;
mod control;
mod definition;
mod device;
mod network;
mod pod;
mod pod_amounts;
mod service;
mod storage;
mod workload;

use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::{ByteString, Value};

use crate::ValidatedResource;

pub use pod::{pod_requests, quality_of_service};

/// Sets the defaults of an object that kube-apiserver has stored. It sets them when it reads.
pub fn apply_stored(resource: &ValidatedResource<'_>, value: &mut Value) {
    apply(resource, value);
    // Go sets these before it generates the labels of the template, but in the same map.
    if resource.is("batch", "jobs") {
        workload::job_labels(value);
    }
}

/// Sets the defaults of an object.
pub fn apply(resource: &ValidatedResource<'_>, value: &mut Value) {
    if let Some(custom) = resource.custom {
        // Request bodies were defaulted while decoding. This call covers objects that the server
        // builds itself. Only applied objects still contain `null` values here.
        custom.schema.prune_and_default_applied(value);
        return;
    }
    match (resource.group, resource.plural) {
        ("", "namespaces") => {
            let name = value.name().to_owned();
            tree::object_mut(value, &["metadata", "labels"]).insert("kubernetes.io/metadata.name", name.into());
        }
        ("", "pods") => pod::pod(value),
        ("", "podtemplates") => {
            if let Some(spec) =
                tree::field_mut(value, "template").and_then(|template| tree::field_mut(template, "spec"))
            {
                pod::pod_spec(spec);
            }
        }
        ("", "services") => service::service(value),
        ("", "secrets") => secret(value),
        ("", "endpoints") => network::endpoints(value),
        ("", "persistentvolumeclaims") => storage::claim(value),
        ("", "persistentvolumes") => storage::volume(value),
        ("", "replicationcontrollers") => workload::replication_controller(value),
        ("", "limitranges") => storage::limit_range(value),
        ("", "nodes") => node(value),
        ("", "resourcequotas") => {
            for (part, field) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
                if let Some(part) = tree::field_mut(value, part) {
                    amounts::round_up(part, field);
                }
            }
        }
        ("", "events") => event(value),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::definition(value),
        ("apps", "deployments") => workload::deployment(value),
        ("apps", "replicasets") => workload::replica_set(value),
        ("apps", "statefulsets") => workload::stateful_set(value),
        ("apps", "daemonsets") => workload::daemon_set(value),
        ("autoscaling", "horizontalpodautoscalers") => workload::autoscaler(value),
        ("batch", "jobs") => workload::job(value),
        ("batch", "cronjobs") => workload::cron_job(value),
        ("discovery.k8s.io", "endpointslices") => network::endpoint_slice(value),
        ("networking.k8s.io", "ingresses") => network::ingress(value),
        ("networking.k8s.io", "ingressclasses") => network::ingress_class(value),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => control::flow_schema(value),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => control::priority_level(value),
        ("networking.k8s.io", "networkpolicies") => network::policy(value),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => role_binding(value),
        ("scheduling.k8s.io", "priorityclasses") => {
            tree::default(value, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("storage.k8s.io", "storageclasses") => {
            tree::default(value, "reclaimPolicy", "Delete");
            tree::default(value, "volumeBindingMode", "Immediate");
        }
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations") => control::webhooks(value, true),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations") => control::webhooks(value, false),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies" | "mutatingadmissionpolicies") => {
            control::policy(value);
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings") => {
            control::binding(value)
        }
        ("apiregistration.k8s.io", "apiservices") => control::aggregated_service(value),
        ("node.k8s.io", "runtimeclasses") => {
            if let Some(overhead) = tree::field_mut(value, "overhead") {
                amounts::round_up(overhead, "podFixed");
            }
        }
        ("resource.k8s.io", "resourceclaims") => device::claim(value),
        ("resource.k8s.io", "resourceclaimtemplates") => device::template(value),
        ("storage.k8s.io", "csidrivers") => storage::driver(value),
        _ => {}
    }
}

/// Moves `stringData` into `data`, and defaults the type to `Opaque`.
fn secret(value: &mut Value) {
    let texts = text_map(value.get("stringData"));
    tree::remove(value, &["stringData"]);
    for (key, text) in texts.iter() {
        let data = ByteString::from(text.as_str()).to_base64();
        tree::object_mut(value, &["data"]).insert(key.clone(), data.into());
    }
    tree::default_zero(value, "type", "Opaque");
}

/// Allocatable resources default to the capacity.
fn node(value: &mut Value) {
    if let Some(range) = tree::get(value, &["spec", "podCIDR"]).cloned() {
        tree::object_mut(value, &["spec"]).get_or_insert_with("podCIDRs", || Value::from(vec![range]));
    }
    if let Some(status) = tree::field_mut(value, "status") {
        amounts::round_up(status, "capacity");
        amounts::round_up(status, "allocatable");
    }
    let capacity = tree::get(value, &["status", "capacity"]).cloned();
    if let (Some(capacity), None) = (capacity, tree::get(value, &["status", "allocatable"])) {
        tree::set(value, &["status", "allocatable"], capacity);
    }
}

/// Events of the newer group lack some fields that core events always have.
fn event(value: &mut Value) {
    for field in ["source", "involvedObject"] {
        tree::default(value, field, tree::map([]));
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        tree::default(value, field, Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        tree::default(value, field, "");
    }
}

fn role_binding(value: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = tree::field_mut(value, "roleRef") {
        tree::default_zero(role, "apiGroup", GROUP);
    }
    for subject in tree::items_mut(value, "subjects") {
        if matches!(tree::text(subject, &["kind"]), "User" | "Group") {
            tree::default_zero(subject, "apiGroup", GROUP);
        }
    }
}
