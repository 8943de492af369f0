//! Cells of ingresses, network policies and addresses.

use kubewright_core::{GroupResource, Value, tree};

use super::services::load_balancer;
use crate::object::{PrintedObject, join};

/// Number of hosts to show; the rest is counted.
const SHOWN: usize = 3;

/// Name, class, hosts, address, ports, age.
pub(super) fn ingress(ingress: &PrintedObject<'_>) -> Vec<Value> {
    let addresses = load_balancer(ingress);
    vec![
        ingress.name(),
        ingress.text_or(&["spec", "ingressClassName"], "<none>"),
        hosts(ingress.items(&["spec", "rules"])).into(),
        join(addresses.iter().map(String::as_str)).into(),
        Value::from(if ingress.items(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" }),
        ingress.age(),
    ]
}

/// The hosts of the first rules. Every further rule is counted, even without a host.
fn hosts(rules: &[Value]) -> String {
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == SHOWN;
        let host = tree::text(rule, &["host"]);
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => hosts.join(","),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN),
    }
}

/// Name, controller, parameters, age.
pub(super) fn ingress_class(object: &PrintedObject<'_>) -> Vec<Value> {
    let parameter = |key: &str| object.text(&["spec", "parameters", key]);
    let parameters = match (object.has(&["spec", "parameters"]), parameter("apiGroup")) {
        (false, _) => "<none>".to_owned(),
        (true, "") => format!("{}/{}", parameter("kind"), parameter("name")),
        (true, group) => format!("{}.{group}/{}", parameter("kind"), parameter("name")),
    };
    vec![object.name(), object.text(&["spec", "controller"]).into(), parameters.into(), object.age()]
}

/// Name, pod selector, age.
pub(super) fn network_policy(object: &PrintedObject<'_>) -> Vec<Value> {
    let selector = if object.has(&["spec", "podSelector"]) {
        object.selector_cell(&["spec", "podSelector"])
    } else {
        Value::from("<none>")
    };
    vec![object.name(), selector, object.age()]
}

/// Name, CIDRs, age.
pub(super) fn service_cidr(object: &PrintedObject<'_>) -> Vec<Value> {
    let cidrs = join(object.items(&["spec", "cidrs"]).iter().filter_map(Value::as_str));
    vec![object.name(), cidrs.into(), object.age()]
}

/// Name, parent. As in the real server, there is an extra cell with the age but no column for it.
pub(super) fn ip_address(object: &PrintedObject<'_>) -> Vec<Value> {
    let parent = |key: &str| object.text(&["spec", "parentRef", key]);
    let reference = if object.has(&["spec", "parentRef"]) {
        let resource = GroupResource::new(parent("group"), parent("resource")).to_string().to_lowercase();
        match parent("namespace") {
            "" => format!("{resource}/{}", parent("name")),
            namespace => format!("{resource}/{namespace}/{}", parent("name")),
        }
    } else {
        "<none>".to_owned()
    };
    vec![object.name(), reference.into(), object.age()]
}
