//! Defaults of Ingresses, NetworkPolicies, Endpoints and EndpointSlices.

use kubewright_core::{Value, tree};

/// Sets the defaults of an Ingress. The path type has no default.
pub(super) fn ingress(value: &mut Value) {
    tree::default(value, "status", tree::map([("loadBalancer", tree::map([]))]));
}

/// Sets the defaults of an IngressClass.
pub(super) fn ingress_class(value: &mut Value) {
    if let Some(parameters) = tree::field_mut(value, "spec").and_then(|spec| tree::field_mut(spec, "parameters")) {
        tree::default(parameters, "scope", "Cluster");
    }
}

/// Sets the defaults of a NetworkPolicy: its policy types follow from its rules.
pub(super) fn policy(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    if tree::items(spec, &["policyTypes"]).is_empty() {
        let has_egress = !tree::items(spec, &["egress"]).is_empty();
        let types = if has_egress { tree::list(["Ingress", "Egress"]) } else { tree::list(["Ingress"]) };
        tree::set(spec, &["policyTypes"], types);
    }
    for rules in ["ingress", "egress"] {
        for rule in tree::items_mut(spec, rules) {
            for port in tree::items_mut(rule, "ports") {
                tree::default(port, "protocol", "TCP");
            }
        }
    }
}

/// Sets the defaults of Endpoints.
pub(super) fn endpoints(value: &mut Value) {
    for subset in tree::items_mut(value, "subsets") {
        for port in tree::items_mut(subset, "ports") {
            tree::default_zero(port, "protocol", "TCP");
        }
    }
}

/// Sets the defaults of an EndpointSlice.
pub(super) fn endpoint_slice(value: &mut Value) {
    for port in tree::items_mut(value, "ports") {
        tree::default(port, "name", "");
        tree::default(port, "protocol", "TCP");
    }
}
