//! The index of cluster IPs and node ports in use.

use std::net::Ipv4Addr;
use std::ops::Range;

use kubewright_core::Value;

use super::ServiceAddresses;
use kubewright_objects::object::{StoredObject, tree};

/// The node port range.
pub(super) const PORTS: Range<u32> = 30_000..32_768;
/// The field with the health check node port of a load balancer.
pub(super) const HEALTH_PORT: &str = "healthCheckNodePort";

/// The numbers in use, as an index over the store.
pub(crate) struct ServiceNumbers {
    /// The network of `addresses`.
    pub(super) range: ServiceAddresses,
    pub(super) addresses: NumberRange,
    pub(super) ports: NumberRange,
}

impl Default for ServiceNumbers {
    fn default() -> Self {
        let range = ServiceAddresses::default();
        ServiceNumbers { range, addresses: NumberRange::new(range.assignable()), ports: NumberRange::new(PORTS) }
    }
}

impl ServiceNumbers {
    /// Changes the network, and counts the addresses of the stored Services again.
    pub(crate) fn set_addresses<'a>(
        &mut self,
        range: ServiceAddresses,
        services: impl Iterator<Item = &'a StoredObject>,
    ) {
        self.range = range;
        self.addresses = NumberRange::new(range.assignable());
        services.filter_map(|service| address(&service.tree())).for_each(|number| self.addresses.add(number));
    }

    /// Records a write of a Service.
    pub(crate) fn change(&mut self, before: Option<&StoredObject>, after: Option<&StoredObject>) {
        if let Some(before) = before {
            let service = before.tree();
            address(&service).into_iter().for_each(|number| self.addresses.remove(number));
            ports(&service).for_each(|number| self.ports.remove(number));
        }
        if let Some(after) = after {
            let service = after.tree();
            address(&service).into_iter().for_each(|number| self.addresses.add(number));
            ports(&service).for_each(|number| self.ports.add(number));
        }
    }
}

/// The cluster IP of a Service as a number.
pub(super) fn address(service: &Value) -> Option<u32> {
    tree::text(service, &["spec", "clusterIP"]).parse::<Ipv4Addr>().ok().map(u32::from)
}

/// The node ports of a Service.
pub(super) fn ports(service: &Value) -> impl Iterator<Item = u32> {
    let ports = tree::items(service, &["spec", "ports"]).iter().filter_map(|port| tree::int(port, &["nodePort"]));
    ports.chain(tree::int(service, &["spec", HEALTH_PORT])).filter_map(|port| u32::try_from(port).ok())
}

/// User counts of the numbers in a range. Stored objects may share a number, so a bitmap is not
/// enough.
pub(super) struct NumberRange {
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
    pub(super) fn add(&mut self, number: u32) {
        let Some(users) = self.users_mut(number) else { return };
        *users += 1;
        self.used += usize::from(*users == 1);
    }

    /// Removes a user of a number.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(users) = self.users_mut(number).filter(|users| **users > 0) else { return };
        *users -= 1;
        self.used -= usize::from(*users == 0);
    }

    fn users_mut(&mut self, number: u32) -> Option<&mut u32> {
        self.users.get_mut(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn is_used(&self, number: u32) -> bool {
        number.checked_sub(self.first).and_then(|at| self.users.get(at as usize)).is_some_and(|users| *users > 0)
    }

    /// The first free number at or after `start` (modulo the range) that `accepts` allows.
    pub(super) fn free(&self, start: u64, accepts: impl Fn(u32) -> bool) -> Option<u32> {
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
