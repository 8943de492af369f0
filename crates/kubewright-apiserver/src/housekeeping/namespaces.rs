//! Namespaces that are deleted: pods go first, then all else, then the namespace.

use std::collections::BTreeMap;

use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::{Str, Value};

use super::content::{NAMESPACES, Waiting, pace};
use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::{Deleted, Registry, set_condition};
use crate::storage::{Key, Scope};

/// Holds a namespace until its content is gone.
const CONTENT: &str = "kubernetes";

/// What was found in a namespace.
#[derive(Default)]
struct Census {
    found: usize,
    /// What stays for now, by its resource as messages name it.
    staying: BTreeMap<String, usize>,
    /// What holds it.
    finalizers: BTreeMap<Str, usize>,
}

/// Deletes the content of a namespace that is being deleted, and lets it go when there is none; or says what it waits for.
///
/// As long as there are pods, nothing else goes: they may need it to stop.
#[doc(alias = "namespacedResourcesDeleter")]
pub(super) async fn empty(registry: &Registry, key: &Key) -> Option<Waiting> {
    let (namespace, entry) = (key.name(), registry.store.get(key)?);
    let value = entry.object.value();
    let holds = tree::items(value, &["spec", "finalizers"]).iter().any(|one| one.as_str() == Some(CONTENT));
    if !value.is_being_deleted() || !holds {
        return None;
    }
    let catalog = registry.catalog();
    let mut resources: Vec<_> = catalog.stored().filter(|resource| resource.namespaced).collect();
    resources.sort_by_key(|resource| (!resource.is("", "pods"), resource.storage.clone()));
    let mut census = Census::default();
    for resource in resources {
        census.clear(registry, resource, namespace).await;
        if resource.is("", "pods") && !census.staying.is_empty() {
            break;
        }
    }
    let namespaces = catalog.of_storage(NAMESPACES)?;
    // Refusals mean that the namespace is gone, or that nothing can be written now, and we will be back.
    let changed = registry.change(namespaces, "", namespace, |value| {
        let mut value = value.clone();
        match census.staying.is_empty() {
            true => release(&mut value),
            false => census.report(&mut value),
        }
        Ok(value)
    });
    let staying = census.staying.values().sum();
    let version = changed.map(|changed| Str::from(changed.value().resource_version())).unwrap_or_default();
    (staying > 0).then(|| Waiting::new(census.found, staying, version))
}

fn release(namespace: &mut Value) {
    let rest: Vec<Value> = tree::items(namespace, &["spec", "finalizers"]).to_vec();
    let rest: Vec<Value> = rest.into_iter().filter(|one| one.as_str() != Some(CONTENT)).collect();
    match rest.is_empty() {
        true => drop(tree::remove(namespace, &["spec", "finalizers"])),
        false => tree::set(namespace, &["spec", "finalizers"], rest),
    }
}

impl Census {
    /// Deletes the objects of a resource, and counts those that stay.
    async fn clear(&mut self, registry: &Registry, resource: &Resource, namespace: &str) {
        let options = DeleteOptions { propagation_policy: Some(PropagationPolicy::Background), ..Default::default() };
        for (count, entry) in (1..).zip(registry.all(&Scope::namespace(resource.storage.clone(), namespace))) {
            self.found += 1;
            let value = entry.object.tree();
            let deleted = match value.is_being_deleted() {
                true => Ok(Deleted::Pending(entry.object.clone())),
                false => registry.delete(resource, namespace, value.name(), &options, &mut Vec::new(), None),
            };
            match deleted {
                Ok(Deleted::Gone(_)) => {}
                Ok(Deleted::Pending(object)) => self.count(resource, &object.tree()),
                Err(_) => self.count(resource, &value),
            }
            pace(count).await;
        }
    }

    fn count(&mut self, resource: &Resource, staying: &Value) {
        *self.staying.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
        for finalizer in staying.finalizers() {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    /// Says in conditions what a namespace waits for.
    fn report(&self, namespace: &mut Value) {
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
            self.staying.iter().map(|(resource, count)| format!("{resource} has {count} resource instances")).collect();
        let message = format!("Some resources are remaining: {}", left.join(", "));
        set_condition(namespace, "NamespaceContentRemaining", "True", "SomeResourcesRemain", &message);
        let held: Vec<String> = self
            .finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
            .collect();
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
}
