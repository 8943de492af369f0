//! Validates Services.

use std::collections::{BTreeSet, HashSet};

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, qualified_name};
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{address, metadata, number, selector, service_address, text};

/// The kubelet port, which no Service may expose.
const KUBELET_PORT: i64 = 10_250;

/// Validates a Service.
pub(super) fn service(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let kind = tree::text(spec, &["type"]);
    let ports = tree::items(spec, &["ports"]);
    let is_headless = tree::text(spec, &["clusterIP"]) == "None";
    let mut causes: Vec<_> = old.map(|old| changes(spec, old)).unwrap_or_default();
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    causes.extend(by_type(spec, kind, is_headless, old));
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        causes.extend(self::port(&format!("spec.ports[{index}]"), port, ports.len() > 1, &mut names));
    }
    causes.extend(metadata::labels("spec.selector", spec.get("selector")));
    causes.extend(affinity(spec));
    causes.extend(service_address::cluster(spec, kind));
    causes.extend(service_address::external(spec));
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    causes.extend(text::choice("spec.type", kind, &kinds));
    // A type change keeps the old node ports in the request. They are released later, so accept
    // them.
    let keeps_ports = old.is_some_and(|old| node_ports(old) == node_ports(value));
    let forbidden = ports.iter().enumerate().filter(|(_, port)| {
        kind == "ClusterIP" && !keeps_ports && tree::int(port, &["nodePort"]).is_some_and(|number| number != 0)
    });
    causes.extend(forbidden.map(|(index, _)| {
        let why = "may not be used when `type` is 'ClusterIP'";
        StatusCause::forbidden(format!("spec.ports[{index}].nodePort"), why)
    }));
    causes.extend(repeated(ports));
    causes.extend(service_address::source_ranges(value, kind));
    causes.extend(balancer(spec, kind));
    causes.extend(traffic(spec, kind));
    causes
}

/// Validates updates: cluster IPs and load balancer class are immutable while the type needs them.
fn changes(spec: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let before = old.get("spec").cloned().unwrap_or_default();
    let both = |kind: &str| [spec, &before].into_iter().all(|spec| tree::text(spec, &["type"]) == kind);
    if both("LoadBalancer") && spec.get("loadBalancerClass") != before.get("loadBalancerClass") {
        let shown = spec.get("loadBalancerClass").cloned().unwrap_or_default();
        causes.push(StatusCause::invalid("spec.loadBalancerClass", shown, "may not change once set"));
    }
    let checked = both("LoadBalancer")
        && [spec, &before].into_iter().all(|spec| tree::text(spec, &["externalTrafficPolicy"]) == "Local");
    let port = |spec: &Value| tree::int(spec, &["healthCheckNodePort"]).unwrap_or_default();
    if checked && port(spec) != 0 && port(spec) != port(&before) {
        causes.push(StatusCause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    causes
}

/// Rejects duplicate ports and node ports.
fn repeated(ports: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let identity = |port: &Value, part: &str| (tree::int(port, &[part]), tree::text(port, &["protocol"]).to_owned());
    let mut node_ports = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let is_repeated = !node_ports.insert(identity(port, "nodePort"));
        let number = tree::int(port, &["nodePort"]).filter(|number| *number != 0);
        if let Some(number) = number.filter(|_| is_repeated) {
            causes.push(StatusCause::duplicate(format!("spec.ports[{index}].nodePort"), number));
        }
    }
    let mut inner_ports = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        if !inner_ports.insert(identity(port, "port")) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                tree::text(port, &["protocol"]),
                tree::int(port, &["port"]).unwrap_or_default()
            );
            causes.push(StatusCause::duplicate(format!("spec.ports[{index}]"), shown));
        }
    }
    causes
}

/// Rejects load balancer fields of other types.
fn balancer(spec: &Value, kind: &str) -> Vec<StatusCause> {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let is_balancer = kind == "LoadBalancer";
    let mut causes = Vec::new();
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_balancer {
        causes.push(StatusCause::forbidden("spec.allocateLoadBalancerNodePorts", WHY));
    }
    match spec.get("loadBalancerClass").and_then(Value::as_str) {
        Some(class) if is_balancer => causes.extend(text::check("spec.loadBalancerClass", class, qualified_name)),
        Some(_) => causes.push(StatusCause::forbidden("spec.loadBalancerClass", WHY)),
        None => {}
    }
    causes
}

