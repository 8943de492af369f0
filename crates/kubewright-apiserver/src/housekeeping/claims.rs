//! Volumes and claims that are deleted: they stay as long as somebody uses them.

use kubewright_core::Value;

use crate::admission::{PV_PROTECTION, PVC_PROTECTION};
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::storage::{Key, Scope};

/// Lets a deleted claim or volume go that nobody uses.
pub(super) fn look_after(registry: &Registry, key: &Key, value: &Value) {
    if !value.is_being_deleted() {
        return;
    }
    let guard = match key.resource() {
        "persistentvolumeclaims" if !is_used(registry, key, value) => PVC_PROTECTION,
        "persistentvolumes" if tree::text(value, &["status", "phase"]) != "Bound" => PV_PROTECTION,
        _ => return,
    };
    if value.finalizers().iter().any(|finalizer| finalizer == guard) {
        super::remove_finalizer(registry, key, value, guard);
    }
}

/// Looks at the claims that a deleted pod may have used.
pub(super) fn after_deletion(registry: &Registry, key: &Key) {
    let ("pods", Some(namespace)) = (key.resource(), key.namespace()) else { return };
    for entry in registry.all(&Scope::namespace("persistentvolumeclaims", namespace)) {
        let claim = Key::namespaced("persistentvolumeclaims", namespace, entry.object.value().name());
        look_after(registry, &claim, entry.object.value());
    }
}

/// Whether a pod that has not ended names the claim, or it was made for one.
fn is_used(registry: &Registry, claim: &Key, value: &Value) -> bool {
    let is_controller = |owner: &&Value| tree::get(owner, &["controller"]).and_then(Value::as_bool) == Some(true);
    let controller = value.owner_references().iter().find(is_controller).map(|owner| tree::text(owner, &["uid"]));
    let pods = registry.all(&Scope::namespace("pods", claim.namespace().unwrap_or_default()));
    pods.iter().any(|pod| {
        let pod = pod.object.value();
        let has_ended = matches!(tree::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        let mut volumes = tree::items(pod, &["spec", "volumes"]).iter();
        let names = |volume: &Value| {
            let is_ephemeral = || tree::get(volume, &["ephemeral"]).is_some() && controller == Some(pod.uid());
            let name = || format!("{}-{}", pod.name(), tree::text(volume, &["name"]));
            tree::text(volume, &["persistentVolumeClaim", "claimName"]) == claim.name()
                || is_ephemeral() && name() == claim.name()
        };
        !has_ended && volumes.any(names)
    })
}
