//! IP addresses and CIDR ranges.

use std::fmt;
use std::net::IpAddr;

/// A CIDR range such as `10.0.0.0/8`. Host bits may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_address(address)?;
        let is_canonical =
            prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix: u8 = prefix.parse().ok().filter(|_| is_canonical)?;
        (prefix <= bits(address)).then_some(Cidr { address, prefix })
    }

    /// The address before the slash.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// The number of bits in the prefix.
    pub fn prefix_length(self) -> u8 {
        self.prefix
    }

    /// The range with its host bits cleared.
    #[must_use]
    pub fn masked(self) -> Cidr {
        let shift = u32::from(bits(self.address) - self.prefix);
        let address = match self.address {
            IpAddr::V4(address) => {
                let bits = u32::from(address).checked_shr(shift).and_then(|bits| bits.checked_shl(shift));
                IpAddr::V4(bits.unwrap_or_default().into())
            }
            IpAddr::V6(address) => {
                let bits = u128::from(address).checked_shr(shift).and_then(|bits| bits.checked_shl(shift));
                IpAddr::V6(bits.unwrap_or_default().into())
            }
        };
        Cidr { address, ..self }
    }

    /// Whether the range contains an address of the same family.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Cidr { address, ..self }.masked() == self.masked()
    }

    /// Whether the range contains every address of another one.
    pub fn contains_range(self, other: Cidr) -> bool {
        self.contains(other.address) && self.prefix <= other.prefix
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Parses an IP address. Zones and IPv4-mapped IPv6 addresses are rejected.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}
