//! Reconciles the children of a parent with the hook's response.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubewright_cache::InformerHandle;
use kubewright_client::apply::upgrade_patch;
use kubewright_client::{Api, Scope};
use kubewright_core::options::{ApplyOptions, CreateOptions, DeleteOptions, PropagationPolicy};
use kubewright_core::{DynamicObject, GroupVersionKind, GroupVersionResource, Object, Value};
use kubewright_runtime::ownership::{controller_reference, is_controlled_by};
use kubewright_runtime::{BoxError, Context, Freshness, OwnApi};

use super::webhook::{ChildrenByKind, tree};
use crate::hook_error::HookError;
use crate::indices;

/// The field manager.
const MANAGER: &str = "kubewright-hooks";

/// A hash of the last applied child. Shows whether fields must be removed.
const APPLIED: &str = "hooks.kubewright.dev/applied";

/// A declared child resource.
#[derive(Debug)]
pub(super) struct ChildResource {
    pub(super) kind: GroupVersionKind,
    pub(super) resource: GroupVersionResource,
    pub(super) is_namespaced: bool,
    pub(super) informer: InformerHandle<DynamicObject>,
}

impl ChildResource {
    fn api(&self, context: &Context, namespace: &str) -> OwnApi<DynamicObject> {
        let scope = if self.is_namespaced { Scope::Namespace(namespace.into()) } else { Scope::Cluster };
        context.own(Api::new(context.client(), self.resource.clone(), scope))
    }
}

/// The existing children of a parent, by kind and relative name.
pub(super) fn observed(parent: &DynamicObject, resources: &[ChildResource]) -> ChildrenByKind {
    let of_kind = |resource: &ChildResource| {
        let owned = indices::controlled_by(&resource.informer.lister(), parent.uid());
        let children = owned.into_iter().map(|child| (relative_name(parent, &child), child));
        let GroupVersionKind { kind, .. } = &resource.kind;
        (format!("{kind}.{}", resource.kind.group_version()), children.collect::<BTreeMap<_, _>>())
    };
    resources.iter().map(of_kind).collect()
}

/// The name of a child in the parent's namespace; otherwise with its namespace.
fn relative_name(parent: &DynamicObject, child: &DynamicObject) -> String {
    if parent.namespace().is_empty() && !child.namespace().is_empty() {
        format!("{}/{}", child.namespace(), child.name())
    } else {
        child.name().to_owned()
    }
}

