//! Validates objects. Messages equal those of kube-apiserver.

mod access;
mod address;
mod affinity;
mod aggregation;
mod annotation;
mod autoscaler;
mod capacity;
mod claim;
mod condition;
mod config;
mod container;
mod control;
mod custom;
mod definition;
mod definition_version;
mod device;
mod device_claim;
mod device_slice;
mod device_status;
mod dns;
mod endpoints;
mod environment;
mod event;
mod flow;
mod flow_fixed;
mod job;
mod job_policy;
mod job_status;
mod leniency;
mod metadata;
mod mount;
mod namespace;
mod network;
mod node;
mod number;
mod persistent_volume;
mod pod;
mod pod_resources;
mod pod_status;
mod pod_update;
mod policy;
mod probe;
mod projected;
mod restart;
mod schedule;
mod security;
mod selector;
mod service;
mod service_address;
mod set;
mod signing;
mod storage;
mod system;
mod text;
mod volume;
mod volume_source;
mod webhook;
mod workload;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

pub use metadata::path_segment;
pub use text::is_domain_path;

use crate::Part;
use crate::ValidatedResource;

/// Validates a new object.
pub fn create(resource: &ValidatedResource<'_>, value: &Value) -> Vec<StatusCause> {
    let mut causes = metadata::create(resource, value);
    if let Some(custom) = &resource.custom {
        return custom::object(custom, causes, value, None, &mut Vec::new());
    }
    causes.extend(content(resource, value, None));
    causes
}

/// Validates an update. Violations that the old object already had may become `warnings`.
pub fn update(
    resource: &ValidatedResource<'_>,
    old: &Value,
    new: &Value,
    part: Part,
    warnings: &mut Vec<String>,
) -> Vec<StatusCause> {
    let mut causes = metadata::update(resource, old, new);
    match (part, &resource.custom) {
        (Part::Main, Some(custom)) => return custom::object(custom, causes, new, Some(old), warnings),
        (Part::Status, Some(custom)) => return custom::status(custom, causes, new, old, warnings),
        _ => {}
    }
    match part {
        Part::Main => causes.extend(content(resource, new, Some(old))),
        Part::Status => causes.extend(status(resource, old, new)),
        Part::Approval => causes.extend(signing::update(new, old, Part::Approval)),
        Part::Ephemeral => causes.extend(pod_update::ephemeral(new, old)),
        Part::Resize => causes.extend(pod_update::resize(new, old)),
        Part::Internal => {}
    }
    causes
}

fn status(resource: &ValidatedResource<'_>, old: &Value, value: &Value) -> Vec<StatusCause> {
    match (resource.group, resource.plural) {
        ("", "pods") => pod_status::status(value, old),
        ("apps", "deployments") => workload::deployment_status(value, old),
        ("apps", "replicasets") | ("", "replicationcontrollers") => workload::replicas_status(value),
        ("apps", "statefulsets") => set::stateful_status(value, old),
        ("apps", "daemonsets") => set::daemon_status(value, old),
        ("batch", "jobs") => job_status::status(value, old),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler::status(value),
        ("policy", "poddisruptionbudgets") => policy::budget_status(value),
        ("", "namespaces") => namespace::status(value).into_iter().collect(),
        ("", "nodes") => node::status(value),
        ("", "services") => service::status(value, old),
        ("networking.k8s.io", "ingresses") => network::ingress_status(value, old),
        ("", "persistentvolumeclaims") => claim::status(value),
        ("", "resourcequotas") => capacity::quota_status(value),
        ("resource.k8s.io", "resourceclaims") => device_status::status(value, old),
        ("storage.k8s.io", "volumeattachments") => storage::attachment_status(value),
        ("flowcontrol.apiserver.k8s.io", _) => flow::status(value),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => control::policy_status(value),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::status(value),
        ("apiregistration.k8s.io", "apiservices") => aggregation::status(value),
        ("certificates.k8s.io", "certificatesigningrequests") => signing::update(value, old, Part::Status),
        _ => Vec::new(),
    }
}

