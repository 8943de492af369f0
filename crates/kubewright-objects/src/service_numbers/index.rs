//! The index of cluster IPs and node ports in use.
//!
//! An address is used by a Service or reserved by an IPAddress. A node port is used by a Service or
//! reserved by the bitmap that servers over one database share.

use std::net::Ipv4Addr;
use std::ops::Range;

use kubewright_core::Value;
use kubewright_storage::Key;

use super::ServiceAddresses;
use super::port_allocation::PortBitmap;
use super::{IP_ADDRESSES, PORT_ALLOCATIONS, SERVICES};
use crate::object::{StoredObject, tree};

/// The node port range.
pub const PORTS: Range<u32> = 30_000..32_768;
/// The field with the health check node port of a load balancer.
pub const HEALTH_PORT: &str = "healthCheckNodePort";

/// The numbers in use, as an index over the store.
pub struct ServiceNumbers {
    /// The network of `addresses`.
    range: ServiceAddresses,
    addresses: NumberRange,
    ports: NumberRange,
    reserved: PortBitmap,
}

impl Default for ServiceNumbers {
    fn default() -> Self {
        let range = ServiceAddresses::default();
        let (addresses, ports) = (NumberRange::new(range.assignable()), NumberRange::new(PORTS));
        ServiceNumbers { range, addresses, ports, reserved: PortBitmap::default() }
    }
}

impl ServiceNumbers {
    /// The network of cluster IPs.
    pub fn range(&self) -> ServiceAddresses {
        self.range
    }

    /// Changes the network, and counts the addresses of stored Services and IPAddresses again.
    pub fn set_addresses<'a>(
        &mut self,
        range: ServiceAddresses,
        objects: impl Iterator<Item = (&'a Key, &'a StoredObject)>,
    ) {
        self.range = range;
        self.addresses = NumberRange::new(range.assignable());
        objects.filter_map(|(key, object)| address_of(key, object)).for_each(|number| self.addresses.add(number));
    }

    /// Records a write.
    pub fn change(&mut self, key: &Key, before: Option<&StoredObject>, after: Option<&StoredObject>) {
        if key.resource() == PORT_ALLOCATIONS {
            self.reserved = after.map(|after| PortBitmap::of(&after.tree())).unwrap_or_default();
            return;
        }
        let address = |object: Option<&StoredObject>| object.and_then(|object| address_of(key, object));
        address(before).into_iter().for_each(|number| self.addresses.remove(number));
        address(after).into_iter().for_each(|number| self.addresses.add(number));
        if key.resource() == SERVICES {
            let numbers = |object: Option<&StoredObject>| {
                object.map(|object| ports(&object.tree()).collect::<Vec<_>>()).unwrap_or_default()
            };
            numbers(before).into_iter().for_each(|number| self.ports.remove(number));
            numbers(after).into_iter().for_each(|number| self.ports.add(number));
        }
    }

    /// Whether a Service or IPAddress has the address.
    pub fn is_address_used(&self, number: u32) -> bool {
        self.addresses.is_used(number)
    }

    /// A free address at or after `start`, modulo their number, that `accepts` allows.
    pub fn free_address(&self, start: u64, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        self.addresses.free(start, accepts)
    }

    /// Whether a Service has the node port, or another server has reserved it.
    pub fn is_port_used(&self, number: u32) -> bool {
        self.ports.is_used(number) || self.reserved.contains(number)
    }

    /// A free node port at or after `start`, modulo their number, that `accepts` allows.
    pub fn free_port(&self, start: u64, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        self.ports.free(start, |number| !self.reserved.contains(number) && accepts(number))
    }

    /// The number of stored Services that have a node port.
    pub fn users_of_port(&self, number: u32) -> u32 {
        self.ports.users(number)
    }

    /// The node ports of all stored Services.
    pub fn used_ports(&self) -> impl Iterator<Item = u32> {
        PORTS.filter(|number| self.ports.is_used(*number))
    }
}

/// The address that an object takes: that of a Service, or that of an IPAddress.
fn address_of(key: &Key, object: &StoredObject) -> Option<u32> {
    match key.resource() {
        SERVICES => address(&object.tree()),
        IP_ADDRESSES => key.name().parse::<Ipv4Addr>().ok().map(u32::from),
        _ => None,
    }
}

/// The cluster IP of a Service as a number.
pub fn address(service: &Value) -> Option<u32> {
    tree::text(service, &["spec", "clusterIP"]).parse::<Ipv4Addr>().ok().map(u32::from)
}

/// The node ports of a Service.
pub fn ports(service: &Value) -> impl Iterator<Item = u32> {
    let ports = tree::items(service, &["spec", "ports"]).iter().filter_map(|port| tree::int(port, &["nodePort"]));
    ports.chain(tree::int(service, &["spec", HEALTH_PORT])).filter_map(|port| u32::try_from(port).ok())
}

/// User counts of the numbers in a range. Stored objects may share a number, so a bitmap is not
/// enough.
struct NumberRange {
    first: u32,
    users: Vec<u32>,
    /// Invariant: the number of non-zero `users`.
    used: usize,
}

impl NumberRange {
    fn new(numbers: Range<u32>) -> Self {
        NumberRange { first: numbers.start, users: vec![0; numbers.len()], used: 0 }
    }

    /// Adds a user of a number. Numbers out of range are ignored.
    fn add(&mut self, number: u32) {
        let Some(users) = self.users_mut(number) else { return };
        *users += 1;
        self.used += usize::from(*users == 1);
    }

    /// Removes a user of a number.
    fn remove(&mut self, number: u32) {
        let Some(users) = self.users_mut(number).filter(|users| **users > 0) else { return };
        *users -= 1;
        self.used -= usize::from(*users == 0);
    }

    fn users_mut(&mut self, number: u32) -> Option<&mut u32> {
        self.users.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn users(&self, number: u32) -> u32 {
        number.checked_sub(self.first).and_then(|at| self.users.get(at as usize)).copied().unwrap_or_default()
    }

    fn is_used(&self, number: u32) -> bool {
        self.users(number) > 0
    }

    /// The first free number at or after `start` (modulo the range) that `accepts` allows.
    fn free(&self, start: u64, accepts: impl Fn(u32) -> bool) -> Option<u32> {
        if self.used == self.users.len() {
            return None;
        }
        let (before, behind) = self.users.split_at((start % self.users.len() as u64) as usize);
        let places = (before.len()..).zip(behind).chain((0..).zip(before));
        let free = places.filter(|(_, users)| **users == 0).map(|(at, _)| self.first + at as u32);
        { free }.find(|number| accepts(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_free_when_its_last_user_is_removed() {
        let mut range = NumberRange::new(10..13);
        for number in [10, 10, 11, 12, 9, 13] {
            range.add(number);
        }
        assert_eq!(range.free(1, |_| true), None);
        range.remove(10);
        assert!(range.is_used(10) && range.free(0, |_| true).is_none());
        range.remove(10);
        range.remove(12);
        assert_eq!(range.free(1, |_| true), Some(12));
        assert_eq!(range.free(1, |number| number != 12), Some(10));
        assert_eq!(range.free(1, |_| false), None);
        assert!(!range.is_used(9) && !range.is_used(13));
    }
}
