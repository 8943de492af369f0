//! Synchronizes `dataSource` and `dataSourceRef` of claims. The older field supports claims and
//! snapshots only.

use kubewright_core::{Value, tree};

/// Normalizes the two fields of a new or updated claim.
///
/// A `dataSource` that names another kind is dropped, as servers without `dataSourceRef` did. Then
/// both fields get the same value.
pub(crate) fn normalize(claim: &mut Value, old: Option<&Value>) {
    let had_source = old.is_some_and(|old| tree::get(old, &["spec", "dataSource"]).is_some());
    let Some(spec) = tree::field_mut(claim, "spec") else { return };
    if !had_source && spec.get("dataSourceRef").is_none() && !spec.get("dataSource").is_some_and(is_plain) {
        tree::remove(spec, &["dataSource"]);
    }
    synchronize(spec);
}

/// Copies the set field to the unset one, unless `dataSourceRef` names another namespace, which
/// `dataSource` cannot.
pub(crate) fn synchronize(spec: &mut Value) {
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

/// Whether the source is a claim or a snapshot.
fn is_plain(source: &Value) -> bool {
    let of = |part: &str| tree::text(source, &[part]);
    matches!(
        (of("apiGroup"), of("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}