fn content(resource: &ValidatedResource<'_>, value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    match (resource.group, resource.plural) {
        ("", "configmaps") => config::config_map(value, old),
        ("", "secrets") => config::secret(value, old),
        ("", "pods") => pod::pod(value, old),
        ("", "services") => service::service(value, old),
        ("", "events") => event::core(value),
        ("events.k8s.io", "events") => event::newer(value, old),
        ("apps", "deployments") => workload::deployment(value, old),
        ("apps", "replicasets") => workload::replica_set(value, old),
        ("apps", "statefulsets") => set::stateful(value, old),
        ("apps", "daemonsets") => set::daemon(value, old),
        ("apps", "controllerrevisions") => set::revision(value, old),
        ("", "replicationcontrollers") => workload::replication_controller(value, old),
        ("", "podtemplates") => workload::pod_template(value, old),
        ("", "namespaces") => namespace::namespace(value, old),
        ("", "nodes") => node::node(value, old),
        ("", "endpoints") => endpoints::endpoints(value),
        ("", "persistentvolumes") => persistent_volume::volume(value, old),
        ("discovery.k8s.io", "endpointslices") => endpoints::slice(value, old),
        ("storage.k8s.io", "storageclasses") => storage::class(value, old),
        ("storage.k8s.io", "volumeattributesclasses") => storage::attributes_class(value, old),
        ("storage.k8s.io", "csidrivers") => storage::driver(value, old),
        ("storage.k8s.io", "csinodes") => storage::node(value, old),
        ("storage.k8s.io", "csistoragecapacities") => storage::capacity(value, old),
        ("storage.k8s.io", "volumeattachments") => storage::attachment(value, old),
        ("node.k8s.io", "runtimeclasses") => node::runtime_class(value, old),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => flow::schema(value),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => flow::level(value),
        ("resource.k8s.io", "deviceclasses") => device::class(value),
        ("resource.k8s.io", "resourceclaims") => device_claim::claim(value, old),
        ("resource.k8s.io", "resourceclaimtemplates") => device_claim::template(value, old),
        ("resource.k8s.io", "resourceslices") => device_slice::slice(value, old),
        ("", "limitranges") => capacity::limit_range(value),
        ("", "resourcequotas") => capacity::quota(value, old),
        ("", "persistentvolumeclaims") => claim::claim(value, old),
        ("policy", "poddisruptionbudgets") => policy::disruption_budget(value),
        ("autoscaling", "horizontalpodautoscalers") => autoscaler::autoscaler(value, old),
        ("scheduling.k8s.io", "priorityclasses") => policy::priority_class(value, old),
        ("batch", "jobs") => job::job(value, old),
        ("batch", "cronjobs") => job::cron_job(value, old),
        ("certificates.k8s.io", "certificatesigningrequests") => match old {
            Some(old) => signing::update(value, old, Part::Main),
            None => signing::request(value, None),
        },
        ("coordination.k8s.io", "leases") => config::lease(value),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => access::role(value, resource.namespaced),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            access::binding(value, old, resource.namespaced)
        }
        ("networking.k8s.io", "ingresses") => network::ingress(value, old),
        ("networking.k8s.io", "ingressclasses") => network::ingress_class(value, old),
        ("networking.k8s.io", "ipaddresses") => network::ip_address(value, old),
        ("networking.k8s.io", "servicecidrs") => network::service_ranges(value, old),
        ("networking.k8s.io", "networkpolicies") => policy::network_policy(value),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            webhook::webhooks(value, old)
        }
        ("admissionregistration.k8s.io", "validatingadmissionpolicies") => control::policy(value, old),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings") => control::binding(value, true),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings") => control::binding(value, false),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies") => control::mutating_policy(value, old),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition::definition(value, old),
        ("apiregistration.k8s.io", "apiservices") => aggregation::service(value),
        _ => Vec::new(),
    }
}
