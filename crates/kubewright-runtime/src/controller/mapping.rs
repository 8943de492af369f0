//! Maps objects to keys of the main kind.

use std::sync::Arc;

use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::{GroupKind, Object, ObjectKey, Str};

/// The keys of the main kind that an object affects. `None` means unknown: then it affects all.
pub(super) type Mapping<K> = Arc<dyn Fn(Option<&K>, &ObjectKey) -> Option<Vec<ObjectKey>> + Send + Sync>;

/// Maps an object to itself.
pub(super) fn itself<K>() -> Mapping<K> {
    Arc::new(|_, key| Some(vec![key.clone()]))
}

/// The main kind, to which owner references point.
#[derive(Debug, Clone)]
pub(super) struct OwnerKind {
    pub(super) kind: GroupKind,
    pub(super) is_namespaced: bool,
}

/// Maps an object to its owners of this kind: the controller, or all.
pub(super) fn owner<K: Object>(owner: OwnerKind, every_owner: bool) -> Mapping<K> {
    Arc::new(move |object, key| {
        let references = object?.owner_references();
        let namespace = if owner.is_namespaced { key.namespace().clone() } else { Str::new() };
        Some(owners(&references, &owner.kind, &namespace, every_owner))
    })
}

fn owners(references: &[OwnerReference], kind: &GroupKind, namespace: &Str, every_owner: bool) -> Vec<ObjectKey> {
    let owners = references.iter().filter(|reference| {
        let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        reference.kind == kind.kind && kind.group == group && (every_owner || reference.controller == Some(true))
    });
    owners.map(|owner| ObjectKey::namespaced(namespace.clone(), owner.name.clone())).collect()
}
