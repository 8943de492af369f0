//! Ingresses.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;

use super::metadata::quoted;
use super::number;
use crate::object::tree;

/// What is wrong with an ingress.
pub(super) fn ingress(value: &Value) -> Vec<StatusCause> {
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
    for (index, tls) in tree::items(value, &["spec", "tls"]).iter().enumerate() {
        for (position, name) in tree::items(tls, &["hosts"]).iter().enumerate() {
            causes.extend(host(&format!("spec.tls[{index}].hosts[{position}]"), name.as_str().unwrap_or_default()));
        }
    }
    causes
}

fn host(field: &str, host: &str) -> Vec<StatusCause> {
    if host.is_empty() {
        return Vec::new();
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        return vec![StatusCause::invalid(field, quoted(host), "must be a DNS name, not an IP address")];
    }
    let complaints = dns1123_subdomain(host.strip_prefix("*.").unwrap_or(host));
    complaints.iter().map(|why| StatusCause::invalid(field, quoted(host), why)).collect()
}

fn path(field: &str, path: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (kind, text) = (tree::text(path, &["pathType"]), tree::text(path, &["path"]));
    match kind {
        "" => causes.push(StatusCause::required(format!("{field}.pathType"), "pathType must be specified")),
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
        (None, Some(_)) => {}
        (Some(service), None) => {
            if tree::text(service, &["name"]).is_empty() {
                causes.push(StatusCause::required(format!("{field}.service.name"), ""));
            }
            let (name, port) =
                (tree::text(service, &["port", "name"]), tree::int(service, &["port", "number"]).unwrap_or_default());
            match (name.is_empty(), port) {
                (true, 0) => causes.push(StatusCause::required(field, "port name or number is required")),
                (false, 0) => {}
                (false, _) => {
                    causes.push(StatusCause::invalid(field, quoted(""), "cannot set both port name & port number"))
                }
                (true, number) => causes.extend(number::port(format!("{field}.service.port.number"), number)),
            }
        }
    }
    causes
}
