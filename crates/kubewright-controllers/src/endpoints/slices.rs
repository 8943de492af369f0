//! Endpoint slices of a service.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use kubewright_api::core::v1::Service;
use kubewright_api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kubewright_client::Api;
use kubewright_core::{GroupVersionKind, List, Map, Object, Str, owner};

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
        let plan = SlicePlan::new(service, groups, &mut known);
        let api = Api::<EndpointSlice>::namespaced(&self.client, service.namespace());
        for slice in plan.created {
            let written = api.create(&slice).await?;
            self.own_slices.written(&service.key(), &written);
        }
        for slice in plan.updated {
            let written = api.update(&slice).await?;
            self.own_slices.written(&service.key(), &written);
        }
        for surplus in known.into_iter().chain(left) {
            delete_exactly(&api, &*surplus).await?;
            self.own_slices.deleted(&service.key(), &*surplus);
        }
        Ok(())
    }
}

/// The slices to create and to update.
#[derive(Debug, Default)]
struct SlicePlan {
    created: Vec<EndpointSlice>,
    updated: Vec<EndpointSlice>,
}

impl SlicePlan {
    /// Plans few and small changes. Slices to delete are left in `known`.
    fn new(service: &Service, groups: &Groups, known: &mut Vec<Arc<EndpointSlice>>) -> Self {
        let mut plan = SlicePlan::default();
        let mut kept = 0;
        for (ports, backends) in groups {
            let empty = slice(service, ports, &[]);
            let of_group: Vec<_> = known.extract_if(.., |slice| slice.ports == empty.ports).collect();
            let (kept_here, surplus) = plan.place(&empty, backends, of_group);
            kept += kept_here;
            known.extend(surplus);
        }
        if kept == 0 && plan.created.is_empty() {
            // An empty slice means that there are no endpoints.
            let empty = slice(service, &[], &[]);
            match known.iter().position(|slice| are_equal(&empty, slice)) {
                Some(place) => drop(known.remove(place)),
                None => plan.created.push(empty),
            }
        }
        plan
    }

    /// Places the endpoints of one group: each stays in its slice, new ones go to slices that
    /// change anyway, else to the fullest one that has room for all, else to new ones. Returns how
    /// many slices stay, and those that have become empty.
    #[doc(alias = "reconcileByPortMapping")]
    fn place(
        &mut self,
        empty: &EndpointSlice,
        backends: &[BackendPod],
        known: Vec<Arc<EndpointSlice>>,
    ) -> (usize, Vec<Arc<EndpointSlice>>) {
        let identity = |endpoint: &Endpoint| {
            let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.clone());
            (uid, endpoint.addresses.first().cloned())
        };
        let mut missing: Vec<Option<Endpoint>> = backends.iter().map(|backend| Some(endpoint(backend))).collect();
        let of_identity = missing.iter().enumerate();
        let of_identity: HashMap<_, usize> =
            of_identity.filter_map(|(place, one)| one.as_ref().map(|one| (identity(one), place))).collect();
        let (mut changed, mut unchanged, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
        for slice in known {
            let wanted = slice.endpoints.iter().filter_map(|have| missing[*of_identity.get(&identity(have))?].take());
            let endpoints: List<Endpoint> = wanted.collect();
            if endpoints == slice.endpoints && empty.metadata.labels == slice.metadata.labels {
                unchanged.push((*slice).clone());
            } else if endpoints.is_empty() {
                surplus.push(slice);
            } else {
                let mut updated = EndpointSlice { endpoints, ..(*slice).clone() };
                updated.metadata.labels = empty.metadata.labels.clone();
                changed.push(updated);
            }
        }
        let mut missing: Vec<Endpoint> = missing.into_iter().flatten().collect();
        missing.reverse();
        changed.sort_by_key(|slice| Reverse(slice.endpoints.len()));
        changed.iter_mut().for_each(|slice| fill(slice, &mut missing));
        if !missing.is_empty() && missing.len() < ROOM {
            let has_room = |(_, slice): &(usize, &EndpointSlice)| slice.endpoints.len() + missing.len() <= ROOM;
            let fullest = unchanged.iter().enumerate().filter(has_room).max_by_key(|(_, slice)| slice.endpoints.len());
            if let Some(place) = fullest.map(|(place, _)| place) {
                let mut slice = unchanged.remove(place);
                fill(&mut slice, &mut missing);
                changed.push(slice);
            }
        }
        while !missing.is_empty() {
            let mut new = empty.clone();
            fill(&mut new, &mut missing);
            self.created.push(new);
        }
        let kept = changed.len() + unchanged.len();
        self.updated.extend(changed);
        (kept, surplus)
    }
}

