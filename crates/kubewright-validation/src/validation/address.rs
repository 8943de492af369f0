//! Validates IP addresses and CIDRs.

use std::net::{IpAddr, Ipv4Addr};

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;

use super::metadata::quoted;
use super::text;

const IP_RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR_RULE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Validates an IP address.
pub(super) fn ip(field: &str, text: &str) -> Option<StatusCause> {
    complaint(text).map(|why| StatusCause::invalid(field, quoted(text), why))
}

fn complaint(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if without_zeros(text).is_some() => Some("must not have leading 0s"),
        Err(_) => Some(IP_RULE),
    }
}

/// Validates an interface address in CIDR form, such as `10.0.0.1/8`.
pub(super) fn interface_address(field: &str, text: &str) -> Option<StatusCause> {
    let plain = text.split_once('/').and_then(|(address, length)| {
        let length = match length.trim_start_matches('0') {
            "" if !length.is_empty() => "0",
            digits => digits,
        };
        let address = address.parse().ok().or_else(|| without_zeros(address).map(IpAddr::V4))?;
        range(&format!("{address}/{length}"))
    });
    let Some((address, length)) = plain else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return Some(StatusCause::invalid(field, quoted(text), why));
    };
    let canonical = match address {
        IpAddr::V6(address) if length > 96 && address.to_ipv4_mapped().is_some() => {
            format!("{}/{}", address.to_canonical(), length - 96)
        }
        address => format!("{}/{length}", address.to_canonical()),
    };
    let why = format!("must be in canonical form ({canonical:?})");
    (canonical != text).then(|| StatusCause::invalid(field, quoted(text), &why))
}

/// Validates a host name. An empty name is accepted.
pub(super) fn host(field: &str, name: &str) -> Vec<StatusCause> {
    let mut causes = text::check_optional(field, name, dns1123_subdomain);
    if name.parse::<IpAddr>().is_ok() {
        causes.push(StatusCause::invalid(field, quoted(name), "must be a DNS name, not an IP address"));
    }
    causes
}

/// Validates an object name that is an IP address in canonical form.
pub(super) fn name(text: &str) -> Vec<String> {
    let complaint = complaint(text).map(str::to_owned).or_else(|| {
        let canonical = text.parse::<IpAddr>().ok()?.to_string();
        (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
    });
    complaint.into_iter().collect()
}

/// Parses an IPv4 address after stripping leading zeros, which some parsers read as octal.
fn without_zeros(text: &str) -> Option<Ipv4Addr> {
    let plain = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    text.split('.').map(plain).collect::<Vec<_>>().join(".").parse().ok()
}

/// Rejects unspecified, loopback, link-local and multicast addresses.
pub(super) fn not_special(field: &str, text: &str) -> Vec<StatusCause> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return vec![StatusCause::invalid(field, quoted(text), "must be a valid IP address")];
    };
    let (is_link_local, is_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({text})");
    let rules = [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
    broken.map(|(_, why)| StatusCause::invalid(field, quoted(text), why)).collect()
}

/// Validates a CIDR.
pub(super) fn cidr(field: &str, text: &str) -> Option<StatusCause> {
    let Some((address, length)) = range(text) else {
        let plain = text.split_once('/').and_then(|(address, length)| {
            let length = length.trim_start_matches('0');
            range(&format!("{}/{}", without_zeros(address)?, if length.is_empty() { "0" } else { length }))
        });
        let why = if plain.is_some() { "must not have leading 0s in IP or prefix length" } else { CIDR_RULE };
        return Some(StatusCause::invalid(field, quoted(text), why));
    };
    let why = match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => "must not have an IPv4-mapped IPv6 address",
        address if masked(address, length) != bits(address) => "must not have bits set beyond the prefix length",
        _ => return None,
    };
    Some(StatusCause::invalid(field, quoted(text), why))
}

/// Parses a CIDR such as `10.0.0.0/8` into its address and prefix length.
pub(super) fn range(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    if length.len() > 1 && length.starts_with('0') || !length.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// Whether `inner` is a strict subset of `outer`.
pub(super) fn is_strictly_in(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    inner.0.is_ipv4() == outer.0.is_ipv4() && outer.1 < inner.1 && masked(inner.0, outer.1) == masked(outer.0, outer.1)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn masked(address: IpAddr, length: u32) -> u128 {
    bits(address) & !u128::MAX.checked_shr(length).unwrap_or_default()
}

/// Whether `texts` are exactly two addresses or CIDRs of different IP families.
pub(super) fn is_dual(texts: &[Value]) -> bool {
    let family = |value: &Value| {
        let text = value.as_str()?;
        text.split('/').next()?.parse::<IpAddr>().ok().map(|address| address.is_ipv4())
    };
    matches!(texts, [first, second] if family(first).is_some() && family(second).is_some() && family(first) != family(second))
}
