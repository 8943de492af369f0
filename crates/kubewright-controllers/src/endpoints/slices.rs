//! Endpoint slices of a service.

use kubewright_api::core::v1::Service;
use kubewright_api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kubewright_client::Api;
use kubewright_core::{GroupVersionKind, Map, Object, Str, owner};

use super::Endpoints;
use super::backends::{BackendPod, Groups, PodPort};
use crate::deletion::delete_exactly;
use crate::error::Error;
use crate::indices;

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
const SERVICE: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Service");

/// Maximum number of endpoints in a slice.
const ROOM: usize = 100;

impl Endpoints {
    /// Updates the slices of a service with few writes.
    pub(super) async fn write_slices(&self, service: &Service, groups: &Groups) -> Result<(), Error> {
        if !self.own_slices.are_seen(&service.key(), self.slices.store()) {
            // The cache will show our last writes soon, which queues the key again.
            return Ok(());
        }
        let mut known = indices::slices_of(&self.slices.lister(), &service.key());
        known.retain(|slice| slice.labels().get(MANAGED_BY) == Some(CONTROLLER) && !slice.is_being_deleted());
        known.sort_by(|a, b| a.name().cmp(b.name()));
        // Slices of an earlier service of this name may not have been collected yet.
        let (mut known, left): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|slice| owner::is_controlled_by(&slice.metadata, &service.metadata));
        let mut wanted = desired(service, groups);
        // Correct slices stay, in any order.
        known.retain(|slice| match wanted.iter().position(|one| are_equal(one, slice)) {
            Some(place) => {
                wanted.remove(place);
                false
            }
            None => true,
        });
        let api = Api::<EndpointSlice>::namespaced(&self.client, service.namespace());
        let mut known = known.into_iter();
        for slice in wanted {
            let written = match known.next() {
                Some(old) => {
                    let mut changed = EndpointSlice { metadata: old.metadata.clone(), ..slice.clone() };
                    changed.metadata.labels = slice.metadata.labels;
                    api.update(&changed).await?
                }
                None => api.create(&slice).await?,
            };
            self.own_slices.written(&service.key(), &written);
        }
        for surplus in known.chain(left) {
            delete_exactly(&api, &*surplus).await?;
            self.own_slices.deleted(&service.key(), &*surplus);
        }
        Ok(())
    }
}

fn desired(service: &Service, groups: &Groups) -> Vec<EndpointSlice> {
    let mut slices: Vec<EndpointSlice> = Vec::new();
    for (ports, backends) in groups {
        slices.extend(backends.chunks(ROOM).map(|chunk| slice(service, ports, chunk)));
    }
    if slices.is_empty() {
        // An empty slice means that there are no endpoints.
        slices.push(slice(service, &[], &[]));
    }
    slices
}

fn slice(service: &Service, ports: &[PodPort], backends: &[BackendPod]) -> EndpointSlice {
    let mut slice = EndpointSlice {
        address_type: "IPv4".into(),
        endpoints: backends.iter().map(endpoint).collect(),
        ports: ports
            .iter()
            .map(|port| EndpointPort {
                // Absent and empty differ here: an unnamed port has the empty name.
                name: Some(port.name.clone().unwrap_or_default()),
                protocol: port.protocol.clone(),
                port: Some(port.port),
                app_protocol: port.app_protocol.clone(),
            })
            .collect(),
        ..Default::default()
    };
    slice.metadata.generate_name = Some(format!("{}-", service.name()).into());
    slice.metadata.namespace = service.metadata.namespace.clone();
    slice.metadata.labels = labels(service);
    slice.metadata.owner_references = [owner::new_controller_ref(&service.metadata, &SERVICE)].into();
    slice
}

fn labels(service: &Service) -> Map<Str> {
    let mut labels = service.metadata.labels.clone();
    labels.insert(SERVICE_NAME, service.name().into());
    labels.insert(MANAGED_BY, CONTROLLER.into());
    if service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None")) {
        labels.insert("service.kubernetes.io/headless", Str::new());
    }
    labels
}

fn endpoint(backend: &BackendPod) -> Endpoint {
    let conditions = EndpointConditions {
        ready: Some(backend.is_ready),
        serving: Some(backend.is_serving),
        terminating: Some(backend.is_terminating),
    };
    Endpoint {
        addresses: [backend.address.clone()].into(),
        conditions: Some(conditions.into()),
        hostname: backend.hostname.clone(),
        target_ref: Some(backend.target.clone().into()),
        node_name: backend.node.clone(),
        ..Default::default()
    }
}

fn are_equal(wanted: &EndpointSlice, have: &EndpointSlice) -> bool {
    wanted.endpoints == have.endpoints && wanted.ports == have.ports && wanted.metadata.labels == have.metadata.labels
}
