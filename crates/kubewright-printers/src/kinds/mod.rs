//! The cells of built-in kinds, one file per group of kinds.
//!
//! Each function returns one cell for each column of its kind, in the order of the resource table.

mod access;
mod admission;
mod autoscaling;
mod batch;
mod config;
mod devices;
mod events;
mod flow;
mod networking;
mod nodes;
mod pods;
mod services;
mod storage;
mod workloads;

use std::cmp::Ordering;

use kubewright_core::{ResourceInfo, Value};

use super::object::PrintedObject;
pub(super) use autoscaling::scale as scale_cells;
pub(super) use pods::conditions;

/// The order of two rows in a table.
pub(super) type OrderOf = fn(&Value, &Value) -> Ordering;

/// The row order of a kind, if it differs from the list order.
pub(super) fn order_of(info: &ResourceInfo) -> Option<OrderOf> {
    let is_flow = (info.kind.group, info.kind.kind) == ("flowcontrol.apiserver.k8s.io", "FlowSchema");
    is_flow.then_some(flow::in_precedence)
}

/// Creates the cells of an object.
pub(super) type CellsOf = fn(&PrintedObject<'_>) -> Vec<Value>;

/// The cell function of a kind.
pub(super) fn cells_of(info: &ResourceInfo) -> CellsOf {
    match (info.kind.group, info.kind.kind) {
        ("", "Pod") => pods::pod,
        ("", "PodTemplate") => workloads::pod_template,
        ("", "ReplicationController") => workloads::replication_controller,
        ("", "Service") => services::service,
        ("", "Endpoints") => services::endpoints,
        ("", "Node") => nodes::node,
        ("", "ComponentStatus") => nodes::component_status,
        ("", "Event") | ("events.k8s.io", "Event") => events::event,
        ("", "Namespace") => config::namespace,
        ("", "ConfigMap") => config::config_map,
        ("", "Secret") => config::secret,
        ("", "ResourceQuota") => config::resource_quota,
        ("", "PersistentVolume") => storage::persistent_volume,
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim,
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ControllerRevision") => workloads::controller_revision,
        ("batch", "Job") => batch::job,
        ("batch", "CronJob") => batch::cron_job,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::horizontal_pod_autoscaler,
        ("policy", "PodDisruptionBudget") => autoscaling::pod_disruption_budget,
        ("discovery.k8s.io", "EndpointSlice") => services::endpoint_slice,
        ("networking.k8s.io", "Ingress") => networking::ingress,
        ("networking.k8s.io", "IngressClass") => networking::ingress_class,
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy,
        ("networking.k8s.io", "ServiceCIDR") => networking::service_cidr,
        ("networking.k8s.io", "IPAddress") => networking::ip_address,
        ("coordination.k8s.io", "Lease") => nodes::lease,
        ("node.k8s.io", "RuntimeClass") => nodes::runtime_class,
        ("scheduling.k8s.io", "PriorityClass") => nodes::priority_class,
        ("storage.k8s.io", "StorageClass") => storage::storage_class,
        ("storage.k8s.io", "VolumeAttachment") => storage::volume_attachment,
        ("storage.k8s.io", "VolumeAttributesClass") => storage::volume_attributes_class,
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver,
        ("storage.k8s.io", "CSINode") => storage::csi_node,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => access::role_binding,
        ("certificates.k8s.io", "CertificateSigningRequest") => access::certificate_signing_request,
        ("apiregistration.k8s.io", "APIService") => admission::api_service,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            admission::webhook_configuration
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::validating_policy,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => admission::mutating_policy,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding") => {
            admission::policy_binding
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::flow_schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow::priority_level_configuration,
        ("resource.k8s.io", "ResourceClaim") => devices::resource_claim,
        ("resource.k8s.io", "ResourceSlice") => devices::resource_slice,
        _ if info.columns.iter().any(|column| column.name == "Created At") => default_cells,
        _ => name_and_age,
    }
}

/// Name and creation time, for kinds without columns of their own.
pub(super) fn default_cells(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.text(&["metadata", "creationTimestamp"]).into()]
}

fn name_and_age(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.age()]
}
