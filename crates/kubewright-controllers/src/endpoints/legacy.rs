//! Endpoints of a service as one object, for clients from before slices.

use kubewright_api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints as EndpointsObject, Service};
use kubewright_client::Api;
use kubewright_core::{List, Map, Object, ObjectKey, Str};

use super::Endpoints;
use super::backends::{Backend, Groups};
use crate::error::Error;
use crate::worker::Synced;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

impl Endpoints {
    /// Makes the endpoints object what it should be.
    pub(super) async fn write_legacy(&self, service: &Service, groups: &Groups) -> Result<(), Error> {
        let known = self.legacy.namespace(service.namespace()).get(service.name());
        let (subsets, labels) = (subsets(service, groups), labels(service));
        let api = Api::<EndpointsObject>::namespaced(&self.client, service.namespace());
        let Some(known) = known else {
            let mut object = EndpointsObject { subsets, ..Default::default() };
            object.metadata.name = service.metadata.name.clone();
            object.metadata.namespace = service.metadata.namespace.clone();
            object.metadata.labels = labels;
            return match api.create(&object).await {
                Err(error) if !error.is_already_exists() => Err(error.into()),
                _ => Ok(()),
            };
        };
        if known.subsets == subsets && known.metadata.labels == labels {
            return Ok(());
        }
        let mut changed = EndpointsObject { subsets, ..(*known).clone() };
        changed.metadata.labels = labels;
        match api.update(&changed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the endpoints that were made for a service that is gone.
    pub(super) async fn remove_legacy(&self, key: &ObjectKey) -> Synced {
        let known = self.legacy.namespace(key.namespace().clone()).get(key.name());
        let is_ours = known.is_some_and(|known| known.labels().get(MANAGED_BY) == Some(CONTROLLER));
        if !is_ours {
            return Ok(None);
        }
        match Api::<EndpointsObject>::namespaced(&self.client, key.namespace().clone()).delete(key.name()).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(None),
        }
    }
}

fn labels(service: &Service) -> Map<Str> {
    let mut labels = service.metadata.labels.clone();
    labels.insert(MANAGED_BY, CONTROLLER.into());
    if service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None")) {
        labels.insert("service.kubernetes.io/headless", Str::new());
    }
    labels
}

fn subsets(service: &Service, groups: &Groups) -> List<EndpointSubset> {
    let mut subsets = List::new();
    let has_ports = service.spec.as_ref().is_some_and(|spec| !spec.ports.is_empty());
    // Here a pod without any of the ports is not behind the service; in slices it is.
    for (ports, backends) in groups.iter().filter(|(ports, _)| !has_ports || !ports.is_empty()) {
        let addresses = |is_ready: bool| -> List<EndpointAddress> {
            let wanted = backends.iter().filter(|one| one.is_ready == is_ready && (is_ready || !one.is_terminating));
            wanted.map(address).collect()
        };
        let subset = EndpointSubset {
            addresses: addresses(true),
            not_ready_addresses: addresses(false),
            ports: ports
                .iter()
                .map(|port| EndpointPort {
                    name: port.name.clone(),
                    port: port.port,
                    protocol: port.protocol.clone(),
                    app_protocol: port.app_protocol.clone(),
                })
                .collect(),
        };
        if !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty() {
            subsets.push(subset);
        }
    }
    subsets
}

fn address(backend: &Backend) -> EndpointAddress {
    EndpointAddress {
        ip: backend.address.clone(),
        hostname: backend.hostname.clone(),
        node_name: backend.node.clone(),
        target_ref: Some(backend.target.clone().into()),
    }
}
