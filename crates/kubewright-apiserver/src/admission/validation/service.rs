//! Services.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_label;

use super::metadata::quoted;
use super::number;
use crate::object::tree;

/// What is wrong with a Service.
pub(super) fn service(value: &Value) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let kind = tree::text(spec, &["type"]);
    let ports = tree::items(spec, &["ports"]);
    let is_headless = tree::text(spec, &["clusterIP"]) == "None";
    let mut causes = Vec::new();
    causes.extend(number::one_of("spec.type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]));
    if ports.is_empty() && !is_headless && kind != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    if kind == "ExternalName" && tree::text(spec, &["externalName"]).is_empty() {
        causes.push(StatusCause::required("spec.externalName", ""));
    }
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
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        causes.extend(self::port(&field, port, ports.len() > 1, &mut names));
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
    if let Some(Value::Int(target)) = port.get("targetPort") {
        causes.extend(number::port(format!("{field}.targetPort"), *target));
    }
    causes
}