/// Validates the traffic policies.
fn traffic(spec: &Value, kind: &str) -> Vec<StatusCause> {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    let mut causes = Vec::new();
    let has_addresses = kind == "ClusterIP" && !tree::items(spec, &["externalIPs"]).is_empty();
    let policy = tree::text(spec, &["externalTrafficPolicy"]);
    let is_outside = matches!(kind, "LoadBalancer" | "NodePort") || has_addresses;
    if is_outside {
        causes.extend(text::choice("spec.externalTrafficPolicy", policy, &POLICIES));
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        causes.push(StatusCause::invalid("spec.externalTrafficPolicy", quoted(policy), why));
    }
    let port = tree::int(spec, &["healthCheckNodePort"]).unwrap_or_default();
    if port != 0 && kind == "LoadBalancer" && policy == "Local" {
        causes.extend(number::port("spec.healthCheckNodePort".to_owned(), port));
    } else if port != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(StatusCause::invalid("spec.healthCheckNodePort", port, why));
    }
    let policy = spec.get("internalTrafficPolicy");
    causes.extend(text::optional_choice("spec.internalTrafficPolicy", policy, &POLICIES));
    let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    causes.extend(text::optional_choice("spec.trafficDistribution", spec.get("trafficDistribution"), &known));
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
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        causes.extend(text::check(&format!("{field}.appProtocol"), protocol, qualified_name));
    }
    causes
}

/// All node ports.
fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = tree::items(service, &["spec", "ports"]).iter();
    ports.filter_map(|port| tree::int(port, &["nodePort"])).filter(|number| *number != 0).collect()
}

/// Validates which addresses the type allows.
fn by_type(spec: &Value, kind: &str, is_headless: bool, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if kind == "LoadBalancer" {
        for (index, port) in tree::items(spec, &["ports"]).iter().enumerate() {
            if tree::int(port, &["port"]) == Some(KUBELET_PORT) {
                let why = format!("may not expose port {KUBELET_PORT} externally since it is used by kubelet");
                causes.push(StatusCause::invalid(format!("spec.ports[{index}]"), KUBELET_PORT, &why));
            }
        }
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            causes.push(StatusCause::invalid("spec.clusterIPs[0]", quoted("None"), &why));
        }
        "ExternalName" => {
            const WHY: &str = "may not be set for ExternalName services";
            let address = tree::text(spec, &["clusterIP"]);
            let is_kept = old.is_some_and(|old| tree::text(old, &["spec", "clusterIP"]) == address);
            if !address.is_empty() && !is_kept {
                causes.push(StatusCause::forbidden("spec.clusterIPs", WHY));
            }
            for part in ["ipFamilies", "ipFamilyPolicy"] {
                let was = old.and_then(|old| tree::get(old, &["spec", part]));
                if spec.get(part).is_some() && spec.get(part) != was {
                    causes.push(StatusCause::forbidden(format!("spec.{part}"), WHY));
                }
            }
            let name = tree::text(spec, &["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            causes.extend(text::required("spec.externalName", name, dns1123_subdomain));
        }
        _ => {}
    }
    causes
}

fn affinity(spec: &Value) -> Vec<StatusCause> {
    let kind = tree::text(spec, &["sessionAffinity"]);
    let mut causes: Vec<_> = text::choice("spec.sessionAffinity", kind, &["ClientIP", "None"]).into_iter().collect();
    match (kind, spec.get("sessionAffinityConfig")) {
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

/// Validates the status of a Service.
pub(super) fn status(value: &Value, old: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "status.loadBalancer.ingress";
    let before = tree::items(old, &["status", "loadBalancer", "ingress"]);
    let is_known = |ip: &str| before.iter().any(|way| tree::text(way, &["ip"]) == ip);
    let ways = tree::items(value, &["status", "loadBalancer", "ingress"]);
    if tree::text(value, &["spec", "type"]) != "LoadBalancer" && !ways.is_empty() {
        return vec![StatusCause::forbidden(FIELD, "may only be used when `spec.type` is 'LoadBalancer'")];
    }
    let mut causes = Vec::new();
    for (index, way) in ways.iter().enumerate() {
        let (field, text_of) = (format!("{FIELD}[{index}]"), |part: &str| tree::text(way, &[part]));
        let (ip, mode, name) = (text_of("ip"), way.get("ipMode"), text_of("hostname"));
        let mode_field = format!("{field}.ipMode");
        if !ip.is_empty() && !is_known(ip) {
            causes.extend(address::ip(&format!("{field}.ip"), ip));
        }
        match (mode, ip.is_empty()) {
            (None, false) => causes.push(StatusCause::required(mode_field, "must be specified when `ip` is set")),
            (Some(_), true) => {
                causes.push(StatusCause::forbidden(mode_field, "may not be specified when `ip` is not set"));
            }
            _ => causes.extend(text::optional_choice(&mode_field, mode, &["Proxy", "VIP"])),
        }
        causes.extend(address::host(&format!("{field}.hostname"), name));
    }
    causes
}
