//! Owner references of any objects.
//!
//! [`kubewright_core::owner`] does the same on metadata, and more.

use kubewright_core::Object;
use kubewright_core::meta::v1::OwnerReference;

/// A reference by which `owner` controls an object.
#[doc(alias = "NewControllerRef")]
pub fn controller_reference(owner: &impl Object) -> OwnerReference {
    OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..owner_reference(owner) }
}

/// A reference by which `owner` owns an object, without controlling it.
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

/// The reference to the owner that controls an object.
#[doc(alias = "HasControllerReference")]
#[doc(alias = "GetControllerOf")]
pub fn controller_of(object: &impl Object) -> Option<OwnerReference> {
    object.owner_references().iter().find(|reference| reference.controller == Some(true)).cloned()
}

/// Whether `owner` controls an object, by its uid.
#[doc(alias = "IsControlledBy")]
pub fn is_controlled_by(object: &impl Object, owner: &impl Object) -> bool {
    !owner.uid().is_empty() && controller_of(object).is_some_and(|reference| reference.uid == owner.uid())
}
