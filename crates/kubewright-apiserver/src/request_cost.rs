//! Decides which requests run on blocking threads, by an estimate of their work.
//!
//! Lists and watches are not decided here. They know how many objects they read, and move the work
//! themselves.

use crate::admission::control;
use crate::backup;
use crate::registry::Registry;
use crate::request::RequestInfo;

/// Bodies and stored objects of this size take milliseconds to decode, compare or encode.
const HEAVY_BYTES: usize = 128 << 10;

/// Groups whose objects contain expressions and schemas, which are compiled when they are written.
const COMPILED_GROUPS: [&str; 2] = ["admissionregistration.k8s.io", "apiextensions.k8s.io"];

/// Whether a request may occupy a thread for many milliseconds.
pub(crate) fn is_heavy(registry: &Registry, info: &RequestInfo, body: usize) -> bool {
    if body >= HEAVY_BYTES || info.path.starts_with("/openapi") || info.path == backup::PATH {
        return true;
    }
    let Some(target) = info.target.as_ref().filter(|_| !matches!(info.verb, "list" | "watch")) else { return false };
    let catalog = registry.catalog();
    let resources = catalog.resources(&target.group, &target.version);
    let Some(resource) = resources.and_then(|resources| resources.get(&target.resource)) else { return false };
    let is_write = info.verb != "get";
    if is_write {
        let is_compiled = COMPILED_GROUPS.contains(&resource.group.as_str());
        if is_compiled || info.verb == "deletecollection" || control::evaluates_expressions(registry, resource) {
            return true;
        }
    }
    let stored = registry.store.get(&resource.key(&target.namespace, &target.name));
    stored.is_some_and(|entry| entry.object.json().len() >= HEAVY_BYTES)
}
