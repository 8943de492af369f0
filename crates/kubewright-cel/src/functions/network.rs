//! The IP and CIDR libraries.

use std::net::IpAddr;

use crate::cidr::{Cidr, parse_address};
use crate::error::EvaluationError;
use crate::value::{EvaluationResult, Value};

const CIDR_ERROR: &str = "network address parse error during conversion from string";

/// Calls a function that parses an address or a range, or checks whether a string is one.
pub(super) fn call(function: &str, value: &Value) -> EvaluationResult {
    let Value::String(text) = value else { return Err(EvaluationError::no_overload()) };
    let text = text.as_str();
    let address_error = || {
        let why = format!("ParseAddr({text:?}): unable to parse IP");
        EvaluationError::new(format!("IP Address {text:?} parse error during conversion from string: {why}"))
    };
    let cidr_error = || {
        let why = if text.contains('/') { "bad prefix" } else { "no '/'" };
        EvaluationError::new(format!("{CIDR_ERROR}: {CIDR_ERROR}: netip.ParsePrefix({text:?}): {why}"))
    };
    Ok(match function {
        "isIP" => parse_address(text).is_some().into(),
        "ip" => Value::Ip(parse_address(text).ok_or_else(address_error)?),
        "ip.isCanonical" => (parse_address(text).ok_or_else(address_error)?.to_string() == text).into(),
        "isCIDR" => Cidr::parse(text).is_some().into(),
        _ => Value::Cidr(Cidr::parse(text).ok_or_else(cidr_error)?),
    })
}

/// Calls a method of an address or a range.
pub(super) fn method(target: &Value, function: &str, arguments: &[Value]) -> EvaluationResult {
    match target {
        Value::Ip(address) if arguments.is_empty() => address_method(*address, function),
        Value::Cidr(range) => cidr_method(*range, function, arguments),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn address_method(address: IpAddr, function: &str) -> EvaluationResult {
    Ok(match (function, address) {
        ("family", address) => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        ("isUnspecified", address) => address.is_unspecified().into(),
        ("isLoopback", address) => address.is_loopback().into(),
        ("isLinkLocalMulticast", IpAddr::V4(address)) => (address.octets()[..3] == [224, 0, 0]).into(),
        ("isLinkLocalMulticast", IpAddr::V6(address)) => (address.segments()[0] & 0xff0f == 0xff02).into(),
        ("isLinkLocalUnicast", IpAddr::V4(address)) => address.is_link_local().into(),
        ("isLinkLocalUnicast", IpAddr::V6(address)) => (address.segments()[0] & 0xffc0 == 0xfe80).into(),
        ("isGlobalUnicast", address) => {
            let is_local = address_method(address, "isLinkLocalUnicast")? == Value::Bool(true);
            let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
            let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            (!is_local && !is_broadcast && !is_special).into()
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}

fn cidr_method(range: Cidr, function: &str, arguments: &[Value]) -> EvaluationResult {
    let not_parsed = || EvaluationError::new(CIDR_ERROR);
    Ok(match (function, arguments) {
        ("ip", []) => Value::Ip(range.address()),
        ("prefixLength", []) => Value::Int(range.prefix_length().into()),
        ("masked", []) => Value::Cidr(range.masked()),
        ("containsIP", [Value::Ip(address)]) => range.contains(*address).into(),
        ("containsIP", [Value::String(text)]) => range.contains(parse_address(text).ok_or_else(not_parsed)?).into(),
        ("containsCIDR", [Value::Cidr(other)]) => range.contains_range(*other).into(),
        ("containsCIDR", [Value::String(text)]) => {
            range.contains_range(Cidr::parse(text).ok_or_else(not_parsed)?).into()
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}
