//! Owner references.

use std::{error::Error, fmt};

use crate::meta::v1::{ObjectMeta, OwnerReference};
use crate::{GroupVersion, GroupVersionKind, ObjectKey, Str};

/// The owner reference of the controller, if there is one.
#[doc(alias = "GetControllerOf")]
#[inline]
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().find(|reference| reference.controller == Some(true))
}

/// Whether `owner` is the controller of this object, by uid.
#[doc(alias = "IsControlledBy")]
#[inline]
pub fn is_controlled_by(meta: &ObjectMeta, owner: &ObjectMeta) -> bool {
    match (controller_of(meta), &owner.uid) {
        (Some(reference), Some(uid)) => reference.uid == *uid,
        _ => false,
    }
}

/// Whether `owner` owns this object, as controller or not.
///
/// An owner is identified by group, kind and name; its version may differ.
#[doc(alias = "HasOwnerReference")]
#[inline]
pub fn has_owner_reference(meta: &ObjectMeta, owner: &ObjectMeta, kind: &GroupVersionKind) -> bool {
    let reference = new_owner_reference(owner, kind);
    meta.owner_references.iter().any(|have| refer_to_same(have, &reference))
}

/// An owner reference that is not a controller.
#[inline]
pub fn new_owner_reference(owner: &ObjectMeta, kind: &GroupVersionKind) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version().into(),
        kind: kind.kind.clone(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        ..Default::default()
    }
}

/// A controller reference to `owner` that blocks its foreground deletion.
///
/// ```
/// use kubewright_core::{GroupVersionKind, meta::v1::ObjectMeta, owner};
/// const REPLICA_SET: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "ReplicaSet");
/// let set = ObjectMeta { name: Some("web".into()), uid: Some("1f2e".into()), ..Default::default() };
/// let pod = ObjectMeta {
///     owner_references: [owner::new_controller_ref(&set, &REPLICA_SET)].into(),
///     ..Default::default()
/// };
/// assert!(owner::is_controlled_by(&pod, &set));
/// ```
#[doc(alias = "NewControllerRef")]
#[inline]
pub fn new_controller_ref(owner: &ObjectMeta, kind: &GroupVersionKind) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..new_owner_reference(owner, kind) }
}

/// Makes `owner` the controller of this object.
///
/// # Errors
/// If the object has another controller, or the owner is in another namespace. The object is then
/// unchanged.
#[doc(alias = "SetControllerReference")]
#[inline]
pub fn set_controller_reference(
    meta: &mut ObjectMeta,
    owner: &ObjectMeta,
    kind: &GroupVersionKind,
) -> Result<(), OwnerError> {
    check_namespaces(meta, owner)?;
    let reference = new_controller_ref(owner, kind);
    if let Some(existing) = controller_of(meta)
        && !refer_to_same(existing, &reference)
    {
        return Err(OwnerError::AlreadyOwned { object: ObjectKey::of(meta), owner: Box::new(existing.clone()) });
    }
    put(meta, reference);
    Ok(())
}

/// Adds `owner` to the owners of this object, which is garbage-collected when all of them are
/// deleted.
///
/// # Errors
/// If the owner is in another namespace. The object is then unchanged.
#[doc(alias = "SetOwnerReference")]
#[inline]
pub fn set_owner_reference(
    meta: &mut ObjectMeta,
    owner: &ObjectMeta,
    kind: &GroupVersionKind,
) -> Result<(), OwnerError> {
    check_namespaces(meta, owner)?;
    put(meta, new_owner_reference(owner, kind));
    Ok(())
}

/// Removes `owner` from the owners of this object; returns whether it was one.
#[doc(alias = "RemoveOwnerReference")]
#[doc(alias = "RemoveControllerReference")]
#[inline]
pub fn remove_owner_reference(meta: &mut ObjectMeta, owner: &ObjectMeta, kind: &GroupVersionKind) -> bool {
    let reference = new_owner_reference(owner, kind);
    let before = meta.owner_references.len();
    meta.owner_references.retain(|have| !refer_to_same(have, &reference));
    meta.owner_references.len() < before
}

/// Why an owner reference cannot be set.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum OwnerError {
    /// The object has another controller.
    #[doc(alias = "AlreadyOwnedError")]
    AlreadyOwned {
        /// The object.
        object: ObjectKey,
        /// Its controller.
        owner: Box<OwnerReference>,
    },
    /// The object exists on the server without a controller.
    NotControlled {
        /// The object.
        object: ObjectKey,
    },
    /// The owner is namespaced, and the object is in another namespace or cluster-scoped.
    OtherNamespace {
        /// The object.
        object: ObjectKey,
        /// The namespace of the owner.
        owner_namespace: Str,
    },
}

impl fmt::Display for OwnerError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnerError::AlreadyOwned { object, owner } => write!(
                f,
                "object {object} is already owned by another {} controller {} (uid {})",
                owner.kind, owner.name, owner.uid
            ),
            OwnerError::NotControlled { object } => {
                write!(f, "object {object} exists and has no controller, so it is not taken over")
            }
            OwnerError::OtherNamespace { object, owner_namespace } if object.is_namespaced() => write!(
                f,
                "cross-namespace owner references are disallowed, owner's namespace {owner_namespace}, object {object}"
            ),
            OwnerError::OtherNamespace { object, owner_namespace } => write!(
                f,
                "cluster-scoped object {object} must not have a namespace-scoped owner, owner's namespace \
                 {owner_namespace}"
            ),
        }
    }
}

