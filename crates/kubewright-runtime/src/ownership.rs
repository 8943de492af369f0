//! Owner references of objects of any type.
//!
//! [`kubewright_core::owner`] does the same on bare metadata.

use kubewright_core::Object;
use kubewright_core::meta::v1::OwnerReference;
pub use kubewright_core::owner::OwnerError;

/// A controller reference to `owner`.
#[doc(alias = "NewControllerRef")]
pub fn controller_reference(owner: &impl Object) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..owner_reference(owner) }
}

/// An owner reference to `owner` that is not a controller.
pub fn owner_reference(owner: &impl Object) -> OwnerReference {
    let kind = owner.group_version_kind();
    OwnerReference {
        api_version: kind.api_version().into(),
        kind: kind.kind,
        name: owner.name().into(),
        uid: owner.uid().into(),
        ..Default::default()
    }
}

/// The controller reference of an object.
#[doc(alias = "HasControllerReference")]
#[doc(alias = "GetControllerOf")]
pub fn controller_of(object: &impl Object) -> Option<OwnerReference> {
    object.owner_references().iter().find(|reference| reference.controller == Some(true)).cloned()
}

/// Whether `owner` is the controller of an object, by uid.
#[doc(alias = "IsControlledBy")]
pub fn is_controlled_by(object: &impl Object, owner: &impl Object) -> bool {
    !owner.uid().is_empty() && controller_of(object).is_some_and(|reference| reference.uid == owner.uid())
}

/// Makes `owner` the controller of a new object, or checks that it already is.
///
/// Call it first in the closure of [`create_or_update`](crate::OwnApi::create_or_update). An error
/// there leaves a foreign object unchanged.
///
/// Owners are compared by uid, so a new owner does not inherit the objects of a deleted one of the
/// same name. The garbage collector deletes those. Other owner references of the object stay.
///
/// controller-runtime's `SetControllerReference` silently takes over an existing object that has no
/// controller. Here that is [`adopt`].
///
/// ```
/// use kubewright_core::meta::v1::ObjectMeta;
/// use kubewright_runtime::ownership::{is_controlled_by, set_controller_reference};
/// # use kubewright_api::core::v1::{ConfigMap, Secret};
/// # let meta = |name: &str| ObjectMeta { name: Some(name.into()), uid: Some(name.into()), ..Default::default() };
/// # let (map, other) = (ConfigMap { metadata: meta("a"), ..Default::default() }, ConfigMap { metadata: meta("b"), ..Default::default() });
/// let mut secret = Secret::default();
/// set_controller_reference(&map, &mut secret)?;
/// assert!(is_controlled_by(&secret, &map));
/// assert!(set_controller_reference(&other, &mut secret).is_err());
/// # Ok::<(), kubewright_runtime::ownership::OwnerError>(())
/// ```
///
/// # Errors
/// If the object has another controller, exists on the server without a controller, or the owner is
/// in another namespace. The object is then unchanged.
#[doc(alias = "SetControllerReference")]
pub fn set_controller_reference(owner: &impl Object, object: &mut impl Object) -> Result<(), OwnerError> {
    // The server assigns uids, so an object without one is about to be created.
    if controller_of(object).is_none() && !object.uid().is_empty() {
        return Err(OwnerError::NotControlled { object: object.key() });
    }
    adopt(owner, object)
}

