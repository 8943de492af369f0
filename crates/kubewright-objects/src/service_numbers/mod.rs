//! Cluster IPs and node ports of Services.
//!
//! [`ServiceNumbers`] is an index over the stored objects. Servers over one database also store
//! what they allocate, as kube-apiserver does: an IPAddress for each cluster IP, and a bitmap of
//! node ports. [`allocation_writes`] has the writes that keep both in step with a Service. They are
//! executed in the transaction that writes the Service. So nothing is allocated twice, and nothing
//! leaks.

mod addresses;
mod index;
mod ip_address;
mod port_allocation;
mod writes;

use kubewright_storage::Key;

pub use addresses::{ServiceAddresses, ServiceAddressesError};
pub use index::{HEALTH_PORT, PORTS, ServiceNumbers, address, ports};
pub(crate) use port_allocation::{PORT_ALLOCATION_KIND, decode_bitmap, encode_bitmap};
pub use writes::{Allocations, allocation_writes, missing_allocations};

/// The storage name of Services.
const SERVICES: &str = "services";
/// The storage name of IPAddresses.
const IP_ADDRESSES: &str = "ipaddresses.networking.k8s.io";
/// The storage name of the bitmap of node ports. It is not served.
pub(crate) const PORT_ALLOCATIONS: &str = "servicenodeportallocations";
/// The name of the bitmap, which is the last part of its key in etcd.
pub(crate) const PORT_BITMAP: &str = "servicenodeports";

/// The key of the bitmap of node ports.
pub(crate) fn port_bitmap_key() -> Key {
    Key::cluster(PORT_ALLOCATIONS, PORT_BITMAP)
}

/// The key of an IPAddress.
fn ip_address_key(address: &str) -> Key {
    Key::cluster(IP_ADDRESSES, address)
}

/// The resources that [`ServiceNumbers`] counts.
pub const COUNTED: [&str; 3] = [SERVICES, IP_ADDRESSES, PORT_ALLOCATIONS];
