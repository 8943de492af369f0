//! Validates Ingresses, IngressClasses, IPAddresses and ServiceCIDRs.

use std::collections::HashSet;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain};

use super::metadata::{path_segment, quoted};
use super::{address, number, selector, text};

/// The annotation that preceded `spec.ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Maximum length of a controller name, in bytes.
const CONTROLLER_MAX: usize = 250;

/// Validates the status of an Ingress. Addresses that `old` has are accepted.
pub(super) fn ingress_status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const PATH: [&str; 3] = ["status", "loadBalancer", "ingress"];
    let known: HashSet<&str> = tree::items(old, &PATH).iter().map(|address| tree::text(address, &["ip"])).collect();
    let mut causes = Vec::new();
    for (index, address) in tree::items(value, &PATH).iter().enumerate() {
        let field = format!("{}[{index}]", PATH.join("."));
        let (ip, host) = (tree::text(address, &["ip"]), tree::text(address, &["hostname"]));
        if !ip.is_empty() && !known.contains(ip) {
            causes.extend(address::ip(&format!("{field}.ip"), ip));
        }
        causes.extend(address::host(&format!("{field}.hostname"), host));
    }
    causes
}

/// Validates an Ingress. Secret names that were already invalid are accepted.
pub(super) fn ingress(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let rules = tree::items(value, &["spec", "rules"]);
    let default = tree::get(value, &["spec", "defaultBackend"]);
    if rules.is_empty() && default.is_none() {
        causes.push(StatusCause::invalid("spec", "null", "either `defaultBackend` or `rules` must be specified"));
    }
    if let Some(default) = default {
        causes.extend(backend("spec.defaultBackend", default));
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("spec.rules[{index}]");
        causes.extend(host(&format!("{field}.host"), tree::text(rule, &["host"])));
        let paths = tree::items(rule, &["http", "paths"]);
        if rule.get("http").is_some() && paths.is_empty() {
            causes.push(StatusCause::required(format!("{field}.http.paths"), ""));
        }
        for (index, path) in paths.iter().enumerate() {
            causes.extend(self::path(&format!("{field}.http.paths[{index}]"), path));
        }
    }
    let secret = |tls: &Value| text::check_optional("", tree::text(tls, &["secretName"]), dns1123_subdomain);
    let is_lax = old.is_some_and(|old| tree::items(old, &["spec", "tls"]).iter().any(|tls| !secret(tls).is_empty()));
    for (index, tls) in tree::items(value, &["spec", "tls"]).iter().enumerate() {
        let field = format!("spec.tls[{index}]");
        for (position, name) in tree::items(tls, &["hosts"]).iter().filter_map(Value::as_str).enumerate() {
            causes.extend(text::check(&format!("{field}.hosts[{position}]"), name, host_complaints));
        }
        if !is_lax {
            let name = tree::text(tls, &["secretName"]);
            causes.extend(text::check_optional(&format!("{field}.secretName"), name, dns1123_subdomain));
        }
    }
    let class = tree::get(value, &["spec", "ingressClassName"]).and_then(Value::as_str);
    causes.extend(class.into_iter().flat_map(|name| text::check("spec.ingressClassName", name, dns1123_subdomain)));
    let annotation = text_map(value.meta("annotations")).get(CLASS_ANNOTATION).cloned();
    if let (Some(annotation), Some(class), None) = (annotation, class, old)
        && annotation != class
    {
        let why = "must match `ingressClassName` when both are specified";
        causes.push(StatusCause::invalid(format!("annotations.{CLASS_ANNOTATION}"), quoted(&annotation), why));
    }
    causes
}

fn host(field: &str, host: &str) -> Vec<StatusCause> {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    let why = "must be a DNS name, not an IP address";
    let address = is_address.then(|| StatusCause::invalid(field, quoted(host), why));
    address.into_iter().chain(text::check_optional(field, host, host_complaints)).collect()
}

/// Returns the problems of a host name. Its first label may be a wildcard.
fn host_complaints(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return dns1123_subdomain(host);
    }
    let is_wildcard = host.strip_prefix("*.").is_some_and(|rest| dns1123_subdomain(rest).is_empty());
    let why = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
               of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
               '*.example.com', regex used for validation is \
               '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if is_wildcard { Vec::new() } else { vec![why.to_owned()] }
}

fn path(field: &str, path: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (kind, text) = (tree::text(path, &["pathType"]), tree::text(path, &["path"]));
    match kind {
        "" => return vec![StatusCause::required(format!("{field}.pathType"), "pathType must be specified")],
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                causes.push(StatusCause::invalid(format!("{field}.path"), quoted(text), "must be an absolute path"));
            }
            let mut complain =
                |why: &str| causes.push(StatusCause::invalid(format!("{field}.path"), quoted(text), why));
            for bad in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|bad| text.contains(bad)) {
                complain(&format!("must not contain '{bad}'"));
            }
            for bad in ["/..", "/."].into_iter().filter(|bad| text.ends_with(bad)) {
                complain(&format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                causes.push(StatusCause::invalid(format!("{field}.path"), quoted(text), "must be an absolute path"));
            }
        }
        other => {
            let allowed = ["Exact", "ImplementationSpecific", "Prefix"];
            causes.extend(number::one_of(format!("{field}.pathType"), other, &allowed));
        }
    }
    if let Some(backend) = path.get("backend") {
        causes.extend(self::backend(&format!("{field}.backend"), backend));
    }
    causes
}

