//! Definitions of custom resources that are deleted: their objects go first.

use kubewright_core::Str;
use kubewright_core::options::DeleteOptions;

use super::content::{DEFINITIONS, Waiting, pace};
use crate::object::{Meta, tree};
use crate::registry::{CUSTOM_CLEANUP, Registry, set_condition};
use crate::storage::{Key, Scope};

/// Deletes the objects of a definition that is being deleted, and lets it go when there are none; or says what it waits for.
///
/// Nobody is asked: this is done by the server itself in Kubernetes as well, behind its admission.
#[doc(alias = "crdFinalizer")]
pub(super) async fn empty(registry: &Registry, key: &Key) -> Option<Waiting> {
    let (name, entry) = (key.name(), registry.store.get(key)?);
    let definition = entry.object.value();
    if !definition.is_being_deleted() || !definition.finalizers().iter().any(|finalizer| finalizer == CUSTOM_CLEANUP) {
        return None;
    }
    let catalog = registry.catalog();
    let objects = registry.all(&Scope::resource(name));
    if let Some(resource) = catalog.of_storage(name) {
        for (count, entry) in (1..).zip(&objects) {
            let value = entry.object.tree();
            if !value.is_being_deleted() {
                let (namespace, name) = (value.namespace(), value.name());
                // One that is refused is counted below.
                let _ = registry.delete(resource, namespace, name, &DeleteOptions::default(), &mut Vec::new(), None);
            }
            pace(count).await;
        }
    }
    let definitions = catalog.of_storage(DEFINITIONS)?;
    let staying = registry.all(&Scope::resource(name)).len();
    // Refusals mean that the definition is gone, or that nothing can be written now, and we will be back.
    if staying > 0 {
        let changed = registry.change(definitions, "", name, |value| {
            let mut value = value.clone();
            let message = "CustomResource deletion is in progress";
            set_condition(&mut value, "Terminating", "True", "InstanceDeletionInProgress", message);
            Ok(value)
        });
        let version = changed.map(|changed| Str::from(changed.value().resource_version()));
        return Some(Waiting::new(objects.len(), staying, version.unwrap_or_default()));
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