/// Applies desired children, then deletes others.
pub(super) async fn bring_about(
    parent: &DynamicObject,
    wanted: Vec<DynamicObject>,
    resources: &[ChildResource],
    context: &Context,
) -> Result<(), BoxError> {
    let mut keys = Vec::with_capacity(wanted.len());
    for mut child in wanted {
        let resource = resources
            .iter()
            .find(|resource| resource.kind == child.group_version_kind())
            .ok_or_else(|| HookError::UnknownChild(child.group_version_kind().to_string()))?;
        place(parent, &mut child, resource)?;
        keys.push((&resource.kind, child.key()));
        apply(parent, child, resource, context).await?;
    }
    for resource in resources {
        for child in indices::controlled_by(&resource.informer.lister(), parent.uid()) {
            let is_wanted = keys.iter().any(|(kind, key)| **kind == resource.kind && *key == child.key());
            if is_wanted || child.is_being_deleted() {
                continue;
            }
            let options = DeleteOptions::default().uid(child.uid()).propagation(PropagationPolicy::Background);
            match resource.api(context, child.namespace()).delete_with(child.name(), &options).await {
                // Already deleted, or replaced by another object of its name.
                Err(error) if !error.is_not_found() && !error.is_conflict() => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Sets the namespace of a child: that of a namespaced parent, because owners must be in the same
/// namespace.
fn place(parent: &DynamicObject, child: &mut DynamicObject, resource: &ChildResource) -> Result<(), HookError> {
    if !resource.is_namespaced {
        child.metadata.namespace = None;
        return if parent.namespace().is_empty() { Ok(()) } else { Err(HookError::Place(child.key().to_string())) };
    }
    if child.namespace().is_empty() {
        child.set_namespace(parent.namespace());
    }
    let is_elsewhere = !parent.namespace().is_empty() && child.namespace() != parent.namespace();
    if is_elsewhere || child.namespace().is_empty() { Err(HookError::Place(child.key().to_string())) } else { Ok(()) }
}

async fn apply(
    parent: &DynamicObject,
    mut child: DynamicObject,
    resource: &ChildResource,
    context: &Context,
) -> Result<(), BoxError> {
    // Server-set fields that hooks copy must not be applied.
    child.metadata.uid = None;
    child.metadata.resource_version = None;
    child.metadata.managed_fields = Default::default();
    child.metadata.creation_timestamp = None;
    child.data.remove("status");
    child.metadata.owner_references = [controller_reference(parent)].into();
    child.metadata.annotations.remove(APPLIED);
    let mark = mark(&child.to_json());
    child.metadata.annotations.insert(APPLIED, mark.as_str().into());
    let existing: Option<Arc<DynamicObject>> = resource.informer.store().get_by_key(&child.key());
    if let Some(existing) = existing {
        if !is_controlled_by(&*existing, parent) {
            return Err(HookError::Taken(format!("{} {}", child.kind, child.key())).into());
        }
        let is_as_wanted =
            existing.annotations().get(APPLIED) == Some(mark.as_str()) && has_all(&tree(&*existing), &tree(&child));
        if is_as_wanted || existing.is_being_deleted() {
            return Ok(());
        }
    }
    let api = resource.api(context, child.namespace());
    write(parent, child, &api).await
}

/// Creates a child, or applies it to the one that the parent controls.
///
/// The cache may be stale, and a forced apply takes over any object of the name. So a missing
/// object is created, which fails if another one exists, and an existing object is applied with its
/// uid.
async fn write(parent: &DynamicObject, mut child: DynamicObject, api: &OwnApi<DynamicObject>) -> Result<(), BoxError> {
    let Some(live) = api.get(child.name(), Freshness::Live).await? else {
        let made = api.untracked().create_with(&child, &CreateOptions::default().field_manager(MANAGER)).await?;
        api.record(made.name(), made.resource_version());
        return Ok(());
    };
    if !is_controlled_by(&*live, parent) {
        return Err(HookError::Taken(format!("{} {}", child.kind, child.key())).into());
    }
    // Fields set by the create are removed later only if they count as applied.
    if let Some(upgrade) = upgrade_patch(&*live, &[MANAGER], MANAGER)? {
        api.patch(live.name(), upgrade).await?;
    }
    child.metadata.uid = live.metadata.uid.clone();
    api.apply(&child, &ApplyOptions::new(MANAGER).force()).await?;
    Ok(())
}

/// A short hash.
fn mark(bytes: &[u8]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Whether all desired fields are present. Servers add fields and may normalise values; then an
/// extra apply is sent, which changes nothing.
fn has_all(existing: &Value, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| existing.get(key).is_some_and(|existing| has_all(existing, wanted)))
        }
        (Value::Array(existing), Value::Array(wanted)) => {
            existing.len() == wanted.len() && existing.iter().zip(wanted.iter()).all(|(a, b)| has_all(a, b))
        }
        (existing, wanted) => existing == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_other_managers_are_not_a_difference() {
        let value = |json: &str| Value::from_json(json.as_bytes()).unwrap();
        let existing = value(r#"{"a":1,"b":[{"c":1,"d":2}],"e":{"f":null}}"#);
        assert!(has_all(&existing, &value(r#"{"a":1,"b":[{"c":1}]}"#)));
        for other in [r#"{"a":2}"#, r#"{"b":[]}"#, r#"{"b":[{"c":2}]}"#, r#"{"x":1}"#] {
            assert!(!has_all(&existing, &value(other)), "{other}");
        }
    }
}
