//! Creates the service account `default` of each namespace.

use crate::admission::accounts::DEFAULT;
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::state::ClusterState;
use crate::registry::{CreateRequest, Ownership, Registry};
use kubewright_objects::object::tree;

/// Creates the default account if it is missing.
pub(super) fn create_default(registry: &Registry, namespace: &str) {
    let catalog = registry.catalog();
    let Some(resource) =
        catalog.of_storage("serviceaccounts").filter(|_| registry.has_plugin(AdmissionPlugin::ServiceAccount))
    else {
        return;
    };
    let value = tree::map([
        ("apiVersion", "v1".into()),
        ("kind", "ServiceAccount".into()),
        ("metadata", tree::map([("name", DEFAULT.into())])),
    ]);
    let (control, ownership, dry_run) = (None, Ownership::Keep, false);
    // Ignore failures: the account exists, or the namespace is terminating.
    let _ = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
}
