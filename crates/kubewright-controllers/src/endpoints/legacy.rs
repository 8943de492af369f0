//! `Endpoints` objects, for clients that predate slices.

use std::sync::{Arc, PoisonError};

use kubewright_api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints as EndpointsObject, Service};
use kubewright_client::Api;
use kubewright_core::{List, Map, Object, ObjectKey, Str};

use super::Endpoints;
use super::backends::{BackendPod, Groups};
use crate::deletion::delete_exactly;
use crate::error::Error;
use crate::worker::Synced;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";
/// The annotation of a truncated object.
#[doc(alias = "EndpointsOverCapacity")]
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Maximum number of addresses in an object; slices have no such limit.
const ROOM: usize = 1000;

impl Endpoints {
    /// Creates or updates the endpoints object.
    pub(super) async fn write_legacy(&self, service: &Service, groups: &Groups) -> Result<(), Error> {
        let known = self.legacy.namespace(service.namespace()).get(service.name());
        let (mut subsets, labels) = (subsets(service, groups), labels(service));
        let is_cut = truncate(&mut subsets);
        let api = Api::<EndpointsObject>::namespaced(&self.client, service.namespace());
        let Some(known) = known else {
            let mut object = EndpointsObject { subsets, ..Default::default() };
            object.metadata.name = service.metadata.name.clone();
            object.metadata.namespace = service.metadata.namespace.clone();
            object.metadata.labels = labels;
            note_cut(&mut object.metadata.annotations, is_cut);
            return match api.create(&object).await {
                Err(error) if !error.is_already_exists() => Err(error.into()),
                _ => Ok(()),
            };
        };
        let mut changed = EndpointsObject { subsets, ..(*known).clone() };
        changed.metadata.labels = labels;
        note_cut(&mut changed.metadata.annotations, is_cut);
        if changed == *known {
            return Ok(());
        }
        match api.update(&changed).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Deletes the endpoints of a deleted service, even user-written ones. Endpoints that precede
    /// their service are kept.
    pub(super) async fn remove_legacy(&self, key: &ObjectKey) -> Synced {
        let known = self.legacy.namespace(key.namespace().clone()).get(key.name());
        let is_ours = known.as_ref().is_some_and(|known| known.labels().get(MANAGED_BY) == Some(CONTROLLER));
        let is_gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner).contains(key);
        if !is_ours && !is_gone {
            return Ok(None);
        }
        let api = Api::<EndpointsObject>::namespaced(&self.client, key.namespace().clone());
        let found = match known {
            Some(known) => Some(known),
            // Written just before the deletion, so the cache may not show it yet.
            None => api.get_opt(key.name()).await?.map(Arc::new),
        };
        if let Some(found) = found {
            delete_exactly(&api, &*found).await?;
        }
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(None)
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
    // A pod without any of the ports is omitted here, but not in slices.
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

/// Truncates the addresses: those that are not ready first, proportionally per subset. Returns
/// whether anything was removed.
#[doc(alias = "truncateEndpoints")]
fn truncate(subsets: &mut List<EndpointSubset>) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let unready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + unready <= ROOM {
        return false;
    }
    let (room, total) = if ready > ROOM { (ROOM, ready) } else { (ROOM - ready, unready) };
    let mut left = room;
    for subset in subsets.iter_mut() {
        if ready > ROOM {
            subset.not_ready_addresses = List::new();
        }
        let cut = if ready > ROOM { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        let share = (cut.len() * room).div_ceil(total).min(left);
        *cut = cut.iter().take(share).cloned().collect();
        left -= cut.len();
    }
    subsets.retain(|subset| !subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
    true
}

fn note_cut(annotations: &mut Map<Str>, is_cut: bool) {
    if is_cut {
        drop(annotations.insert(OVER_CAPACITY, "truncated".into()))
    } else {
        drop(annotations.remove(OVER_CAPACITY))
    }
}

fn address(backend: &BackendPod) -> EndpointAddress {
    EndpointAddress {
        ip: backend.address.clone(),
        hostname: backend.hostname.clone(),
        node_name: backend.node.clone(),
        target_ref: Some(backend.target.clone().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unready_addresses_are_truncated_first_and_subsets_in_proportion() {
        for (before, after) in [
            (&[(600, 400)][..], &[(600, 400)][..]),
            (&[(600, 500)], &[(600, 400)]),
            (&[(300, 400), (300, 200)], &[(300, 267), (300, 133)]),
            (&[(1500, 7), (500, 7)], &[(750, 0), (250, 0)]),
            (&[(1000, 1)], &[(1000, 0)]),
            (&[(1000, 0), (0, 1)], &[(1000, 0)]),
        ] {
            let addresses = |count: usize| vec![EndpointAddress::default(); count].into_iter().collect();
            let subset = |(ready, unready): &(usize, usize)| EndpointSubset {
                addresses: addresses(*ready),
                not_ready_addresses: addresses(*unready),
                ..Default::default()
            };
            let mut subsets: List<_> = before.iter().map(subset).collect();
            assert_eq!(truncate(&mut subsets), before != after, "{before:?}");
            let sizes = subsets.iter().map(|one| (one.addresses.len(), one.not_ready_addresses.len()));
            assert_eq!(sizes.collect::<Vec<_>>(), after, "{before:?}");
        }
    }

    #[test]
    fn a_truncated_endpoints_object_is_annotated() {
        let mut annotations = Map::from([("own", Str::from("kept"))]);
        note_cut(&mut annotations, true);
        assert_eq!(annotations.get(OVER_CAPACITY).map(|text| text.as_str()), Some("truncated"));
        note_cut(&mut annotations, false);
        assert!(annotations.get(OVER_CAPACITY).is_none() && annotations.len() == 1);
    }
}
