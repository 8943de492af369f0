//! Rules that objects have to keep, in the server's words for those who break them.

mod access;
mod capacity;
mod config;
mod container;
mod control;
mod custom;
mod definition;
mod event;
mod job;
mod metadata;
mod network;
mod number;
mod pod;
mod policy;
mod probe;
mod schedule;
mod selector;
mod service;
mod volume;
mod workload;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use crate::catalog::Resource;
use crate::registry::Part;

/// What is wrong with a new object.
pub(super) fn create(resource: &Resource, value: &Value) -> Vec<StatusCause> {
    let mut causes = metadata::create(resource, value);
    causes.extend(content(resource, value, None));
    causes
}

/// What is wrong with an object that takes the place of another.
pub(super) fn update(resource: &Resource, old: &Value, new: &Value, part: Part) -> Vec<StatusCause> {
    let mut causes = metadata::update(resource, old, new);
    match part {
        Part::Main => causes.extend(content(resource, new, Some(old))),
        Part::Status => causes.extend(status(resource, old, new)),
        Part::Internal => {}
    }
    causes
}

fn status(resource: &Resource, old: &Value, value: &Value) -> Vec<StatusCause> {
    if let Some(custom) = &resource.custom {
        return custom::status(custom, old, value);
    }
    match (&*resource.group, &*resource.plural) {
        ("apps", "deployments" | "replicasets" | "statefulsets") => workload::status(value),
        _ => Vec::new(),
    }
}

fn content(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(custom) = &resource.custom {
        return custom::object(custom, old, value);
    }
    match (&*resource.group, &*resource.plural) {
        ("", "configmaps") => config::config_map(value, old),
        ("", "secrets") => config::secret(value, old),
        ("", "pods") => pod::pod(value, old),
        ("", "services") => service::service(value, old),
        ("", "events") => event::core(value),
        ("events.k8s.io", "events") => event::newer(value, old),
        ("apps", "deployments") => workload::deployment(value, old),
        ("apps", "replicasets") => workload::replica_set(value, old),
        ("apps", "statefulsets") => workload::stateful_set(value, old),
        ("apps", "daemonsets") => workload::daemon_set(value, old),
        ("", "limitranges") => capacity::limit_range(value),
        ("", "resourcequotas") => capacity::quota(value, old),
        ("", "persistentvolumeclaims") => capacity::claim(value, old),
        ("policy", "poddisruptionbudgets") => policy::disruption_budget(value),
        ("autoscaling", "horizontalpodautoscalers") => policy::autoscaler(value),
        ("scheduling.k8s.io", "priorityclasses") => policy::priority_class(value, old),
        ("batch", "jobs") => job::job(value, old),
        ("batch", "cronjobs") => job::cron_job(value, old),
        ("coordination.k8s.io", "leases") => config::lease(value),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => access::role(value, resource.namespaced),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            access::binding(value, old, resource.namespaced)
        }
        ("networking.k8s.io", "ingresses") => network::ingress(value),
        ("networking.k8s.io", "networkpolicies") => policy::network_policy(value),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            control::webhooks(value)
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => control::policy(value),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => control::binding(value),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => control::mutating_policy(value),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::definition(value, old),
        _ => Vec::new(),
    }
}
