//! Storage object in use protection: keeps terminating claims and volumes while they are used.

use kubewright_core::Value;

use crate::registry::Registry;
use crate::registry::claims::{claims_of, ephemeral_claim, is_ephemeral};
use kubewright_objects::lookup::IndexTerm;
use kubewright_objects::object::{Meta, tree};
use kubewright_storage::Key;
use kubewright_validation::strategy::{PV_PROTECTION, PVC_PROTECTION};

/// Releases a terminating claim or volume that is unused. Checks the claims of a stopped pod.
pub(super) fn release_unused(registry: &Registry, key: &Key, value: &Value) {
    if !value.is_being_deleted() {
        return;
    }
    let guard = match key.resource() {
        "pods" if is_shut_down(value) => return after_deletion(registry, key, value),
        "persistentvolumeclaims" if !is_used(registry, key, value) => PVC_PROTECTION,
        "persistentvolumes" if tree::text(value, &["status", "phase"]) != "Bound" => PV_PROTECTION,
        _ => return,
    };
    if value.finalizers().iter().any(|finalizer| finalizer == guard) {
        super::remove_finalizer(registry, key, value, guard);
    }
}

/// Checks the claims of a deleted pod.
pub(super) fn after_deletion(registry: &Registry, key: &Key, value: &Value) {
    let ("pods", Some(namespace)) = (key.resource(), key.namespace()) else { return };
    for name in claims_of(value) {
        let claim = Key::namespaced("persistentvolumeclaims", namespace, &name);
        if let Some(entry) = registry.store.newest(&claim) {
            release_unused(registry, &claim, entry.object.value());
        }
    }
}

/// Whether a scheduled pod uses the claim, or it was created for a pod.
///
/// The phase of the pod does not matter: its node may have the volume mounted until the pod is
/// deleted. A pod without a node will not start with a terminating claim.
#[doc(alias = "podUsesPVC")]
fn is_used(registry: &Registry, claim: &Key, value: &Value) -> bool {
    let is_controller = |owner: &&Value| tree::get(owner, &["controller"]).and_then(Value::as_bool) == Some(true);
    let controller = value.owner_references().iter().find(is_controller).map(|owner| tree::text(owner, &["uid"]));
    let namespace = claim.namespace().unwrap_or_default().into();
    let term = IndexTerm::Claim { namespace, name: claim.name().into() };
    let pods: Vec<Key> = registry.indices.terms().keys(&term).cloned().collect();
    pods.iter().filter_map(|key| registry.store.newest(key)).any(|entry| {
        let pod = entry.object.value();
        let is_made_for = |volume: &Value| {
            is_ephemeral(volume) && controller == Some(pod.uid()) && ephemeral_claim(pod, volume) == claim.name()
        };
        let uses = |volume: &Value| {
            tree::text(volume, &["persistentVolumeClaim", "claimName"]) == claim.name()
                || !is_shut_down(pod) && is_made_for(volume)
        };
        !tree::text(pod, &["spec", "nodeName"]).is_empty() && tree::items(pod, &["spec", "volumes"]).iter().any(uses)
    })
}

/// Whether only finalizers hold a stopped pod.
#[doc(alias = "podIsShutDown")]
fn is_shut_down(pod: &Value) -> bool {
    pod.is_being_deleted() && pod.meta("deletionGracePeriodSeconds").and_then(Value::as_i64) == Some(0)
}
