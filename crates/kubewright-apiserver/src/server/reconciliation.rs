//! Reconciles the default roles and bindings at each start.
//!
//! As in kube-apiserver, the server adds missing rules, aggregation selectors, subjects, labels and
//! annotations. Additions of users stay. An object whose annotation
//! `rbac.authorization.kubernetes.io/autoupdate` is `false` is left alone.

use kubewright_core::meta::v1::Status;
use kubewright_core::options::DeleteOptions;
use kubewright_core::{List, Value};

use super::bootstrap::create;
use crate::registry::Registry;
use kubewright_auth::authorization;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// The annotation that controls whether the server may update a role or binding.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Creates a role or binding, or adds what the stored one lacks.
#[doc(alias = "ReconcileRoleOptions")]
#[doc(alias = "ReconcileRoleBindingOptions")]
pub(super) fn reconcile(registry: &Registry, expected: &Value) -> Result<(), String> {
    let catalog = registry.catalog();
    let (api_version, kind) = (tree::text(expected, &["apiVersion"]), tree::text(expected, &["kind"]));
    let resource = catalog.of_kind(api_version, kind).ok_or_else(|| format!("unknown kind {kind:?}"))?;
    let Ok(stored) = registry.newest(resource, "", expected.name()) else { return create(registry, expected) };
    let stored = stored.object.value();
    if tree::text(stored, &["metadata", "annotations", AUTO_UPDATE]) == "false" {
        return Ok(());
    }
    if tree::get(stored, &["roleRef"]) != tree::get(expected, &["roleRef"]) {
        // The role of a binding is immutable, so replace the binding.
        return recreate(registry, resource, stored, expected);
    }
    let changed = registry.change(resource, "", expected.name(), |stored| {
        let mut new = stored.clone();
        complete(&mut new, expected);
        Ok(new)
    });
    changed.map(|_| ()).map_err(in_words)
}

fn recreate(registry: &Registry, resource: &Resource, stored: &Value, expected: &Value) -> Result<(), String> {
    let options = DeleteOptions::default().uid(stored.uid());
    registry.delete(resource, "", stored.name(), &options, &mut Vec::new(), None).map_err(in_words)?;
    if registry.newest(resource, "", stored.name()).is_ok() {
        // Finalizers block the deletion. The next start tries again.
        tracing::warn!(binding = stored.name(), "the binding refers to another role and cannot be replaced yet");
        return Ok(());
    }
    create(registry, expected)
}

/// Adds missing parts to a role or binding.
fn complete(stored: &mut Value, expected: &Value) {
    for field in ["labels", "annotations"] {
        let wanted = tree::get(expected, &["metadata", field]).and_then(Value::as_object);
        for (key, value) in wanted.into_iter().flat_map(|wanted| wanted.iter()) {
            tree::object_mut(stored, &["metadata", field]).get_or_insert_with(key.clone(), || value.clone());
        }
    }
    let rules = authorization::missing_rules(tree::items(stored, &["rules"]), tree::items(expected, &["rules"]));
    append(stored, &["rules"], rules);
    match tree::get(expected, &["aggregationRule"]) {
        None => drop(tree::remove(stored, &["aggregationRule"])),
        Some(_) => append_missing(stored, expected, &["aggregationRule", "clusterRoleSelectors"]),
    }
    append_missing(stored, expected, &["subjects"]);
}

fn append_missing(stored: &mut Value, expected: &Value, path: &[&str]) {
    let have = tree::items(stored, path);
    let missing = tree::items(expected, path).iter().filter(|wanted| !have.contains(wanted)).cloned().collect();
    append(stored, path, missing);
}

fn append(stored: &mut Value, path: &[&str], items: Vec<Value>) {
    if !items.is_empty() {
        let all: List<Value> = tree::items(stored, path).iter().cloned().chain(items).collect();
        tree::set(stored, path, Value::Array(all));
    }
}

fn in_words(rejection: Rejection) -> String {
    let status = match rejection {
        Rejection::Status(status) => status,
        // The server's own writes run without hooks.
        _ => Box::new(Status::internal("the write needs a webhook call")),
    };
    status.to_string()
}
