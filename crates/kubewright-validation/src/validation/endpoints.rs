//! Validates Endpoints and EndpointSlices.

use std::net::IpAddr;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Value, tree};

use super::metadata::{self, quoted};
use super::{address, number, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;
const TOPOLOGY_MAX: usize = 16;

/// Validates Endpoints.
pub(super) fn endpoints(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, subset) in tree::items(value, &["subsets"]).iter().enumerate() {
        let field = format!("subsets[{index}]");
        let lists = ["addresses", "notReadyAddresses"].map(|list| (list, tree::items(subset, &[list])));
        if lists.iter().all(|(_, list)| list.is_empty()) {
            causes.push(StatusCause::required(field.as_str(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for (list, addresses) in lists {
            for (index, one) in addresses.iter().enumerate() {
                causes.extend(self::address(&format!("{field}.{list}[{index}]"), one));
            }
        }
        let ports = tree::items(subset, &["ports"]);
        for (index, port) in ports.iter().enumerate() {
            causes.extend(self::port(&format!("{field}.ports[{index}]"), port, ports.len() > 1));
        }
    }
    causes
}

fn address(field: &str, value: &Value) -> Vec<StatusCause> {
    let (field_of, text_of) = (|part: &str| format!("{field}.{part}"), |part: &str| tree::text(value, &[part]));
    let mut causes: Vec<_> = address::ip(&field_of("ip"), text_of("ip")).into_iter().collect();
    causes.extend(text::check_optional(&field_of("hostname"), text_of("hostname"), dns1123_label));
    if value.get("nodeName").is_some() {
        causes.extend(text::check(&field_of("nodeName"), text_of("nodeName"), dns1123_subdomain));
    }
    causes.extend(address::not_special(&field_of("ip"), text_of("ip")));
    causes
}

fn port(field: &str, port: &Value, needs_name: bool) -> Vec<StatusCause> {
    let name = tree::text(port, &["name"]);
    let mut causes = match name {
        "" if needs_name => vec![StatusCause::required(format!("{field}.name"), "")],
        name => text::check_optional(&format!("{field}.name"), name, dns1123_label),
    };
    causes.extend(number::port(format!("{field}.port"), tree::int(port, &["port"]).unwrap_or_default()));
    causes.extend(text::choice(&format!("{field}.protocol"), tree::text(port, &["protocol"]), &PROTOCOLS));
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        causes.extend(text::check(&format!("{field}.appProtocol"), protocol, qualified_name));
    }
    causes
}

/// Validates an EndpointSlice. Its address type is immutable.
pub(super) fn slice(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let kind = tree::text(value, &["addressType"]);
    let mut causes: Vec<_> = text::choice("addressType", kind, &["FQDN", "IPv4", "IPv6"]).into_iter().collect();
    let endpoints = tree::items(value, &["endpoints"]);
    if endpoints.len() > ENDPOINTS_MAX {
        causes.push(StatusCause::too_many("endpoints", endpoints.len(), ENDPOINTS_MAX));
    } else {
        for (index, endpoint) in endpoints.iter().enumerate() {
            causes.extend(self::endpoint(&format!("endpoints[{index}]"), endpoint, kind));
        }
    }
    let ports = tree::items(value, &["ports"]);
    if ports.len() > PORTS_MAX {
        causes.push(StatusCause::too_many("ports", ports.len(), PORTS_MAX));
    } else {
        causes.extend(slice_ports(ports));
    }
    causes.extend(old.and_then(|old| number::immutable(value, old, &["addressType"])));
    causes
}

fn endpoint(field: &str, endpoint: &Value, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (addresses, addresses_field) = (tree::items(endpoint, &["addresses"]), format!("{field}.addresses"));
    match addresses.len() {
        0 => causes.push(StatusCause::required(addresses_field.as_str(), "must contain at least 1 address")),
        count if count > ADDRESSES_MAX => {
            causes.push(StatusCause::too_many(addresses_field.as_str(), count, ADDRESSES_MAX));
        }
        _ => {}
    }
    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        causes.extend(slice_address(&format!("{addresses_field}[{index}]"), address, kind));
    }
    let text_of = |part: &str| endpoint.get(part).and_then(Value::as_str);
    let node = text_of("nodeName").into_iter();
    causes.extend(node.flat_map(|node| text::check(&format!("{field}.nodeName"), node, dns1123_subdomain)));
    let topology_field = format!("{field}.deprecatedTopology");
    let topology = endpoint.get("deprecatedTopology");
    let count = topology.and_then(Value::as_object).map_or(0, |labels| labels.len());
    if count > TOPOLOGY_MAX {
        causes.push(StatusCause::too_many(topology_field.as_str(), count, TOPOLOGY_MAX));
    }
    causes.extend(metadata::labels(&topology_field, topology));
    let name = text_of("hostname").into_iter();
    causes.extend(name.flat_map(|name| text::check(&format!("{field}.hostname"), name, dns1123_label)));
    causes.extend(hints(&format!("{field}.hints"), endpoint));
    causes
}

fn slice_address(field: &str, text: &str, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match kind {
        "IPv4" | "IPv6" => {
            let is_wanted = |address: IpAddr| address.is_ipv4() == (kind == "IPv4");
            match text.parse::<IpAddr>() {
                Ok(address) if is_wanted(address) => causes.extend(address::ip(field, text)),
                _ => {
                    let why = format!("must be a valid {kind} address");
                    causes.push(StatusCause::invalid(field, quoted(text), &why));
                }
            }
            causes.extend(address::not_special(field, text));
        }
        "FQDN" => causes.extend(domain_name(field, text)),
        _ => {}
    }
    causes
}

fn domain_name(field: &str, name: &str) -> Option<StatusCause> {
    if name.is_empty() {
        return Some(StatusCause::required(field, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let complaints = dns1123_subdomain(name);
    if !complaints.is_empty() {
        return Some(StatusCause::invalid(field, quoted(name), &complaints.join(",")));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return Some(StatusCause::invalid(field, quoted(name), why));
    }
    let wrong =
        name.split('.').map(|label| (label, dns1123_label(label))).find(|(_, complaints)| !complaints.is_empty());
    wrong.map(|(label, complaints)| StatusCause::invalid(field, quoted(label), &complaints.join(",")))
}

fn hints(field: &str, endpoint: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (part, rule) in [("forZones", label_value as fn(&str) -> Vec<String>), ("forNodes", dns1123_subdomain)] {
        let (field, hints) = (format!("{field}.{part}"), tree::items(endpoint, &["hints", part]));
        if hints.len() > HINTS_MAX {
            causes.push(StatusCause::too_many(field, hints.len(), HINTS_MAX));
            continue;
        }
        for (index, hint) in hints.iter().enumerate() {
            let (field, name) = (format!("{field}[{index}].name"), tree::text(hint, &["name"]));
            if hints[..index].iter().any(|other| tree::text(other, &["name"]) == name) {
                causes.push(StatusCause::duplicate(field.as_str(), quoted(name)));
            }
            causes.extend(text::check(&field, name, rule));
        }
    }
    causes
}

fn slice_ports(ports: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (field, name) = (format!("ports[{index}]"), tree::text(port, &["name"]));
        causes.extend(text::check_optional(&format!("{field}.name"), name, dns1123_label));
        if ports[..index].iter().any(|other| tree::text(other, &["name"]) == name) {
            causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        }
        causes.extend(text::choice(&format!("{field}.protocol"), tree::text(port, &["protocol"]), &PROTOCOLS));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            causes.extend(text::check(&format!("{field}.appProtocol"), protocol, qualified_name));
        }
    }
    causes
}
