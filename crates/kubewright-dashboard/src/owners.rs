//! The owner tree of an object, such as Deployment → ReplicaSet → Pod.
//!
//! Owners are read one by one. Dependents are found in the metadata of all resources of the
//! namespace, since an API server has no index of owners.

use std::collections::HashMap;

use futures_util::future::join_all;
use kubewright_client::discovery::ApiResource;
use kubewright_core::meta::v1::{OwnerReference, PartialObjectMetadata};
use kubewright_core::options::ListOptions;
use kubewright_core::{DynamicObject, GroupKind, GroupVersion, GroupVersionResource, Object, ObjectKey};
use serde::Serialize;

use crate::server::LiveProgram;

/// Maximum number of owners above an object. Owner references may form a cycle.
const OWNERS_MAX: usize = 10;
/// Maximum number of objects in a tree.
const OBJECTS_MAX: usize = 500;
/// Maximum number of objects that are read of each resource.
const LISTED_MAX: u32 = 2000;
/// Resources of many objects that own nothing and are owned by nothing of interest.
const SKIPPED: [&str; 3] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io"];

/// An object in an owner tree, with those that it owns.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Relative {
    kind: String,
    resource: String,
    key: String,
    /// Whether it is the object that the page shows.
    is_shown: bool,
    dependents: Vec<Relative>,
}

/// The tree of an object.
pub(crate) struct OwnerTree {
    shown: String,
    /// The objects that an object owns, by its UID.
    dependents_of: HashMap<String, Vec<Node>>,
    left: usize,
}

/// An object without its dependents.
#[derive(Debug, Clone)]
struct Node {
    uid: String,
    kind: String,
    resource: String,
    key: String,
}

impl OwnerTree {
    /// The tree that contains an object. `None` if it neither owns nor is owned.
    pub(crate) async fn around(service: &LiveProgram, object: &DynamicObject) -> Option<Relative> {
        let root = root_of(service, object).await?;
        let namespace = object.namespace();
        let mut tree = OwnerTree {
            shown: object.metadata.uid.as_deref().unwrap_or_default().to_owned(),
            dependents_of: dependents(service, namespace).await,
            left: OBJECTS_MAX,
        };
        let tree = tree.grow(&root);
        (!tree.dependents.is_empty()).then_some(tree)
    }

    fn grow(&mut self, node: &Node) -> Relative {
        // Taken out, so that a cycle ends.
        let owned = self.dependents_of.remove(&node.uid).unwrap_or_default();
        let owned: Vec<Node> = owned.into_iter().take(self.left).collect();
        self.left -= owned.len();
        Relative {
            kind: node.kind.clone(),
            resource: node.resource.clone(),
            key: node.key.clone(),
            is_shown: node.uid == self.shown,
            dependents: owned.iter().map(|owned| self.grow(owned)).collect(),
        }
    }
}

/// The topmost owner of an object: the controller, or else the first owner, of each level.
async fn root_of(service: &LiveProgram, object: &DynamicObject) -> Option<Node> {
    let mut object = object.clone();
    for _ in 0..OWNERS_MAX {
        let owners = &object.metadata.owner_references;
        let owner = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first()).cloned();
        let Some(owner) = owner else { break };
        let Some(found) = read_owner(service, &owner, object.namespace()).await else { break };
        object = found;
    }
    let mapping = service.mapper.api_of(&object).await.ok()?;
    Some(Node {
        uid: object.metadata.uid.as_deref()?.to_owned(),
        kind: object.kind.to_string(),
        resource: mapping.resource().group_resource().to_string(),
        key: ObjectKey::namespaced(object.namespace(), object.name()).to_string(),
    })
}

async fn read_owner(service: &LiveProgram, owner: &OwnerReference, namespace: &str) -> Option<DynamicObject> {
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    let kind = GroupKind::new(group, &*owner.kind);
    let mapping = service.mapper.kind(&kind, &[version]).await.ok()?;
    let found = mapping.api(&service.client, namespace).get_opt(&owner.name).await.ok()??;
    // Another object of the same name is not the owner.
    (found.metadata.uid.as_deref() == Some(&*owner.uid)).then_some(found)
}

/// The objects of a namespace by the UIDs of their owners. Resources that cannot be listed are left
/// out.
async fn dependents(service: &LiveProgram, namespace: &str) -> HashMap<String, Vec<Node>> {
    let Ok(discovery) = service.mapper.discovery().get().await else { return HashMap::new() };
    let lists = discovery.preferred_resources().filter(|(version, resource)| {
        let name = GroupVersionResource::new(version.group.clone(), version.version.clone(), resource.plural.clone());
        let is_skipped = SKIPPED.contains(&&*name.group_resource().to_string());
        resource.namespaced != namespace.is_empty() && resource.has_verb("list") && !is_skipped
    });
    let lists = lists.map(|(version, resource)| owned_objects(service, namespace, version, resource));
    let mut dependents_of: HashMap<String, Vec<Node>> = HashMap::new();
    for (owner, node) in join_all(lists).await.into_iter().flatten() {
        dependents_of.entry(owner).or_default().push(node);
    }
    dependents_of
}

/// The objects of a resource that have owners, each with the UID of its owner.
async fn owned_objects(
    service: &LiveProgram,
    namespace: &str,
    version: GroupVersion,
    resource: &ApiResource,
) -> Vec<(String, Node)> {
    let name = GroupVersionResource::new(version.group.clone(), version.version.clone(), resource.plural.clone());
    let shown = name.group_resource().to_string();
    let mut objects = service.client.metadata(name);
    if !namespace.is_empty() {
        objects = objects.namespace(namespace);
    }
    let options = ListOptions { limit: Some(LISTED_MAX.into()), ..ListOptions::default() };
    let Ok(listed) = objects.list(&options).await else { return Vec::new() };
    let node = |object: &PartialObjectMetadata| Node {
        uid: object.metadata.uid.as_deref().unwrap_or_default().to_owned(),
        kind: resource.kind.kind.to_string(),
        resource: shown.clone(),
        key: ObjectKey::namespaced(object.namespace(), object.name()).to_string(),
    };
    let owned = listed.items.iter().flat_map(|object| {
        object.metadata.owner_references.iter().map(move |owner| (owner.uid.to_string(), node(object)))
    });
    owned.collect()
}
