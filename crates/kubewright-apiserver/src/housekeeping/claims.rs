//! Volumes and claims that are deleted: they stay as long as somebody uses them.

use kubewright_core::Value;

use crate::admission::{PV_PROTECTION, PVC_PROTECTION};
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::storage::{Key, Scope};

/// Lets a deleted claim or volume go that nobody uses, and looks at the claims of a pod that no longer uses them.
pub(super) fn look_after(registry: &Registry, key: &Key, value: &Value) {
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

/// Looks at the claims that a deleted pod used.
pub(super) fn after_deletion(registry: &Registry, key: &Key, value: &Value) {
    let ("pods", Some(namespace)) = (key.resource(), key.namespace()) else { return };
    for volume in tree::items(value, &["spec", "volumes"]) {
        let claim = match tree::text(volume, &["persistentVolumeClaim", "claimName"]) {
            "" if is_ephemeral(volume) => ephemeral_claim(value, volume),
            "" => continue,
            name => name.to_owned(),
        };
        let claim = Key::namespaced("persistentvolumeclaims", namespace, &claim);
        if let Some(entry) = registry.store.get(&claim) {
            look_after(registry, &claim, entry.object.value());
        }
    }
}

/// Whether a pod that has a node names the claim, or it was made for one. How far the pod has come does not matter: its node may still have
/// the volume mounted until the pod is gone. One without a node will not start with a claim that is being deleted.
#[doc(alias = "podUsesPVC")]
fn is_used(registry: &Registry, claim: &Key, value: &Value) -> bool {
    let is_controller = |owner: &&Value| tree::get(owner, &["controller"]).and_then(Value::as_bool) == Some(true);
    let controller = value.owner_references().iter().find(is_controller).map(|owner| tree::text(owner, &["uid"]));
    let pods = registry.all(&Scope::namespace("pods", claim.namespace().unwrap_or_default()));
    pods.iter().any(|pod| {
        let pod = pod.object.value();
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

fn is_ephemeral(volume: &Value) -> bool {
    tree::get(volume, &["ephemeral"]).is_some()
}

/// The claim that is made for a volume of a pod.
fn ephemeral_claim(pod: &Value, volume: &Value) -> String {
    format!("{}-{}", pod.name(), tree::text(volume, &["name"]))
}

/// Whether a deleted pod has stopped, and only its finalizers hold it.
#[doc(alias = "podIsShutDown")]
fn is_shut_down(pod: &Value) -> bool {
    pod.is_being_deleted() && pod.meta("deletionGracePeriodSeconds").and_then(Value::as_i64) == Some(0)
}