/// Moves endpoints to a slice until it is full.
fn fill(slice: &mut EndpointSlice, missing: &mut Vec<Endpoint>) {
    while slice.endpoints.len() < ROOM
        && let Some(endpoint) = missing.pop()
    {
        slice.endpoints.push(endpoint);
    }
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

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::ObjectReference;

    use super::*;

    fn backends(numbers: impl IntoIterator<Item = usize>) -> Groups {
        let backend = |number: usize| BackendPod {
            address: format!("10.0.{}.{}", number / 250, number % 250).into(),
            node: None,
            hostname: None,
            target: ObjectReference { uid: Some(format!("pod-{number}").into()), ..Default::default() },
            is_ready: true,
            is_serving: true,
            is_terminating: false,
        };
        let backends: Vec<_> = numbers.into_iter().map(backend).collect();
        let port = PodPort { name: None, protocol: Some("TCP".into()), port: 80, app_protocol: None };
        if backends.is_empty() { Groups::new() } else { [(vec![port], backends)].into() }
    }

    /// Applies a plan, and returns the sizes of created, updated and deleted slices.
    fn apply(slices: &mut Vec<Arc<EndpointSlice>>, groups: &Groups) -> [Vec<usize>; 3] {
        let mut service = Service::default();
        service.metadata.name = Some("web".into());
        let mut deleted = slices.clone();
        let plan = SlicePlan::new(&service, groups, &mut deleted);
        slices.retain(|slice| !deleted.iter().any(|one| Arc::ptr_eq(one, slice)));
        for updated in &plan.updated {
            let have = slices.iter_mut().find(|slice| slice.metadata.name == updated.metadata.name);
            *have.expect("it is known") = Arc::new(updated.clone());
        }
        for (number, mut created) in plan.created.iter().cloned().enumerate() {
            created.metadata.name = Some(format!("web-{}-{number}", slices.len()).into());
            slices.push(Arc::new(created));
        }
        let sizes = |slices: &[EndpointSlice]| slices.iter().map(|slice| slice.endpoints.len()).collect();
        [sizes(&plan.created), sizes(&plan.updated), deleted.iter().map(|slice| slice.endpoints.len()).collect()]
    }

    #[test]
    fn a_change_of_one_address_changes_one_slice() {
        let mut slices = Vec::new();
        for (groups, want) in [
            (backends([]), [vec![0], vec![], vec![]]),
            (backends([]), [vec![], vec![], vec![]]),
            (backends(0..250), [vec![100, 100, 50], vec![], vec![0]]),
            (backends(0..250), [vec![], vec![], vec![]]),
            // The first address goes: the others stay where they are.
            (backends(1..250), [vec![], vec![99], vec![]]),
            // A new one goes to the fullest slice with room.
            (backends(1..251), [vec![], vec![100], vec![]]),
            // One goes, another comes: in the same slice.
            (backends(2..252), [vec![], vec![100], vec![]]),
            (backends((2..252).chain(300..360)), [vec![60], vec![], vec![]]),
            (backends(2..10), [vec![], vec![8], vec![100, 50, 60]]),
            (backends([]), [vec![0], vec![], vec![8]]),
        ] {
            assert_eq!(apply(&mut slices, &groups), want);
        }
    }
}