fn backend(field: &str, backend: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    match (service, resource) {
        (Some(_), Some(_)) => {
            causes.push(StatusCause::invalid(field, quoted(""), "cannot set both resource and service backends"))
        }
        (None, None) => causes.push(StatusCause::invalid(field, quoted(""), "resource or service backend is required")),
        (None, Some(resource)) => causes.extend(reference(&format!("{field}.resource"), resource)),
        (Some(service), None) => {
            let name = tree::text(service, &["name"]);
            causes.extend(text::required(&format!("{field}.service.name"), name, dns1123_label));
            let (name, port) =
                (tree::text(service, &["port", "name"]), tree::int(service, &["port", "number"]).unwrap_or_default());
            match (name.is_empty(), port) {
                (true, 0) => causes.push(StatusCause::required(field, "port name or number is required")),
                (false, 0) => causes.extend(selector::port_name(&format!("{field}.service.port.name"), name)),
                (false, _) => {
                    causes.push(StatusCause::invalid(field, quoted(""), "cannot set both port name & port number"))
                }
                (true, number) => causes.extend(number::port(format!("{field}.service.port.number"), number)),
            }
        }
    }
    causes
}

fn reference(field: &str, reference: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if let Some(group) = reference.get("apiGroup").and_then(Value::as_str) {
        causes.extend(text::check(&format!("{field}.apiGroup"), group, dns1123_subdomain));
    }
    for part in ["kind", "name"] {
        let inner = format!("{field}.{part}");
        match tree::text(reference, &[part]) {
            "" => causes.push(StatusCause::required(inner, &format!("{part} is required"))),
            text => causes.extend(text::check(&inner, text, path_segment)),
        }
    }
    causes
}

/// Validates an IngressClass. Its controller is immutable.
pub(super) fn ingress_class(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let changed = old.and_then(|old| number::immutable(value, old, &["spec", "controller"]));
    let mut causes: Vec<_> = changed.into_iter().collect();
    let controller = tree::text(value, &["spec", "controller"]);
    if controller.len() > CONTROLLER_MAX {
        causes.push(StatusCause::too_long("spec.controller", CONTROLLER_MAX));
    }
    causes.extend(text::domain_path("spec.controller", controller));
    let Some(parameters) = tree::get(value, &["spec", "parameters"]) else { return causes };
    causes.extend(reference("spec.parameters", parameters));
    let namespace = parameters.get("namespace").and_then(Value::as_str);
    match (tree::text(parameters, &["scope"]), namespace) {
        ("", _) => causes.push(StatusCause::required("spec.parameters.scope", "")),
        ("Namespace", None) => {
            let why = "`parameters.scope` is set to 'Namespace'";
            causes.push(StatusCause::required("spec.parameters.namespace", why));
        }
        ("Namespace", Some(name)) => causes.extend(text::check("spec.parameters.namespace", name, dns1123_label)),
        ("Cluster", Some(_)) => {
            let why = "`parameters.scope` is set to 'Cluster'";
            causes.push(StatusCause::forbidden("spec.parameters.namespace", why));
        }
        ("Cluster", None) => {}
        (other, _) => causes.extend(number::one_of("spec.parameters.scope", other, &["Cluster", "Namespace"])),
    }
    causes
}

/// Validates an IPAddress.
pub(super) fn ip_address(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(old) = old {
        return number::immutable(value, old, &["spec", "parentRef"]).into_iter().collect();
    }
    let Some(parent) = tree::get(value, &["spec", "parentRef"]) else {
        return vec![StatusCause::required("spec.parentRef", "")];
    };
    let text_of = |part: &str| tree::text(parent, &[part]);
    let mut causes = text::check_optional("spec.parentRef.group", text_of("group"), dns1123_subdomain);
    for part in ["resource", "name"] {
        causes.extend(text::required(&format!("spec.parentRef.{part}"), text_of(part), path_segment));
    }
    causes.extend(text::check_optional("spec.parentRef.namespace", text_of("namespace"), path_segment));
    causes
}

/// Validates a ServiceCIDR.
pub(super) fn service_ranges(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    const FIELD: &str = "spec.cidrs";
    if let Some(old) = old {
        return number::immutable(value, old, &["spec", "cidrs"]).into_iter().collect();
    }
    let ranges = tree::items(value, &["spec", "cidrs"]);
    let shown = || text::internal(&value.get("spec").cloned().unwrap_or_default(), &[("CIDRs", "cidrs", "null")]);
    match ranges.len() {
        0 => return vec![StatusCause::required(FIELD, "at least one CIDR required")],
        2 if !address::is_dual(ranges) => {
            let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            return vec![StatusCause::invalid(FIELD, shown(), why)];
        }
        1 | 2 => {}
        _ => return vec![StatusCause::invalid(FIELD, shown(), "may only hold up to 2 values")],
    }
    let ranges = ranges.iter().filter_map(Value::as_str).enumerate();
    ranges.filter_map(|(index, range)| address::cidr(&format!("{FIELD}[{index}]"), range)).collect()
}