impl Error for OwnerError {}

/// Replaces the reference to the same owner, or adds it.
#[inline]
fn put(meta: &mut ObjectMeta, reference: OwnerReference) {
    match meta.owner_references.iter_mut().find(|have| refer_to_same(have, &reference)) {
        Some(have) => *have = reference,
        None => meta.owner_references.push(reference),
    }
}

#[inline]
fn check_namespaces(meta: &ObjectMeta, owner: &ObjectMeta) -> Result<(), OwnerError> {
    let object = ObjectKey::of(meta);
    match owner.namespace.as_ref().filter(|namespace| !namespace.is_empty()) {
        Some(namespace) if namespace != object.namespace() => {
            Err(OwnerError::OtherNamespace { object, owner_namespace: namespace.clone() })
        }
        _ => Ok(()),
    }
}

#[inline]
fn refer_to_same(a: &OwnerReference, b: &OwnerReference) -> bool {
    let group = |reference: &OwnerReference| reference.api_version.parse::<GroupVersion>().map(|parsed| parsed.group);
    a.kind == b.kind && a.name == b.name && matches!((group(a), group(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOO: GroupVersionKind = GroupVersionKind::from_static("example.com", "v1", "Foo");
    const FOO_V2: GroupVersionKind = GroupVersionKind::from_static("example.com", "v2", "Foo");

    fn meta(namespace: &str, name: &str) -> ObjectMeta {
        let namespace = (!namespace.is_empty()).then(|| namespace.into());
        ObjectMeta { name: Some(name.into()), uid: Some(format!("uid-{name}").into()), namespace, ..Default::default() }
    }

    #[test]
    fn a_controller_reference_has_all_its_parts() {
        let mut pod = meta("ns", "pod");
        set_controller_reference(&mut pod, &meta("ns", "foo"), &FOO).unwrap();
        let want = OwnerReference {
            api_version: "example.com/v1".into(),
            kind: "Foo".into(),
            name: "foo".into(),
            uid: "uid-foo".into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        assert_eq!(pod.owner_references.to_vec(), [want]);
        assert!(is_controlled_by(&pod, &meta("ns", "foo")) && !is_controlled_by(&pod, &meta("ns", "bar")));
    }

    #[test]
    fn there_is_one_controller() {
        let mut pod = meta("ns", "pod");
        set_controller_reference(&mut pod, &meta("ns", "foo"), &FOO).unwrap();
        let error = set_controller_reference(&mut pod, &meta("ns", "bar"), &FOO).unwrap_err();
        assert_eq!(error.to_string(), "object ns/pod is already owned by another Foo controller foo (uid uid-foo)");
        assert!(matches!(error, OwnerError::AlreadyOwned { .. }));
        set_owner_reference(&mut pod, &meta("ns", "bar"), &FOO).unwrap();
        assert_eq!(pod.owner_references.len(), 2);
        assert_eq!(controller_of(&pod).unwrap().name, "foo");
    }

    #[test]
    fn an_owner_reference_is_updated_in_place_across_versions() {
        let mut pod = meta("ns", "pod");
        set_owner_reference(&mut pod, &meta("ns", "foo"), &FOO).unwrap();
        set_owner_reference(&mut pod, &meta("ns", "bar"), &FOO).unwrap();
        set_controller_reference(&mut pod, &meta("ns", "foo"), &FOO_V2).unwrap();
        set_controller_reference(&mut pod, &meta("ns", "foo"), &FOO_V2).unwrap();
        let have: Vec<_> =
            pod.owner_references.iter().map(|one| (one.name.as_str(), one.api_version.as_str())).collect();
        assert_eq!(have, [("foo", "example.com/v2"), ("bar", "example.com/v1")]);
        assert!(has_owner_reference(&pod, &meta("ns", "foo"), &FOO));
        assert!(remove_owner_reference(&mut pod, &meta("ns", "foo"), &FOO));
        assert!(!remove_owner_reference(&mut pod, &meta("ns", "foo"), &FOO));
        assert!(controller_of(&pod).is_none());
    }

    #[test]
    fn an_owner_lies_in_the_same_namespace_or_in_none() {
        for (object, owner, want) in [
            ("a", "a", None),
            ("a", "", None),
            ("", "", None),
            ("a", "b", Some("cross-namespace owner references are disallowed, owner's namespace b, object a/x")),
            ("", "b", Some("cluster-scoped object x must not have a namespace-scoped owner, owner's namespace b")),
        ] {
            let mut object = meta(object, "x");
            let got = set_owner_reference(&mut object, &meta(owner, "y"), &FOO);
            assert_eq!(got.err().map(|error| error.to_string()).as_deref(), want);
            assert_eq!(object.owner_references.is_empty(), want.is_some());
        }
    }

    #[test]
    fn an_owner_without_uid_controls_nothing() {
        let mut pod = meta("ns", "pod");
        pod.owner_references.push(OwnerReference { controller: Some(true), ..Default::default() });
        assert!(!is_controlled_by(&pod, &ObjectMeta::default()));
    }
}
