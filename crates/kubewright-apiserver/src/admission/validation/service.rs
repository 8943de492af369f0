//! Services.

use std::collections::BTreeSet;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain};

use super::metadata::quoted;
use super::{metadata, number, selector};
use crate::object::tree;

/// What is wrong with a Service.
pub(super) fn service(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let kind = tree::text(spec, &["type"]);
    let ports = tree::items(spec, &["ports"]);
    let is_headless = tree::text(spec, &["clusterIP"]) == "None";
    let mut causes = Vec::new();
    causes.extend(number::one_of("spec.type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    causes.extend(address(spec, kind, is_headless, old));
    causes.extend(metadata::labels("spec.selector", spec.get("selector")));
    causes.extend(number::one_of(
        "spec.sessionAffinity",
        tree::text(spec, &["sessionAffinity"]),
        &["ClientIP", "None"],
    ));
    for (field, allowed) in
        [("externalTrafficPolicy", ["Cluster", "Local"]), ("internalTrafficPolicy", ["Cluster", "Local"])]
    {
        match tree::text(spec, &[field]) {
            "" => {}
            text => causes.extend(number::one_of(format!("spec.{field}"), text, &allowed)),
        }
    }
    // What a service had for its former type is taken back, and not held against it.
    let keeps_ports = old.is_some_and(|old| node_ports(old) == node_ports(value));
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        causes.extend(self::port(&field, port, ports.len() > 1, &mut names));
        if !(keeps_ports && kind == "ClusterIP") {
            causes.extend(node_port(&field, port, kind, &ports[..index]));
        }
        let identity = |port: &Value| (tree::int(port, &["port"]), tree::text(port, &["protocol"]).to_owned());
        if ports[..index].iter().any(|other| identity(other) == identity(port)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                tree::text(port, &["protocol"]),
                tree::int(port, &["port"]).unwrap_or_default()
            );
            causes.push(StatusCause::duplicate(field, shown));
        }
    }
    causes
}

fn port(field: &str, port: &Value, needs_name: bool, names: &mut Vec<String>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let name = tree::text(port, &["name"]);
    if name.is_empty() {
        if needs_name {
            causes.push(StatusCause::required(format!("{field}.name"), ""));
        }
    } else {
        let complaints = dns1123_label(name);
        causes.extend(complaints.iter().map(|why| StatusCause::invalid(format!("{field}.name"), quoted(name), why)));
        if names.iter().any(|have| have == name) {
            causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        }
        names.push(name.to_owned());
    }
    causes.extend(number::port(format!("{field}.port"), tree::int(port, &["port"]).unwrap_or_default()));
    let protocol = tree::text(port, &["protocol"]);
    causes.extend(number::one_of(format!("{field}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
    if let target @ Some(_) = port.get("targetPort") {
        causes.extend(selector::port(&format!("{field}.targetPort"), target));
    }
    causes
}

/// A port on all nodes, which only some services have.
fn node_port(field: &str, port: &Value, kind: &str, others: &[Value]) -> Option<StatusCause> {
    let field = format!("{field}.nodePort");
    let number = tree::int(port, &["nodePort"]).filter(|number| *number != 0)?;
    if kind == "ClusterIP" {
        return Some(StatusCause::forbidden(field, "may not be used when `type` is 'ClusterIP'"));
    }
    let protocol = tree::text(port, &["protocol"]);
    let is_same =
        |other: &Value| tree::int(other, &["nodePort"]) == Some(number) && tree::text(other, &["protocol"]) == protocol;
    others.iter().any(is_same).then(|| StatusCause::duplicate(field, number))
}

/// The ports on all nodes.
fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = tree::items(service, &["spec", "ports"]).iter();
    ports.filter_map(|port| tree::int(port, &["nodePort"])).filter(|number| *number != 0).collect()
}

/// What kinds of services have which addresses.
fn address(spec: &Value, kind: &str, is_headless: bool, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match kind {
        "LoadBalancer" | "NodePort" if is_headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            causes.push(StatusCause::invalid("spec.clusterIPs[0]", quoted("None"), &why));
        }
        "ExternalName" => {
            let address = tree::text(spec, &["clusterIP"]);
            let is_kept = old.is_some_and(|old| tree::text(old, &["spec", "clusterIP"]) == address);
            if !address.is_empty() && !is_kept {
                causes.push(StatusCause::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
            }
            match tree::text(spec, &["externalName"]) {
                "" => causes.push(StatusCause::required("spec.externalName", "")),
                name => {
                    let complaints = dns1123_subdomain(name.strip_suffix('.').unwrap_or(name));
                    let complain = |why: &String| StatusCause::invalid("spec.externalName", quoted(name), why);
                    causes.extend(complaints.iter().map(complain));
                }
            }
        }
        _ => {}
    }
    if kind != "LoadBalancer" && !tree::items(spec, &["loadBalancerSourceRanges"]).is_empty() {
        let why = "may only be used when `type` is 'LoadBalancer'";
        causes.push(StatusCause::forbidden("spec.loadBalancerSourceRanges", why));
    }
    let affinity = tree::get(spec, &["sessionAffinityConfig"]);
    match (tree::text(spec, &["sessionAffinity"]), affinity) {
        ("None", Some(_)) => {
            let why = "must not be set when session affinity is None";
            causes.push(StatusCause::forbidden("spec.sessionAffinityConfig", why));
        }
        ("ClientIP", Some(config)) => {
            let seconds = tree::int(config, &["clientIP", "timeoutSeconds"]).unwrap_or_default();
            if !(1..=86_400).contains(&seconds) {
                let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
                let why = "must be greater than 0 and less than 86400";
                causes.push(StatusCause::invalid(field, seconds, why));
            }
        }
        _ => {}
    }
    causes
}