/// Makes `owner` the controller of an object, even of an existing one without a controller.
///
/// Only for objects that are known to be meant for this owner, for example by a selector in its
/// spec. An object that merely has the expected name may belong to a user.
///
/// # Errors
/// If the object has another controller, or the owner is in another namespace. The object is then
/// unchanged.
pub fn adopt(owner: &impl Object, object: &mut impl Object) -> Result<(), OwnerError> {
    let namespace = owner.namespace();
    if !namespace.is_empty() && namespace != object.namespace() {
        return Err(OwnerError::OtherNamespace { object: object.key(), owner_namespace: namespace.into() });
    }
    if let Some(existing) = controller_of(object)
        && existing.uid != owner.uid()
    {
        return Err(OwnerError::AlreadyOwned { object: object.key(), owner: Box::new(existing) });
    }
    let reference = controller_reference(owner);
    let mut references = object.owner_references().into_owned();
    match references.iter_mut().find(|existing| existing.uid == reference.uid) {
        Some(existing) => *existing = reference,
        None => references.push(reference),
    }
    object.set_owner_references(references);
    Ok(())
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::{ConfigMap, Secret};
    use kubewright_core::DynamicObject;
    use kubewright_core::meta::v1::ObjectMeta;

    use super::*;

    fn meta(namespace: &str, name: &str, uid: &str) -> ObjectMeta {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        ObjectMeta { namespace: some(namespace), name: some(name), uid: some(uid), ..Default::default() }
    }

    fn owner(namespace: &str, uid: &str) -> ConfigMap {
        ConfigMap { metadata: meta(namespace, "owner", uid), ..Default::default() }
    }

    fn secret(uid: &str) -> Secret {
        Secret { metadata: meta("ns", "copy", uid), ..Default::default() }
    }

    #[test]
    fn a_new_object_gets_its_controller_and_keeps_its_other_owners() {
        let mut object = secret("");
        object.metadata.owner_references.push(owner_reference(&owner("ns", "other")));
        set_controller_reference(&owner("ns", "1"), &mut object).unwrap();
        let uids: Vec<_> = object.metadata.owner_references.iter().map(|one| one.uid.as_str()).collect();
        assert_eq!(uids, ["other", "1"]);
        assert!(is_controlled_by(&object, &owner("ns", "1")));
    }

    #[test]
    fn an_object_that_is_controlled_already_stays_as_it_is() {
        let mut object = secret("5");
        object.metadata.owner_references.push(controller_reference(&owner("ns", "1")));
        let before = object.clone();
        set_controller_reference(&owner("ns", "1"), &mut object).unwrap();
        assert_eq!(object, before);
    }

    #[test]
    fn an_object_of_another_controller_is_refused() {
        // Another owner of the same kind and name, which was deleted before this one was created.
        let mut object = secret("5");
        object.metadata.owner_references.push(controller_reference(&owner("ns", "former")));
        let before = object.clone();
        type Take = fn(&ConfigMap, &mut Secret) -> Result<(), OwnerError>;
        for take in [set_controller_reference as Take, adopt] {
            let error = take(&owner("ns", "1"), &mut object).unwrap_err();
            let want = "object ns/copy is already owned by another ConfigMap controller owner (uid former)";
            assert_eq!(error.to_string(), want);
        }
        assert_eq!(object, before);
    }

    #[test]
    fn an_existing_object_without_controller_is_only_adopted_on_purpose() {
        let mut object = secret("5");
        let error = set_controller_reference(&owner("ns", "1"), &mut object).unwrap_err();
        assert_eq!(error, OwnerError::NotControlled { object: object.key() });
        assert_eq!(object, secret("5"));
        adopt(&owner("ns", "1"), &mut object).unwrap();
        assert!(is_controlled_by(&object, &owner("ns", "1")));
    }

    #[test]
    fn an_owner_of_another_namespace_is_refused() {
        let mut object = secret("");
        let error = set_controller_reference(&owner("elsewhere", "1"), &mut object).unwrap_err();
        assert!(matches!(error, OwnerError::OtherNamespace { .. }), "{error}");
        set_controller_reference(&owner("", "1"), &mut object).unwrap();
    }

    #[test]
    fn dynamic_objects_are_owned_as_well() {
        let mut object = DynamicObject { metadata: meta("ns", "x", ""), ..Default::default() };
        set_controller_reference(&owner("ns", "1"), &mut object).unwrap();
        assert!(is_controlled_by(&object, &owner("ns", "1")));
    }
}
