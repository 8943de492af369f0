//! Maps events of dependents to their owners.

use std::sync::Arc;

use kubewright_cache::{Event, Lister};
use kubewright_core::meta::v1::OwnerReference;
use kubewright_core::{CanBeNamespaced, Object, ObjectKey, Selector};

use crate::claim::selects;

/// Calls back with the owners affected by an event of a dependent: the controller before and after,
/// or for an orphan all owners that could adopt it.
pub(crate) fn owners_of<O: Object<Scope: CanBeNamespaced>, T: Object>(
    event: &Event<T>,
    owners: &Lister<O>,
    owner_kind: &str,
    selector_of: impl Fn(&O) -> Option<Selector>,
    mut wake: impl FnMut(ObjectKey),
) {
    if event.is_resync() {
        return;
    }
    let mut adoptable = |object: &T| {
        for owner in owners.namespace(object.namespace()).list(&Selector::everything()) {
            if selector_of(&owner).is_some_and(|selector| !selector.is_everything() && selects(&selector, object)) {
                wake(owner.key());
            }
        }
    };
    let mut keys = Vec::new();
    let mut resolve = |object: &T, reference: &OwnerReference| {
        if reference.kind == owner_kind
            && let Some(owner) = owners.namespace(object.namespace()).get(&reference.name)
            && owner.uid() == reference.uid
        {
            keys.push(owner.key());
        }
    };
    match event {
        Event::Added { object, .. } => match controller(object) {
            Some(reference) => resolve(object, &reference),
            None if !object.is_being_deleted() => adoptable(object),
            None => {}
        },
        Event::Updated { old, new } => {
            let (before, after) = (controller(old), controller(new));
            if let Some(before) = &before
                && after.as_ref().is_none_or(|after| after.uid != before.uid)
            {
                resolve(old, before);
            }
            match &after {
                Some(reference) => resolve(new, reference),
                // An orphan can match others only if its labels or its owner have changed.
                None if before.is_some() || !old.labels().iter().eq(new.labels().iter()) => adoptable(new),
                None => {}
            }
        }
        Event::Deleted(deleted) => {
            if let Some(object) = deleted.object()
                && let Some(reference) = controller(object)
            {
                resolve(object, &reference);
            }
        }
    }
    keys.into_iter().for_each(wake);
}

/// The controller reference of an object.
pub(crate) fn controller<T: Object>(object: &Arc<T>) -> Option<OwnerReference> {
    object.owner_references().iter().find(|reference| reference.controller == Some(true)).cloned()
}
