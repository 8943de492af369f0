//! The writes that keep the stored allocations in step with a Service.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_storage::{EventKind, Key, KeyRange, PrimaryWrite};

use super::index::{ServiceNumbers, address, ports};
use super::ip_address::{belongs_to, ip_address};
use super::port_allocation::{PortBitmap, has_own_range};
use super::{PORTS, SERVICES, ip_address_key, port_bitmap_key};
use crate::lookup::ObjectReader;
use crate::object::{ObjectDraft, StoredObject, tree};
use crate::rejection::Rejection;

/// The writes of allocations that belong to the write of a Service.
pub enum Allocations {
    /// Execute them together with the write of the Service.
    Writes(Vec<PrimaryWrite<StoredObject>>),
    /// Another server has allocated one of the numbers since they were chosen.
    Taken,
}

/// The writes that go with the change of a Service from `before` to `after`.
///
/// # Errors
///
/// The stored bitmap of node ports is about another range.
pub fn allocation_writes<'r>(
    reader: &dyn ObjectReader,
    services: impl FnOnce() -> MutexGuard<'r, ServiceNumbers>,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<Allocations, Rejection> {
    let mut writes = Vec::new();
    let [old, new] = [before, after].map(|service| service.and_then(address).map(|_| cluster_ip(service)));
    if let (Some(service), Some(address)) = (after, new)
        && new != old
    {
        let key = ip_address_key(address);
        match reader.newest(&key) {
            None => writes.push(created(key, ip_address(address, service))),
            Some(found) if belongs_to(&found.object.tree(), service) => {}
            Some(_) => return Ok(Allocations::Taken),
        }
    }
    if let (Some(service), Some(address)) = (before, old)
        && new != old
    {
        let key = ip_address_key(address);
        if let Some(found) = reader.newest(&key).filter(|found| belongs_to(&found.object.tree(), service)) {
            let (kind, expected) = (EventKind::Deleted, found.revision);
            writes.push(PrimaryWrite { key, kind, expected, value: found.object });
        }
    }
    let [old, new] = [before, after].map(port_uses);
    if old.keys().ne(new.keys()) {
        let stored = reader.newest(&port_bitmap_key());
        let services = services();
        let mut bitmap = match &stored {
            Some(stored) => readable(&stored.object.tree())?,
            None => all_used(&services),
        };
        let unchanged = stored.is_some().then(|| bitmap.clone());
        let added = new.keys().filter(|port| !old.contains_key(port));
        if { added }.any(|port| !bitmap.insert(*port)) {
            return Ok(Allocations::Taken);
        }
        // A port stays reserved while another Service has it, too.
        let removed =
            old.iter().filter(|(port, uses)| !new.contains_key(port) && services.users_of_port(**port) <= **uses);
        removed.for_each(|(port, _)| bitmap.remove(*port));
        if unchanged.as_ref() != Some(&bitmap) {
            let value = Arc::new(bitmap.to_object().stamp(0));
            let expected = stored.map_or(0, |stored| stored.revision);
            let kind = if expected == 0 { EventKind::Created } else { EventKind::Modified };
            writes.push(PrimaryWrite { key: port_bitmap_key(), kind, expected, value });
        }
    }
    Ok(Allocations::Writes(writes))
}

/// The allocations that stored Services lack, because a server stored them that does not allocate.
/// Each has the revision that it replaces.
///
/// # Errors
///
/// As for [`allocation_writes`].
pub fn missing_allocations<'r>(
    reader: &dyn ObjectReader,
    services: impl FnOnce() -> MutexGuard<'r, ServiceNumbers>,
) -> Result<Vec<(Key, Option<u64>, ObjectDraft)>, Rejection> {
    let mut missing = Vec::new();
    let stored = reader.newest(&port_bitmap_key());
    let entries = reader.all(&KeyRange::resource(SERVICES));
    let services = services();
    for entry in entries {
        let service = entry.object.tree();
        if address(&service).is_some_and(|number| services.range().contains(number)) {
            let text = cluster_ip(Some(&service));
            missing.push((ip_address_key(text), None, ip_address(text, &service)));
        }
    }
    let mut bitmap = stored.as_ref().map(|stored| readable(&stored.object.tree())).transpose()?.unwrap_or_default();
    let added = services.used_ports().filter(|port| bitmap.insert(*port)).count();
    if added > 0 {
        missing.push((port_bitmap_key(), stored.map(|stored| stored.revision), bitmap.to_object()));
    }
    drop(services);
    missing.retain(|(key, expected, _)| expected.is_some() || reader.newest(key).is_none());
    Ok(missing)
}

fn created(key: Key, draft: ObjectDraft) -> PrimaryWrite<StoredObject> {
    PrimaryWrite { key, kind: EventKind::Created, expected: 0, value: Arc::new(draft.stamp(0)) }
}

fn cluster_ip(service: Option<&Value>) -> &str {
    service.map_or("", |service| tree::text(service, &["spec", "clusterIP"]))
}

/// How often a Service uses each node port.
fn port_uses(service: Option<&Value>) -> BTreeMap<u32, u32> {
    let mut uses = BTreeMap::new();
    let ports = service.into_iter().flat_map(ports).filter(|port| PORTS.contains(port));
    ports.for_each(|port| *uses.entry(port).or_default() += 1);
    uses
}

fn all_used(services: &ServiceNumbers) -> PortBitmap {
    let mut bitmap = PortBitmap::default();
    for port in services.used_ports() {
        bitmap.insert(port);
    }
    bitmap
}

/// The bitmap, if it is about the node ports of this server.
fn readable(stored: &Value) -> Result<PortBitmap, Rejection> {
    if has_own_range(stored) {
        return Ok(PortBitmap::of(stored));
    }
    Err(Status::internal("the provided range does not match the current range").into())
}
