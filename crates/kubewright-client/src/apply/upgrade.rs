//! Migrates field ownership from updates to server-side apply.

use kubewright_core::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kubewright_core::options::Patch;
use kubewright_core::{DynamicObject, Object, RawJson, Value};
use kubewright_merge::apply::FieldSet;

use crate::error::Result;

/// Transfers the fields that `from` own through updates to `to`, as if applied; returns whether
/// anything changed.
///
/// Without this, a field that was once written by an update stays when it is omitted from an
/// applied configuration, because its old manager still owns it.
#[doc(alias = "UpgradeManagedFields")]
#[doc(alias = "csaupgrade")]
pub fn upgrade_managed_fields(metadata: &mut ObjectMeta, from: &[&str], to: &str) -> bool {
    let is_old = |entry: &ManagedFieldsEntry| {
        entry.operation.as_deref() == Some("Update")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.manager.as_deref().is_some_and(|manager| from.contains(&manager))
    };
    let is_new = |entry: &ManagedFieldsEntry| {
        entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.manager.as_deref() == Some(to)
    };
    let entries = &mut metadata.managed_fields;
    let Some(first) = entries.iter().find(|entry| is_old(entry)).cloned() else { return false };
    let fields = entries.iter().filter(|entry| is_old(entry) || is_new(entry)).filter_map(fields_of);
    let all = fields.fold(FieldSet::new(), |all, fields| all.union(&fields));
    let mut entry = entries.iter().find(|entry| is_new(entry)).cloned().unwrap_or(first);
    entry.manager = Some(to.into());
    entry.operation = Some("Apply".into());
    entry.fields_v1 = Some(RawJson::from(&all.to_value()));
    entries.retain(|entry| !is_old(entry) && !is_new(entry));
    entries.insert(0, entry);
    true
}

/// The patch that performs [`upgrade_managed_fields`] on the server, conditional on the object's
/// version. `None` if there is nothing to do.
///
/// # Errors
/// If the object cannot be converted to a tree.
#[doc(alias = "UpgradeManagedFieldsPatch")]
pub fn upgrade_patch(object: &impl Object, from: &[&str], to: &str) -> Result<Option<Patch>> {
    let mut changed = DynamicObject::from_typed(object)?;
    if !upgrade_managed_fields(&mut changed.metadata, from, to) {
        return Ok(None);
    }
    let fields = changed.get(&["metadata", "managedFields"]).unwrap_or_default();
    let version = Value::from(object.resource_version());
    let patch = format!(
        r#"[{{"op":"replace","path":"/metadata/managedFields","value":{fields}}},{{"op":"replace","path":"/metadata/resourceVersion","value":{version}}}]"#
    );
    Ok(Some(Patch::Json(patch.into_bytes())))
}

fn fields_of(entry: &ManagedFieldsEntry) -> Option<FieldSet> {
    FieldSet::from_value(&entry.fields_v1.as_ref()?.to_value().ok()?)
}
