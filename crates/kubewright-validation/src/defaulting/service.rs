//! Defaults of Services.

use kubewright_core::Value;
use kubewright_core::tree::{self, text_map};

/// Sets the defaults of a Service. Addresses and ports are allocated when it is stored.
pub(super) fn service(value: &mut Value) {
    let balancer = tree::field_mut(value, "status").and_then(|status| tree::field_mut(status, "loadBalancer"));
    for ingress in balancer.map_or(&mut [][..], |balancer| tree::items_mut(balancer, "ingress")) {
        if !tree::text(ingress, &["ip"]).is_empty() {
            tree::default(ingress, "ipMode", "VIP");
        }
    }
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default_zero(spec, "sessionAffinity", "None");
    tree::default_zero(spec, "type", "ClusterIP");
    if tree::text(spec, &["sessionAffinity"]) == "None" {
        tree::remove(spec, &["sessionAffinityConfig"]);
    } else if tree::int(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]).is_none() {
        tree::set(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"], 10_800);
    }
    for port in tree::items_mut(spec, "ports") {
        tree::default_zero(port, "protocol", "TCP");
        let is_unset = match port.get("targetPort") {
            None | Some(Value::Int(0)) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(_) => false,
        };
        if is_unset && let Some(number) = port.get("port").cloned() {
            tree::set(port, &["targetPort"], number);
        }
    }
    let kind = tree::text(spec, &["type"]).to_owned();
    let has_addresses = kind == "ClusterIP" && !tree::items(spec, &["externalIPs"]).is_empty();
    if matches!(&*kind, "NodePort" | "LoadBalancer") || has_addresses {
        tree::default_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        tree::default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind == "ExternalName" {
        return;
    }
    tree::default(spec, "internalTrafficPolicy", "Cluster");
    let first = tree::items(spec, &["clusterIPs"]).first().cloned();
    if let (Some(address), "") = (first, tree::text(spec, &["clusterIP"])) {
        tree::set(spec, &["clusterIP"], address);
    }
    let is_headless = tree::text(spec, &["clusterIP"]) == "None";
    if is_headless && text_map(spec.get("selector")).is_empty() {
        any_family(spec);
        return;
    }
    tree::default(spec, "ipFamilyPolicy", "SingleStack");
    tree::default(spec, "ipFamilies", tree::list(["IPv4"]));
}

/// A headless Service without a selector may have endpoints of either family.
fn any_family(spec: &mut Value) {
    tree::default(spec, "ipFamilyPolicy", "RequireDualStack");
    tree::default(spec, "ipFamilies", tree::list(["IPv4"]));
    let other = match tree::items(spec, &["ipFamilies"]) {
        [Value::String(one)] if one == "IPv4" => "IPv6",
        [Value::String(one)] if one == "IPv6" => "IPv4",
        _ => return,
    };
    if tree::text(spec, &["ipFamilyPolicy"]) != "SingleStack"
        && let Some(Value::Array(families)) = tree::field_mut(spec, "ipFamilies")
    {
        families.push(other.into());
    }
}
