//! The backends of a service: addresses and ports of its pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_api::core::v1::{Container, ObjectReference, Pod, Service, ServicePort};
use kubewright_core::{IntOrString, Object, Str};

use crate::pods::{is_finished, is_ready, node_name};

/// A port of pods.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodPort {
    pub(super) name: Option<Str>,
    pub(super) protocol: Option<Str>,
    pub(super) port: i32,
    pub(super) app_protocol: Option<Str>,
}

/// A pod behind a service.
#[derive(Debug, Clone)]
pub(super) struct BackendPod {
    pub(super) address: Str,
    pub(super) node: Option<Str>,
    pub(super) hostname: Option<Str>,
    pub(super) target: ObjectReference,
    pub(super) is_ready: bool,
    pub(super) is_serving: bool,
    pub(super) is_terminating: bool,
}

/// Pods grouped by their ports: a port name may have different numbers. A pod without a port of
/// that name is listed with its other ports, or with none.
pub(super) type Groups = BTreeMap<Vec<PodPort>, Vec<BackendPod>>;

/// The backends of a service, sorted by address.
pub(super) fn find(service: &Service, pods: &[Arc<Pod>]) -> Groups {
    let mut groups = Groups::new();
    let Some(spec) = &service.spec else { return groups };
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    for pod in pods.iter().filter(|pod| !is_finished(pod)) {
        let Some(address) = pod.status.as_ref().and_then(|status| status.pod_ip.clone()) else { continue };
        let is_terminating = pod.is_being_deleted();
        let is_serving = is_ready(pod);
        let subdomain = pod.spec.as_ref().and_then(|spec| spec.subdomain.clone());
        let is_named = subdomain.is_some() && subdomain == service.metadata.name;
        let backend = BackendPod {
            address,
            node: Some(Str::from(node_name(pod))).filter(|node| !node.is_empty()),
            hostname: pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).filter(|_| is_named),
            target: ObjectReference {
                kind: Some("Pod".into()),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                ..Default::default()
            },
            is_ready: publishes_all || is_serving && !is_terminating,
            // Published not-ready addresses are not serving.
            is_serving,
            is_terminating,
        };
        let mut ports: Vec<PodPort> = spec.ports.iter().filter_map(|port| resolve(port, pod)).collect();
        ports.sort();
        groups.entry(ports).or_default().push(backend);
    }
    groups.values_mut().for_each(|backends| backends.sort_by(|a, b| a.address.cmp(&b.address)));
    groups
}

/// The number of a service port on a pod.
#[doc(alias = "FindPort")]
fn resolve(port: &ServicePort, pod: &Pod) -> Option<PodPort> {
    let number = match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => *number,
        Some(IntOrString::String(name)) if !name.is_empty() => {
            let spec = pod.spec.as_ref()?;
            // Sidecars are init containers with a restart policy, and have ports too.
            let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
            let containers = spec.containers.iter().chain(spec.init_containers.iter().filter(is_sidecar));
            let mut ports = containers.flat_map(|container| container.ports.iter());
            let protocol = |protocol: &Option<Str>| protocol.clone().unwrap_or("TCP".into());
            let named = ports
                .find(|one| one.name.as_ref() == Some(name) && protocol(&one.protocol) == protocol(&port.protocol));
            named?.container_port
        }
        _ => port.port,
    };
    Some(PodPort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: number,
        app_protocol: port.app_protocol.clone(),
    })
}
