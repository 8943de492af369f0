//! Mirrors user-written endpoints of services without a selector to slices.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use kubewright_api::core::v1::{EndpointAddress, EndpointSubset, Endpoints as EndpointsObject, ObjectReference};
use kubewright_api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kubewright_client::Api;
use kubewright_core::{GroupVersionKind, Map, Object, ObjectKey, Str, owner};

use super::Endpoints;
use super::slices::{MANAGED_BY, SERVICE_NAME};
use crate::deletion::delete_exactly;
use crate::error::Error;
use crate::indices;

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const ENDPOINTS: GroupVersionKind = GroupVersionKind::from_static("", "v1", "Endpoints");
/// The label of endpoints that are not mirrored.
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of endpoints used for leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not mirrored.
const OWN_ANNOTATIONS: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// Maximum number of mirrored addresses of a subset, and of a slice.
#[doc(alias = "MaxEndpointsPerSubset")]
const ROOM: usize = 1000;

/// The result of mirroring.
#[derive(Default)]
struct Mirrored {
    /// By address type and ports, which all endpoints of a slice share.
    slices: BTreeMap<(&'static str, Vec<Port>), Unique>,
    invalid: usize,
    /// Including invalid ones.
    skipped: usize,
}

/// Unique endpoints of a slice, ready or not.
#[derive(Default)]
struct Unique {
    all: Vec<Endpoint>,
    /// Positions by identity, because many subsets with equal ports may have many addresses.
    places: HashMap<Identity, usize>,
}

/// Address, host name, node and target.
type Identity = (Str, Option<Str>, Option<Str>, Option<[Option<Str>; 7]>);

/// Name, protocol, number and application protocol.
type Port = (Str, Option<Str>, i32, Option<Str>);

impl Endpoints {
    /// Updates the mirrored slices of a service.
    #[doc(alias = "EndpointSliceMirroringController")]
    pub(super) async fn mirror(&self, service: &ObjectKey) -> Result<(), Error> {
        let endpoints = self.legacy.namespace(service.namespace().clone()).get(service.name());
        let Some(endpoints) = endpoints.filter(|one| is_mirrored(one)) else {
            return self.remove_mirrored(service).await;
        };
        if !self.own_slices.are_seen(service, self.slices.store()) {
            // The cache will show our last writes soon, which queues the key again.
            return Ok(());
        }
        let mirrored = Mirrored::of(&endpoints);
        self.tell_of_skipped(&endpoints, &mirrored);
        let mut known = self.known_mirrored(service);
        let mut wanted: Vec<_> = mirrored.into_slices(&endpoints).map(|slice| (slice, None)).collect();
        // Reuses a slice with equal ports first, then any of the same address type, which is
        // immutable.
        for is_fit in [has_ports_of, has_type_of] {
            for (slice, old) in wanted.iter_mut().filter(|(_, old)| old.is_none()) {
                *old = known.iter().position(|known| is_fit(known, slice)).map(|place| known.remove(place));
            }
        }
        let api = Api::<EndpointSlice>::namespaced(&self.client, service.namespace().clone());
        for (slice, old) in wanted {
            let written = match old {
                Some(old) if is_equal(&slice, &old) => continue,
                Some(old) => {
                    let mut changed = EndpointSlice { metadata: old.metadata.clone(), ..slice };
                    changed.metadata.labels = slice.metadata.labels;
                    changed.metadata.annotations = slice.metadata.annotations;
                    changed.metadata.owner_references = slice.metadata.owner_references;
                    api.update(&changed).await?
                }
                None if endpoints.is_being_deleted() => continue,
                None => api.create(&slice).await?,
            };
            self.own_slices.written(service, &written);
        }
        self.remove_all(&known).await
    }

    /// Deletes the mirrored slices of a service that has a selector now, or is deleted.
    pub(super) async fn remove_mirrored(&self, service: &ObjectKey) -> Result<(), Error> {
        self.remove_all(&self.known_mirrored(service)).await
    }

    async fn remove_all(&self, slices: &[Arc<EndpointSlice>]) -> Result<(), Error> {
        for slice in slices {
            delete_exactly(&Api::<EndpointSlice>::namespaced(&self.client, slice.namespace()), &**slice).await?;
        }
        Ok(())
    }

