//! Deletes the objects of terminating definitions.

use kubewright_core::Str;
use kubewright_core::options::DeleteOptions;

use super::content::{DEFINITIONS, RemainingContent, yield_regularly};
use crate::registry::{CUSTOM_CLEANUP, Registry, set_condition};
use kubewright_objects::object::{Meta, tree};
use kubewright_storage::{Key, KeyRange};

/// Deletes the objects of a terminating definition, then releases it. Returns what it still waits
/// for.
///
/// Skips admission, as the real server does for this cleanup.
#[doc(alias = "crdFinalizer")]
pub(super) async fn empty(registry: &Registry, key: &Key) -> Option<RemainingContent> {
    let (name, entry) = (key.name(), registry.store.newest(key)?);
    let definition = entry.object.value();
    if !definition.is_being_deleted() || !definition.finalizers().iter().any(|finalizer| finalizer == CUSTOM_CLEANUP) {
        return None;
    }
    let catalog = registry.catalog();
    let objects = registry.all(&KeyRange::resource(name));
    if let Some(resource) = catalog.of_storage(name) {
        for (count, entry) in (1..).zip(&objects) {
            let value = entry.object.tree();
            if !value.is_being_deleted() {
                let (namespace, name) = (value.namespace(), value.name());
                // Failures are counted below.
                let _ = registry.delete(resource, namespace, name, &DeleteOptions::default(), &mut Vec::new(), None);
            }
            yield_regularly(count).await;
        }
    }
    let definitions = catalog.of_storage(DEFINITIONS)?;
    let staying = registry.all(&KeyRange::resource(name)).len();
    // A failure means that the definition is gone or that the disk is full. Both lead to another
    // call.
    if staying > 0 {
        let changed = registry.change(definitions, "", name, |value| {
            let mut value = value.clone();
            let message = "CustomResource deletion is in progress";
            set_condition(&mut value, "Terminating", "True", "InstanceDeletionInProgress", message);
            Ok(value)
        });
        let version = changed.map(|changed| Str::from(changed.tree().resource_version()));
        return Some(RemainingContent::new(objects.len(), staying, version.unwrap_or_default()));
    }
    let _ = registry.change(definitions, "", name, |value| {
        let mut value = value.clone();
        let mut finalizers = value.finalizers();
        finalizers.retain(|finalizer| finalizer != CUSTOM_CLEANUP);
        value.set_finalizers(&finalizers);
        Ok(value)
    });
    registry.reconsider_names(definitions, tree::text(definition, &["spec", "group"]));
    None
}
