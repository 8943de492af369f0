//! Deletes the content of terminating namespaces: pods first, then everything else.

use std::collections::BTreeMap;

use kubewright_core::options::PropagationPolicy;
use kubewright_core::{Str, Value};

use super::content::{NAMESPACES, RemainingContent, yield_regularly};
use super::deletions::{DeletingController, Deletion, DeletionState, Deletions};
use crate::registry::{Registry, set_condition};
use kubewright_objects::object::{Meta, tree};
use kubewright_resources::catalog::Resource;
use kubewright_storage::{Key, KeyRange};

/// The finalizer of namespaces, which blocks until their content is deleted.
const CONTENT: &str = "kubernetes";

/// The result of scanning a namespace.
#[derive(Default)]
struct NamespaceContent {
    found: usize,
    /// Number of remaining objects by resource.
    staying: BTreeMap<String, usize>,
    /// Number of remaining objects by finalizer.
    finalizers: BTreeMap<Str, usize>,
    /// One rejection message per resource.
    refusals: BTreeMap<String, Str>,
}

/// Deletes the content of a terminating namespace, then releases it. Returns what it still waits
/// for.
///
/// Other objects stay while there are pods, which may need them to stop cleanly.
#[doc(alias = "namespacedResourcesDeleter")]
pub(super) async fn empty(registry: &Registry, deletions: &mut Deletions, key: &Key) -> Option<RemainingContent> {
    let (namespace, entry) = (key.name(), registry.store.newest(key)?);
    let value = entry.object.value();
    let holds = tree::items(value, &["spec", "finalizers"]).iter().any(|one| one.as_str() == Some(CONTENT));
    if !value.is_being_deleted() || !holds {
        return None;
    }
    let catalog = registry.catalog();
    let mut resources: Vec<_> = catalog.stored().filter(|resource| resource.namespaced).collect();
    resources.sort_by_key(|resource| (!resource.is("", "pods"), resource.storage.clone()));
    let mut content = NamespaceContent::default();
    for resource in resources {
        content.clear(registry, deletions, resource, namespace).await;
        if resource.is("", "pods") && !content.staying.is_empty() {
            break;
        }
    }
    let namespaces = catalog.of_storage(NAMESPACES)?;
    // A failure means that the namespace is gone or that the disk is full. Both lead to another
    // call.
    let changed = registry.change(namespaces, "", namespace, |value| {
        let mut value = value.clone();
        if content.staying.is_empty() {
            release(&mut value)
        } else {
            content.report(&mut value)
        }
        Ok(value)
    });
    let staying = content.staying.values().sum();
    let version = changed.map(|changed| Str::from(changed.tree().resource_version())).unwrap_or_default();
    (staying > 0).then(|| RemainingContent::new(content.found, staying, version))
}

fn release(namespace: &mut Value) {
    let rest: Vec<Value> = tree::items(namespace, &["spec", "finalizers"]).to_vec();
    let rest: Vec<Value> = rest.into_iter().filter(|one| one.as_str() != Some(CONTENT)).collect();
    if rest.is_empty() {
        drop(tree::remove(namespace, &["spec", "finalizers"]))
    } else {
        tree::set(namespace, &["spec", "finalizers"], rest)
    }
}

impl NamespaceContent {
    /// Deletes the objects of a resource and counts those that stay.
    async fn clear(&mut self, registry: &Registry, deletions: &mut Deletions, resource: &Resource, namespace: &str) {
        for (count, entry) in (1..).zip(registry.all(&KeyRange::namespace(resource.storage.clone(), namespace))) {
            self.found += 1;
            let value = entry.object.tree();
            let outcome = if value.is_being_deleted() {
                DeletionState::Pending(entry.object.clone())
            } else {
                deletions.delete(Deletion {
                    by: DeletingController::Namespaces,
                    key: resource.key(namespace, value.name()),
                    uid: value.uid().into(),
                    policy: PropagationPolicy::Background,
                    gone: Str::new(),
                })
            };
            match outcome {
                DeletionState::Gone => {}
                DeletionState::Pending(object) => self.count(resource, &object.tree()),
                DeletionState::AwaitingWebhooks => self.count(resource, &value),
                DeletionState::Rejected(why) => {
                    self.count(resource, &value);
                    self.refusals.entry(name(resource)).or_insert(why);
                }
            }
            yield_regularly(count).await;
        }
    }

    fn count(&mut self, resource: &Resource, staying: &Value) {
        *self.staying.entry(name(resource)).or_default() += 1;
        for finalizer in staying.finalizers() {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }

    /// Reports the remaining content in conditions.
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
        let (status, reason, message) = if held.is_empty() {
            ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
        } else {
            (
                "True",
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {}", held.join(", ")),
            )
        };
        set_condition(namespace, "NamespaceFinalizersRemaining", status, reason, &message);
    }
}

/// The name of a resource in messages.
fn name(resource: &Resource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}