    fn known_mirrored(&self, service: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        let mut known = indices::slices_of(&self.slices.lister(), service);
        known.retain(|slice| slice.labels().get(MANAGED_BY) == Some(CONTROLLER) && !slice.is_being_deleted());
        known.sort_by(|a, b| a.name().cmp(b.name()));
        known
    }

    fn tell_of_skipped(&self, endpoints: &EndpointsObject, mirrored: &Mirrored) {
        let Mirrored { invalid, skipped, .. } = mirrored;
        if *invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.mirror_events.warning(endpoints, "InvalidIPAddress", message);
        }
        if skipped > invalid {
            let message = format!(
                "A max of {ROOM} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped"
            );
            self.mirror_events.warning(endpoints, "TooManyAddressesToMirror", message);
        }
    }
}

#[doc(alias = "shouldMirror")]
fn is_mirrored(endpoints: &EndpointsObject) -> bool {
    endpoints.labels().get(SKIP_MIRROR) != Some("true") && endpoints.annotations().get(LEADER).is_none()
}

impl Mirrored {
    fn of(endpoints: &EndpointsObject) -> Self {
        let mut mirrored = Mirrored::default();
        endpoints.subsets.iter().for_each(|subset| mirrored.add(subset));
        mirrored
    }

    fn add(&mut self, subset: &EndpointSubset) {
        let port = |port: &kubewright_api::core::v1::EndpointPort| {
            (port.name.clone().unwrap_or_default(), port.protocol.clone(), port.port, port.app_protocol.clone())
        };
        let mut ports: Vec<Port> = subset.ports.iter().map(port).collect();
        ports.sort();
        let ready = subset.addresses.iter().map(|address| (address, true));
        let unready = subset.not_ready_addresses.iter().map(|address| (address, false));
        let (mut added, total) = (0, subset.addresses.len() + subset.not_ready_addresses.len());
        for (address, is_ready) in ready.chain(unready) {
            if added == ROOM {
                break;
            }
            let Some(ip) = parse(&address.ip) else {
                self.invalid += 1;
                continue;
            };
            let type_ = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let slice = self.slices.entry((type_, ports.clone())).or_default();
            let endpoint = endpoint(address, ip, is_ready);
            slice.put(endpoint);
            added += 1;
        }
        self.skipped += total - added;
    }

    fn into_slices(self, endpoints: &EndpointsObject) -> impl Iterator<Item = EndpointSlice> {
        self.slices.into_iter().map(|((type_, ports), unique)| slice(endpoints, type_, ports, unique.all))
    }
}

impl Unique {
    /// Adds an endpoint while there is room, or replaces an equal one.
    fn put(&mut self, endpoint: Endpoint) {
        match self.places.entry(identity(&endpoint)) {
            Entry::Occupied(place) => self.all[*place.get()] = endpoint,
            Entry::Vacant(place) if self.all.len() < ROOM => {
                place.insert(self.all.len());
                self.all.push(endpoint);
            }
            Entry::Vacant(_) => {}
        }
    }
}

/// Parses an address, with leading zeros allowed, or an IPv4-mapped IPv6 address.
#[doc(alias = "ParseIPSloppy")]
fn parse(text: &str) -> Option<IpAddr> {
    let plain = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    let address = text.parse::<IpAddr>().or_else(|_| text.split('.').map(plain).collect::<Vec<_>>().join(".").parse());
    address.ok().map(|address| address.to_canonical())
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: [ip.to_string().into()].into(),
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..Default::default() }.into()),
        hostname: address.hostname.clone(),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Default::default()
    }
}

/// The identity of an endpoint, ready or not.
fn identity(endpoint: &Endpoint) -> Identity {
    let of_target = |target: &ObjectReference| {
        [
            &target.kind,
            &target.namespace,
            &target.name,
            &target.uid,
            &target.api_version,
            &target.resource_version,
            &target.field_path,
        ]
        .map(Clone::clone)
    };
    let address = endpoint.addresses.first().cloned().unwrap_or_default();
    let target = endpoint.target_ref.as_ref().map(|target| of_target(target));
    (address, endpoint.hostname.clone(), endpoint.node_name.clone(), target)
}

