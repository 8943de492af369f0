//! Namespaces and definitions that are deleted: their content goes first, then they do.

use kubewright_core::options::DeleteOptions;
use kubewright_core::{Str, Value};

use crate::object::{Meta, tree};
use crate::registry::{CUSTOM_CLEANUP, Registry, set_condition};
use crate::storage::{Key, Scope};

/// Empties a namespace or definition that is being deleted.
pub(super) fn look_after(registry: &Registry, key: &Key, value: &Value) {
    if !value.is_being_deleted() {
        return;
    }
    match key.resource() {
        "namespaces" => empty_namespace(registry, key.name()),
        "customresourcedefinitions.apiextensions.k8s.io" => empty_definition(registry, key.name(), value),
        _ => {}
    }
}

/// Looks whether the namespace or definition of a deleted object waited for it.
pub(super) fn after_deletion(registry: &Registry, key: &Key) {
    if let Some(namespace) = key.namespace() {
        let namespace = Key::cluster("namespaces", namespace);
        if let Some(entry) = registry.store.get(&namespace) {
            look_after(registry, &namespace, entry.object.value());
        }
    }
    let definition = Key::cluster("customresourcedefinitions.apiextensions.k8s.io", key.resource());
    if let Some(entry) = registry.store.get(&definition) {
        look_after(registry, &definition, entry.object.value());
    }
}

fn empty_namespace(registry: &Registry, namespace: &str) {
    let catalog = registry.catalog();
    let (mut remaining, mut finalizers): (Vec<(Str, usize)>, Vec<Str>) = (Vec::new(), Vec::new());
    let mut resources: Vec<_> = catalog.stored().filter(|resource| resource.namespaced).collect();
    resources.sort_by(|a, b| a.storage.cmp(&b.storage));
    for resource in resources {
        let scope = Scope::namespace(resource.storage.clone(), namespace);
        for entry in registry.all(&scope) {
            let _ = registry.delete(
                resource,
                namespace,
                entry.object.value().name(),
                &DeleteOptions::default(),
                &mut vec![],
                None,
            );
        }
        let left = registry.all(&scope);
        if !left.is_empty() {
            remaining.push((resource.storage.clone(), left.len()));
            finalizers.extend(left.iter().flat_map(|entry| entry.object.value().finalizers()));
        }
    }
    let Some(namespaces) = catalog.of_storage("namespaces") else { return };
    // Refusals mean that the namespace is gone, or somebody has changed it and we will be back.
    let _ = registry.change(namespaces, "", namespace, |value| {
        let mut value = value.clone();
        if remaining.is_empty() {
            let rest: Vec<Value> = tree::items(&value, &["spec", "finalizers"]).to_vec();
            let rest: Vec<Value> = rest.into_iter().filter(|one| one.as_str() != Some("kubernetes")).collect();
            match rest.is_empty() {
                true => drop(tree::remove(&mut value, &["spec", "finalizers"])),
                false => tree::set(&mut value, &["spec", "finalizers"], rest),
            }
        } else {
            report(&mut value, &remaining, &finalizers);
        }
        Ok(value)
    });
}

/// Says in conditions what a namespace waits for.
fn report(namespace: &mut Value, remaining: &[(Str, usize)], finalizers: &[Str]) {
    set_condition(
        namespace,
        "NamespaceDeletionDiscoveryFailure",
        "False",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    );
    set_condition(
        namespace,
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    );
    set_condition(
        namespace,
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    );
    let left: Vec<String> =
        remaining.iter().map(|(resource, count)| format!("{resource}. has {count} resource instances")).collect();
    let message = format!("Some resources are remaining: {}", left.join(", "));
    set_condition(namespace, "NamespaceContentRemaining", "True", "SomeResourcesRemain", &message);
    let mut counts = std::collections::BTreeMap::new();
    finalizers.iter().for_each(|finalizer| *counts.entry(finalizer).or_insert(0) += 1);
    let held: Vec<String> =
        counts.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
    let (status, reason, message) = match held.is_empty() {
        true => ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
        false => (
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", held.join(", ")),
        ),
    };
    set_condition(namespace, "NamespaceFinalizersRemaining", status, reason, &message);
}

fn empty_definition(registry: &Registry, name: &str, definition: &Value) {
    if !definition.finalizers().iter().any(|finalizer| finalizer == CUSTOM_CLEANUP) {
        return;
    }
    let catalog = registry.catalog();
    if let Some(resource) = catalog.of_storage(name) {
        for entry in registry.all(&Scope::resource(resource.storage.clone())) {
            let value = entry.object.value();
            let _ = registry.delete(
                resource,
                value.namespace(),
                value.name(),
                &DeleteOptions::default(),
                &mut Vec::new(),
                None,
            );
        }
    }
    let Some(definitions) = catalog.of_storage("customresourcedefinitions.apiextensions.k8s.io") else { return };
    if !registry.all(&Scope::resource(name)).is_empty() {
        let _ = registry.change(definitions, "", name, |value| {
            let mut value = value.clone();
            let message = "CustomResource deletion is in progress";
            set_condition(&mut value, "Terminating", "True", "InstanceDeletionInProgress", message);
            Ok(value)
        });
        return;
    }
    let _ = registry.change(definitions, "", name, |value| {
        let mut value = value.clone();
        let mut finalizers = value.finalizers();
        finalizers.retain(|finalizer| finalizer != CUSTOM_CLEANUP);
        value.set_finalizers(&finalizers);
        Ok(value)
    });
    registry.reconsider_names(definitions, tree::text(definition, &["spec", "group"]));
}
