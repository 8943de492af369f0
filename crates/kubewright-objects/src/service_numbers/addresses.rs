//! The network of cluster IPs.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::str::FromStr;

/// Larger networks would take too much memory. kube-apiserver has the same limit.
const MIN_PREFIX: u32 = 12;
/// Smaller networks have less than eight addresses.
const MAX_PREFIX: u32 = 29;

/// The network of the addresses of Services, such as `10.96.0.0/16`, which is the default.
///
/// The server keeps a counter of 4 bytes for each address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceAddresses {
    /// The address of the network itself.
    network: u32,
    prefix: u32,
}

impl ServiceAddresses {
    /// The addresses that Services can have: without those of the network and of broadcasts.
    pub fn assignable(self) -> Range<u32> {
        self.network + 1..self.network + (self.size() - 1)
    }

    /// The address of the Service `kubernetes`.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// Whether an address belongs to the network.
    pub fn contains(self, address: u32) -> bool {
        address.checked_sub(self.network).is_some_and(|offset| offset < self.size())
    }

    fn size(self) -> u32 {
        1 << (32 - self.prefix)
    }
}

impl Default for ServiceAddresses {
    fn default() -> Self {
        ServiceAddresses { network: u32::from(Ipv4Addr::new(10, 96, 0, 0)), prefix: 16 }
    }
}

impl fmt::Display for ServiceAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }
}

/// Why a text is no network of Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAddressesError {
    text: String,
}

impl fmt::Display for ServiceAddressesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        write!(
            f,
            "{text:?} is no IPv4 network with a prefix of {MIN_PREFIX} to {MAX_PREFIX} bits, such as 10.96.0.0/16"
        )
    }
}

impl std::error::Error for ServiceAddressesError {}

impl FromStr for ServiceAddresses {
    type Err = ServiceAddressesError;

    /// Bits after the prefix are ignored, as in kube-apiserver.
    fn from_str(text: &str) -> Result<Self, ServiceAddressesError> {
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
            let prefix = prefix.parse().ok().filter(|prefix| (MIN_PREFIX..=MAX_PREFIX).contains(prefix))?;
            Some(ServiceAddresses { network: address & (u32::MAX << (32 - prefix)), prefix })
        });
        parsed.ok_or_else(|| ServiceAddressesError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_and_bounded() {
        let small: ServiceAddresses = "10.0.0.17/29".parse().expect("a network");
        assert_eq!(small.to_string(), "10.0.0.16/29");
        assert_eq!(small.first(), Ipv4Addr::new(10, 0, 0, 17));
        assert_eq!(small.assignable().len(), 6);
        assert!(small.contains(u32::from(Ipv4Addr::new(10, 0, 0, 23))));
        assert!(!small.contains(u32::from(Ipv4Addr::new(10, 0, 0, 24))));
        assert_eq!("255.255.255.248/29".parse::<ServiceAddresses>().map(|range| range.assignable().len()), Ok(6));
        for wrong in ["10.0.0.0/11", "10.0.0.0/30", "10.0.0.0", "fd00::/108", "10.0.0.0/-1", ""] {
            assert!(wrong.parse::<ServiceAddresses>().is_err(), "{wrong}");
        }
    }
}
