//! Claims of devices.

use kubewright_core::Value;

use crate::object::tree;

/// A claim.
pub(super) fn claim(claim: &mut Value) {
    if let Some(spec) = tree::field_mut(claim, "spec") {
        spec_defaults(spec);
    }
}

/// A template of claims.
pub(super) fn template(template: &mut Value) {
    if let Some(spec) = tree::field_mut(template, "spec") {
        claim(spec);
    }
}

/// Who asks for devices and says no more asks for one.
fn spec_defaults(spec: &mut Value) {
    let Some(devices) = tree::field_mut(spec, "devices") else { return };
    for request in tree::items_mut(devices, "requests") {
        if let Some(exactly) = tree::field_mut(request, "exactly") {
            wish(exactly);
        }
        tree::items_mut(request, "firstAvailable").iter_mut().for_each(wish);
    }
}

fn wish(wish: &mut Value) {
    tree::default_zero(wish, "allocationMode", "ExactCount");
    if tree::text(wish, &["allocationMode"]) == "ExactCount" {
        tree::default_zero(wish, "count", 1);
    }
    for toleration in tree::items_mut(wish, "tolerations") {
        tree::default_zero(toleration, "operator", "Equal");
    }
}
