//! Addresses and ranges of addresses.

use std::fmt;
use std::net::IpAddr;

use super::Evaluated;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

/// What is said of a text that is no range.
const RANGE_ERROR: &str = "network address parse error during conversion from string";

/// A range of addresses: those that begin like this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let address = parse_address(address)?;
        let is_plain = prefix.bytes().all(|byte| byte.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix: u8 = prefix.parse().ok().filter(|_| is_plain)?;
        (prefix <= width(address)).then_some(Cidr { address, prefix })
    }

    /// The first address of the range.
    fn masked(self) -> Cidr {
        let shift = u32::from(width(self.address) - self.prefix);
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

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Cidr { address, ..self }.masked() == self.masked()
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Reads an address; zones, and IPv4 in the clothes of IPv6, are refused.
fn parse_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}

/// Makes an address or a range, or says whether a text is one.
pub(super) fn call(function: &str, value: &Value) -> Evaluated {
    let Value::String(text) = value else { return Err(EvaluationError::no_overload()) };
    let text = text.as_str();
    let no_address = || {
        let why = format!("ParseAddr({text:?}): unable to parse IP");
        EvaluationError::new(format!("IP Address {text:?} parse error during conversion from string: {why}"))
    };
    let no_range = || {
        let why = if text.contains('/') { "bad prefix" } else { "no '/'" };
        EvaluationError::new(format!("{RANGE_ERROR}: {RANGE_ERROR}: netip.ParsePrefix({text:?}): {why}"))
    };
    Ok(match function {
        "isIP" => parse_address(text).is_some().into(),
        "ip" => Value::Ip(parse_address(text).ok_or_else(no_address)?),
        "ip.isCanonical" => (parse_address(text).ok_or_else(no_address)?.to_string() == text).into(),
        "isCIDR" => Cidr::parse(text).is_some().into(),
        _ => Value::Cidr(Cidr::parse(text).ok_or_else(no_range)?),
    })
}

/// Calls a function of an address or a range.
pub(super) fn method(target: &Value, function: &str, arguments: &[Value]) -> Evaluated {
    match target {
        Value::Ip(address) if arguments.is_empty() => of_address(*address, function),
        Value::Cidr(range) => of_range(*range, function, arguments),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn of_address(address: IpAddr, function: &str) -> Evaluated {
    Ok(match (function, address) {
        ("family", address) => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", address) => address.is_unspecified().into(),
        ("isLoopback", address) => address.is_loopback().into(),
        ("isLinkLocalMulticast", IpAddr::V4(address)) => (address.octets()[..3] == [224, 0, 0]).into(),
        ("isLinkLocalMulticast", IpAddr::V6(address)) => (address.segments()[0] & 0xff0f == 0xff02).into(),
        ("isLinkLocalUnicast", IpAddr::V4(address)) => address.is_link_local().into(),
        ("isLinkLocalUnicast", IpAddr::V6(address)) => (address.segments()[0] & 0xffc0 == 0xfe80).into(),
        ("isGlobalUnicast", address) => {
            let is_local = of_address(address, "isLinkLocalUnicast")? == Value::Bool(true);
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            (!is_local && !is_broadcast && !is_special).into()
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}

fn of_range(range: Cidr, function: &str, arguments: &[Value]) -> Evaluated {
    let not_parsed = || EvaluationError::new(RANGE_ERROR);
    Ok(match (function, arguments) {
        ("ip", []) => Value::Ip(range.address),
        ("prefixLength", []) => Value::Int(range.prefix.into()),
        ("masked", []) => Value::Cidr(range.masked()),
        ("containsIP", [Value::Ip(address)]) => range.contains(*address).into(),
        ("containsIP", [Value::String(text)]) => range.contains(parse_address(text).ok_or_else(not_parsed)?).into(),
        ("containsCIDR", [other]) => {
            let other = match other {
                Value::Cidr(other) => *other,
                Value::String(text) => Cidr::parse(text).ok_or_else(not_parsed)?,
                _ => return Err(EvaluationError::no_overload()),
            };
            (range.contains(other.address) && range.prefix <= other.prefix).into()
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}
