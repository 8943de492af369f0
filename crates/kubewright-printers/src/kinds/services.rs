//! Cells of Services, Endpoints and EndpointSlices.

use std::collections::BTreeSet;

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, join, number_at, or_none, shortened};

/// Number of addresses or ports to show; the rest is counted.
const SHOWN: usize = 3;

/// Name, type, cluster IP, external IP, ports, age; selector.
pub(super) fn service(service: &PrintedObject<'_>) -> Vec<Value> {
    let cluster_ip = service.items(&["spec", "clusterIPs"]).first().and_then(Value::as_str);
    vec![
        service.name(),
        service.text(&["spec", "type"]).into(),
        cluster_ip.map_or_else(|| service.text_or(&["spec", "clusterIP"], "<none>"), Value::from),
        external_ip(service),
        ports(service.items(&["spec", "ports"])),
        service.age(),
        service.labels(&["spec", "selector"]),
    ]
}

fn external_ip(service: &PrintedObject<'_>) -> Value {
    let external = service.items(&["spec", "externalIPs"]).iter().filter_map(Value::as_str);
    match service.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => or_none(join(external)),
        "LoadBalancer" => {
            let balancer = load_balancer(service);
            let all = balancer.iter().map(String::as_str).chain(external);
            match join(all) {
                all if all.is_empty() => Value::from("<pending>"),
                all => all.into(),
            }
        }
        "ExternalName" => service.text(&["spec", "externalName"]).into(),
        _ => Value::from("<unknown>"),
    }
}

/// The unique addresses of a load balancer, sorted.
pub(super) fn load_balancer(object: &PrintedObject<'_>) -> BTreeSet<String> {
    let points = object.items(&["status", "loadBalancer", "ingress"]).iter();
    let address = |point| match tree::text(point, &["ip"]) {
        "" => tree::text(point, &["hostname"]),
        ip => ip,
    };
    points.map(address).filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

fn ports(ports: &[Value]) -> Value {
    let ports: Vec<String> = ports
        .iter()
        .map(|port| {
            let (number, protocol) = (number_at(port, &["port"]), tree::text(port, &["protocol"]));
            match number_at(port, &["nodePort"]) {
                node_port @ 1.. => format!("{number}:{node_port}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    or_none(ports.join(","))
}

/// Name, endpoints, age.
pub(super) fn endpoints(object: &PrintedObject<'_>) -> Vec<Value> {
    let subsets = object.items(&["subsets"]);
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = tree::items(subset, &["addresses"]).iter().map(|address| tree::text(address, &["ip"]));
        match tree::items(subset, &["ports"]) {
            [] => all.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports.iter().map(|port| number_at(port, &["port"])) {
                    all.extend(
                        addresses
                            .clone()
                            .map(|ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }),
                    );
                }
            }
        }
    }
    let shown = match subsets {
        [] => "<none>".to_owned(),
        _ => shortened(&all, SHOWN, ","),
    };
    vec![object.name(), shown.into(), object.age()]
}

/// Name, address type, ports, endpoints, age.
pub(super) fn endpoint_slice(object: &PrintedObject<'_>) -> Vec<Value> {
    let port = |port: &Value| match (tree::get(port, &["port"]).and_then(Value::as_i64), tree::text(port, &["name"])) {
        (Some(number), _) => number.to_string(),
        (None, "") if tree::get(port, &["name"]).is_none() => "*".to_owned(),
        (None, name) => name.to_owned(),
    };
    let ports: Vec<String> = object.items(&["ports"]).iter().map(port).collect();
    let addresses = object.items(&["endpoints"]).iter().flat_map(|endpoint| tree::items(endpoint, &["addresses"]));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    let or_unset = |texts: &[String]| match shortened(texts, SHOWN, ",") {
        shown if shown.is_empty() => Value::from("<unset>"),
        shown => shown.into(),
    };
    vec![object.name(), object.text(&["addressType"]).into(), or_unset(&ports), or_unset(&addresses), object.age()]
}