fn slice(endpoints: &EndpointsObject, type_: &str, ports: Vec<Port>, all: Vec<Endpoint>) -> EndpointSlice {
    let port = |(name, protocol, port, app_protocol)| EndpointPort {
        name: Some(name),
        protocol,
        port: Some(port),
        app_protocol,
    };
    let mut slice = EndpointSlice {
        address_type: type_.into(),
        endpoints: all.into_iter().collect(),
        ports: ports.into_iter().map(port).collect(),
        ..Default::default()
    };
    slice.metadata.generate_name = Some(format!("{}-", endpoints.name()).into());
    slice.metadata.namespace = endpoints.metadata.namespace.clone();
    slice.metadata.labels = endpoints.metadata.labels.clone();
    slice.metadata.labels.insert(SERVICE_NAME, endpoints.name().into());
    slice.metadata.labels.insert(MANAGED_BY, CONTROLLER.into());
    slice.metadata.annotations = annotations(endpoints);
    slice.metadata.owner_references = [owner::new_controller_ref(&endpoints.metadata, &ENDPOINTS)].into();
    slice
}

fn annotations(endpoints: &EndpointsObject) -> Map<Str> {
    let mut annotations = endpoints.metadata.annotations.clone();
    for own in OWN_ANNOTATIONS {
        annotations.remove(own);
    }
    annotations
}

fn has_type_of(known: &Arc<EndpointSlice>, wanted: &EndpointSlice) -> bool {
    known.address_type == wanted.address_type
}

fn has_ports_of(known: &Arc<EndpointSlice>, wanted: &EndpointSlice) -> bool {
    has_type_of(known, wanted) && known.ports == wanted.ports
}

fn is_equal(wanted: &EndpointSlice, have: &EndpointSlice) -> bool {
    wanted.endpoints == have.endpoints
        && wanted.ports == have.ports
        && wanted.metadata.labels == have.metadata.labels
        && wanted.metadata.annotations == have.metadata.annotations
        && wanted.metadata.owner_references == have.metadata.owner_references
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ips: impl IntoIterator<Item = String>) -> kubewright_core::List<EndpointAddress> {
        ips.into_iter().map(|ip| EndpointAddress { ip: ip.into(), ..Default::default() }).collect()
    }

    #[test]
    fn addresses_are_read_as_they_are_written_anywhere() {
        for (text, want) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.0.01", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("2001:DB8::0:1", Some("2001:db8::1")),
            ("10.0.0", None),
            ("10.0..1", None),
            ("web", None),
        ] {
            assert_eq!(parse(text).map(|ip| ip.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn each_subset_is_limited_to_a_thousand_and_equal_ports_share_a_slice() {
        let mut endpoints = EndpointsObject::default();
        let many = (0..1001).map(|number| format!("10.0.{}.{}", number / 250, number % 250));
        endpoints.subsets = [
            EndpointSubset { addresses: addresses(many), ..Default::default() },
            EndpointSubset {
                addresses: addresses(["10.0.0.1".to_owned(), "::1".to_owned()]),
                not_ready_addresses: addresses(["nonsense".to_owned(), "::1".to_owned()]),
                ..Default::default()
            },
        ]
        .into();
        let mirrored = Mirrored::of(&endpoints);
        assert_eq!((mirrored.invalid, mirrored.skipped), (1, 2));
        let slices: Vec<_> = mirrored.into_slices(&endpoints).collect();
        let sizes: Vec<_> = slices.iter().map(|slice| (slice.address_type.as_str(), slice.endpoints.len())).collect();
        assert_eq!(sizes, [("IPv4", 1000), ("IPv6", 1)]);
        let last = slices[1].endpoints[0].conditions.as_ref().unwrap();
        assert_eq!(last.ready, Some(false), "the last word counts");
    }

    #[test]
    fn many_subsets_with_the_same_ports_take_no_longer_than_their_addresses() {
        let subset = |number: usize| {
            let ips = (0..ROOM).map(|last| format!("10.{number}.{}.{}", last / 250, last % 250));
            EndpointSubset { addresses: addresses(ips), ..Default::default() }
        };
        let mut endpoints = EndpointsObject::default();
        let again = addresses(["10.0.0.7".to_owned()]);
        let last = EndpointSubset { not_ready_addresses: again, ..Default::default() };
        endpoints.subsets = (0..180).map(subset).chain([last]).collect();
        let start = std::time::Instant::now();
        let slices: Vec<_> = Mirrored::of(&endpoints).into_slices(&endpoints).collect();
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
        assert_eq!((slices.len(), slices[0].endpoints.len()), (1, ROOM));
        assert_eq!(slices[0].endpoints[7].conditions.as_ref().unwrap().ready, Some(false), "the last word counts");
    }
}
