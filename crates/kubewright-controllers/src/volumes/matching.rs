//! Matches volumes to claims.

use std::sync::Arc;

use kubewright_api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kubewright_core::{Object, Quantity, Selector};

use crate::claim::selects;

/// The volume already bound to a claim, or else the smallest free matching one.
#[doc(alias = "FindMatchingVolume")]
pub(super) fn choose(
    claim: &PersistentVolumeClaim,
    volumes: &[Arc<PersistentVolume>],
) -> Option<Arc<PersistentVolume>> {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    let own = volumes.iter().find(|volume| claim_of(volume).is_some_and(|reference| is_of(reference, claim)));
    let is_named = |volume: &Arc<PersistentVolume>| named.is_none_or(|name| name == volume.name());
    if let Some(volume) = own {
        // A bound volume belongs to the claim whatever its state.
        let is_bound = claim_of(volume).is_some_and(|reference| reference.uid.as_deref() == Some(claim.uid()));
        return Some(volume.clone()).filter(|volume| is_named(volume) && (is_bound || fits(claim, volume)));
    }
    let is_free = |volume: &&Arc<PersistentVolume>| claim_of(volume).is_none() && !volume.is_being_deleted();
    let fitting = volumes.iter().filter(is_free).filter(|volume| is_named(volume) && fits(claim, volume));
    fitting.min_by_key(|volume| capacity(volume)).cloned()
}

/// The claim that a volume is reserved for.
pub(super) fn claim_of(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_deref()
}

/// Whether a reference is to this claim; without a uid it is a reservation by name.
#[doc(alias = "IsVolumeBoundToClaim")]
pub(super) fn is_of(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    reference.name.as_deref() == Some(claim.name())
        && reference.namespace.as_deref() == Some(claim.namespace())
        && reference.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == claim.uid())
}

/// The requested size of a claim.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    resources.and_then(|resources| resources.requests.get("storage")).cloned().unwrap_or_default()
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    volume.spec.as_ref().and_then(|spec| spec.capacity.get("storage")).cloned().unwrap_or_default()
}

fn fits(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let (Some(asked), Some(offered)) = (&claim.spec, &volume.spec) else { return false };
    let mode = |mode: &Option<kubewright_core::Str>| mode.as_deref().unwrap_or("Filesystem").to_owned();
    let selector = asked.selector.as_deref().map(|selector| Selector::from_label_selector(Some(selector)));
    capacity(volume) >= requested(claim)
        && asked.storage_class_name.as_deref().unwrap_or_default()
            == offered.storage_class_name.as_deref().unwrap_or_default()
        && mode(&asked.volume_mode) == mode(&offered.volume_mode)
        && asked.access_modes.iter().all(|mode| offered.access_modes.contains(mode))
        && selector.is_none_or(|selector| selector.is_ok_and(|selector| selects(&selector, volume)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, size: &str, change: impl FnOnce(&mut PersistentVolume)) -> Arc<PersistentVolume> {
        let mut volume = PersistentVolume::default();
        volume.metadata.name = Some(name.into());
        let spec = volume.spec.get_or_insert_default();
        spec.capacity.insert("storage", size.parse().unwrap());
        spec.access_modes = ["ReadWriteOnce".into()].into();
        change(&mut volume);
        Arc::new(volume)
    }

    fn claim(change: impl FnOnce(&mut PersistentVolumeClaim)) -> PersistentVolumeClaim {
        let mut claim = PersistentVolumeClaim::default();
        (claim.metadata.name, claim.metadata.namespace) = (Some("data".into()), Some("default".into()));
        claim.metadata.uid = Some("1".into());
        let spec = claim.spec.get_or_insert_default();
        spec.access_modes = ["ReadWriteOnce".into()].into();
        spec.resources.get_or_insert_default().requests.insert("storage", "1Gi".parse().unwrap());
        change(&mut claim);
        claim
    }

    #[test]
    fn the_smallest_that_fits_is_chosen_unless_one_is_reserved() {
        let for_claim = |uid: &str| ObjectReference {
            name: Some("data".into()),
            namespace: Some("default".into()),
            uid: Some(uid.into()),
            ..Default::default()
        };
        let reserved = |uid: &'static str| {
            volume("mine", "10Gi", |volume| volume.spec.as_mut().unwrap().claim_ref = Some(for_claim(uid).into()))
        };
        let chosen = |claim: &PersistentVolumeClaim, volumes: &[&Arc<PersistentVolume>]| {
            let volumes: Vec<_> = volumes.iter().map(|volume| (*volume).clone()).collect();
            choose(claim, &volumes).map(|volume| volume.name().to_owned())
        };
        let (small, fitting, large) =
            (volume("small", "1Mi", |_| {}), volume("fitting", "2Gi", |_| {}), volume("large", "1Ti", |_| {}));
        let plain = claim(|_| {});
        assert_eq!(chosen(&plain, &[&small, &large, &fitting]).as_deref(), Some("fitting"));
        assert_eq!(chosen(&plain, &[&small]), None);
        assert_eq!(chosen(&plain, &[&fitting, &reserved("1")]).as_deref(), Some("mine"));
        assert_eq!(chosen(&plain, &[&fitting, &reserved("")]).as_deref(), Some("mine"));
        assert_eq!(chosen(&plain, &[&reserved("2")]), None, "of an earlier claim with the name");
        let named =
            |name: &'static str| claim(move |claim| claim.spec.as_mut().unwrap().volume_name = Some(name.into()));
        assert_eq!(chosen(&named("large"), &[&fitting, &large]).as_deref(), Some("large"));
        assert_eq!(chosen(&named("small"), &[&fitting, &small]), None, "named, but too small");
        let fast = claim(|claim| claim.spec.as_mut().unwrap().storage_class_name = Some("fast".into()));
        let fast_volume =
            volume("fast", "5Gi", |volume| volume.spec.as_mut().unwrap().storage_class_name = Some("fast".into()));
        assert_eq!(chosen(&fast, &[&fitting]), None);
        assert_eq!(chosen(&fast, &[&fitting, &fast_volume]).as_deref(), Some("fast"));
        let shared = claim(|claim| claim.spec.as_mut().unwrap().access_modes = ["ReadWriteMany".into()].into());
        assert_eq!(chosen(&shared, &[&fitting]), None);
        let picky = claim(|claim| {
            let selector = claim.spec.as_mut().unwrap().selector.get_or_insert_default();
            selector.match_labels.insert("tier", "gold".into());
        });
        let gold = volume("gold", "5Gi", |volume| volume.metadata.labels = [("tier", "gold".into())].into());
        assert_eq!(chosen(&picky, &[&fitting, &gold]).as_deref(), Some("gold"));
    }
}
