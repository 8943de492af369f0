//! Namespaces that are deleted: pods go first, then all else, then the namespace.

use std::collections::BTreeMap;

use kubewright_core::options::PropagationPolicy;
use kubewright_core::{Str, Value};

use super::content::{NAMESPACES, Waiting, pace};
use super::deletions::{Controller, Deletion, Deletions, Outcome};
use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::{Registry, set_condition};
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
    /// Why deletions were refused, one reason for each resource.
    refusals: BTreeMap<String, Str>,
}

/// Deletes the content of a namespace that is being deleted, and lets it go when there is none; or says what it waits for.
///
/// As long as there are pods, nothing else goes: they may need it to stop.
#[doc(alias = "namespacedResourcesDeleter")]
pub(super) async fn empty(registry: &Registry, deletions: &mut Deletions, key: &Key) -> Option<Waiting> {
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
        census.clear(registry, deletions, resource, namespace).await;
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
    async fn clear(&mut self, registry: &Registry, deletions: &mut Deletions, resource: &Resource, namespace: &str) {
        for (count, entry) in (1..).zip(registry.all(&Scope::namespace(resource.storage.clone(), namespace))) {
            self.found += 1;
            let value = entry.object.tree();
            let outcome = match value.is_being_deleted() {
                true => Outcome::Pending(entry.object.clone()),
                false => deletions.delete(Deletion {
                    by: Controller::Namespaces,
                    key: resource.key(namespace, value.name()),
                    uid: value.uid().into(),
                    policy: PropagationPolicy::Background,
                    gone: Str::new(),
                }),
            };
            match outcome {
                Outcome::Gone => {}
                Outcome::Pending(object) => self.count(resource, &object.tree()),
                Outcome::Asked => self.count(resource, &value),
                Outcome::Refused(why) => {
                    self.count(resource, &value);
                    self.refusals.entry(name(resource)).or_insert(why);
                }
            }
            pace(count).await;
        }
    }

    fn count(&mut self, resource: &Resource, staying: &Value) {
        *self.staying.entry(name(resource)).or_default() += 1;
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
        let mut reasons: Vec<&str> = self.refusals.values().map(Str::as_str).collect();
        reasons.sort_unstable();
        let (status, reason, message) = match reasons.as_slice() {
            [] => {
                let message = "All content successfully deleted, may be waiting on finalization";
                ("False", "ContentDeleted", message.to_owned())
            }
            reasons => {
                let message =
                    format!("Failed to delete all resource types, {} remaining: {}", reasons.len(), reasons.join(", "));
                ("True", "ContentDeletionFailed", message)
            }
        };
        set_condition(namespace, "NamespaceDeletionContentFailure", status, reason, &message);
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

/// A resource as messages name it.
fn name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}
