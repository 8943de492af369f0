//! APIServices of the group versions that this server serves.

use kubewright_core::Value;
use kubewright_core::options::DeleteOptions;
use kubewright_objects::object::{Meta, tree};

use kubewright_storage::KeyRange;

use super::API_SERVICES;
use crate::registry::{CreateRequest, Ownership, Registry, set_condition};

/// Label of the APIServices that this server maintains.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Its value for built-in versions: they are only created at startup.
const ON_START: &str = "onstart";
/// Its value for versions of custom resources: they always follow their definitions.
const ALWAYS: &str = "true";

/// Priorities of built-in groups. `v1` has the same version priority in nearly all of them.
const GROUP_PRIORITIES: [(&str, i32); 20] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
];
/// Priorities of custom resources.
const CUSTOM_PRIORITIES: (i32, i32) = (1000, 100);

/// Creates the APIServices of all served versions, and removes those of versions that are no longer
/// served.
pub(crate) fn register_all(registry: &Registry) {
    let catalog = registry.catalog();
    for (group, versions) in catalog.groups() {
        versions.iter().for_each(|(version, _)| register(registry, group, version));
    }
    for entry in registry.all(&KeyRange::resource(API_SERVICES)) {
        let api_service = entry.object.tree();
        if tree::get(&api_service, &["spec", "service"]).is_none() {
            mark_local(registry, api_service.name());
        }
        if automanaged(&api_service) == Some(ALWAYS) {
            let text = |field| tree::text(&api_service, &["spec", field]).to_owned();
            register(registry, &text("group"), &text("version"));
        }
    }
}

/// Creates, restores or deletes the APIService of a version.
pub(super) fn register(registry: &Registry, group: &str, version: &str) {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage(API_SERVICES) else { return };
    let name = format!("{version}.{group}");
    let stored = registry.newest(resource, "", &name).ok();
    let stored = stored.as_ref().map(|entry| entry.object.tree());
    let (mode, priorities) = match built_in_priorities(group, version) {
        Some(priorities) => (ON_START, priorities),
        // It has none in a real cluster, either.
        None if catalog.is_built_in(group) => return,
        None => (ALWAYS, CUSTOM_PRIORITIES),
    };
    let is_managed = stored.as_ref().is_none_or(|stored| automanaged(stored).is_some());
    let is_served = catalog.version(group, version).is_some();
    // A failure means that another write came first, whose event leads to another call.
    let _ = match stored {
        _ if !is_managed => return,
        Some(_) if !is_served => {
            registry.delete(resource, "", &name, &DeleteOptions::default(), &mut Vec::new(), None).map(drop)
        }
        Some(_) => registry
            .change(resource, "", &name, |old| {
                let mut new = old.clone();
                tree::set(&mut new, &["spec"], spec(group, version, priorities));
                Ok(new)
            })
            .map(drop),
        None if !is_served => return,
        None => {
            let labels = tree::map([(AUTOMANAGED, mode.into())]);
            let value = tree::map([
                ("apiVersion", "apiregistration.k8s.io/v1".into()),
                ("kind", "APIService".into()),
                ("metadata", tree::map([("name", name.as_str().into()), ("labels", labels)])),
                ("spec", spec(group, version, priorities)),
            ]);
            let (namespace, control, ownership) = ("", None, Ownership::Keep);
            registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run: false }).map(drop)
        }
    };
}

/// Reports that this server itself serves the version.
pub(super) fn mark_local(registry: &Registry, name: &str) {
    set_available(registry, name, "True", "Local", "Local APIServices are always available");
}

/// Sets the condition `Available`.
pub(super) fn set_available(registry: &Registry, name: &str, status: &str, reason: &str, message: &str) {
    let catalog = registry.catalog();
    let Some(resource) = catalog.of_storage(API_SERVICES) else { return };
    // A failure means that the APIService has just been deleted.
    let _ = registry.change(resource, "", name, |old| {
        let mut new = old.clone();
        let is_current = tree::items(old, &["status", "conditions"]).iter().any(|condition| {
            let text = |field| tree::text(condition, &[field]);
            (text("type"), text("status"), text("reason"), text("message")) == ("Available", status, reason, message)
        });
        if !is_current {
            set_condition(&mut new, "Available", status, reason, message);
        }
        Ok(new)
    });
}

/// How this server maintains an APIService. `None` if it belongs to a user.
pub(super) fn automanaged(api_service: &Value) -> Option<&'static str> {
    let labels = api_service.labels();
    let label = labels.get(AUTOMANAGED)?;
    [ON_START, ALWAYS].into_iter().find(|known| label == known)
}

/// Whether this server restores an APIService after each change.
pub(super) fn is_always_managed(api_service: &Value) -> bool {
    automanaged(api_service) == Some(ALWAYS)
}

fn spec(group: &str, version: &str, (group_priority, version_priority): (i32, i32)) -> Value {
    let mut spec = tree::map([
        ("groupPriorityMinimum", group_priority.into()),
        ("version", version.into()),
        ("versionPriority", version_priority.into()),
    ]);
    if !group.is_empty() {
        tree::set(&mut spec, &["group"], group);
    }
    spec
}

/// The priorities of a built-in group and version, if it has an APIService.
fn built_in_priorities(group: &str, version: &str) -> Option<(i32, i32)> {
    let (_, priority) = GROUP_PRIORITIES.iter().find(|(name, _)| *name == group)?;
    let of_version = match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("resource.k8s.io" | "flowcontrol.apiserver.k8s.io", _) => 21,
        _ => 15,
    };
    Some((*priority, of_version))
}
