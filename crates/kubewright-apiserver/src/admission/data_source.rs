//! What a claimed volume is filled with, which goes by two names: the older takes claims and snapshots only.

use kubewright_core::Value;

use crate::object::tree;

/// Settles the two names of a claim that is new, or takes the place of another: what the older one cannot name is dropped,
/// as servers did that knew no other, and then both say the same.
pub(super) fn settle(claim: &mut Value, old: Option<&Value>) {
    let was_filled = old.is_some_and(|old| tree::get(old, &["spec", "dataSource"]).is_some());
    let Some(spec) = tree::field_mut(claim, "spec") else { return };
    if !was_filled && spec.get("dataSourceRef").is_none() && !spec.get("dataSource").is_some_and(is_plain) {
        tree::remove(spec, &["dataSource"]);
    }
    align(spec);
}

/// Lets both names say the same, unless the newer one means another namespace, which the older cannot.
pub(super) fn align(spec: &mut Value) {
    let (plain, reference) = (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned());
    match (plain, reference) {
        (Some(plain), None) => tree::set(spec, &["dataSourceRef"], plain),
        (None, Some(reference)) if tree::text(&reference, &["namespace"]).is_empty() => {
            tree::set(spec, &["dataSource"], reference);
            tree::remove(spec, &["dataSource", "namespace"]);
        }
        _ => {}
    }
}

/// Whether it is a claim or a snapshot.
fn is_plain(source: &Value) -> bool {
    let of = |part: &str| tree::text(source, &[part]);
    matches!(
        (of("apiGroup"), of("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}
