//! Defaults of ResourceClaims.

use kubewright_core::{Value, tree};

/// Sets the defaults of a ResourceClaim.
pub(super) fn claim(claim: &mut Value) {
    if let Some(spec) = tree::field_mut(claim, "spec") {
        spec_defaults(spec);
    }
}

/// Sets the defaults of a ResourceClaimTemplate.
pub(super) fn template(template: &mut Value) {
    if let Some(spec) = tree::field_mut(template, "spec") {
        claim(spec);
    }
}

/// A request without an allocation mode asks for exactly one device.
fn spec_defaults(spec: &mut Value) {
    let Some(devices) = tree::field_mut(spec, "devices") else { return };
    for request in tree::items_mut(devices, "requests") {
        if let Some(exactly) = tree::field_mut(request, "exactly") {
            device_request(exactly);
        }
        tree::items_mut(request, "firstAvailable").iter_mut().for_each(device_request);
    }
}

fn device_request(device_request: &mut Value) {
    tree::default_zero(device_request, "allocationMode", "ExactCount");
    if tree::text(device_request, &["allocationMode"]) == "ExactCount" {
        tree::default_zero(device_request, "count", 1);
    }
    for toleration in tree::items_mut(device_request, "tolerations") {
        tree::default_zero(toleration, "operator", "Equal");
    }
}
