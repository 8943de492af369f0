//! Which writes somebody has a say in: by rules, and by labels of the object and its namespace.

use std::sync::Arc;

use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{Decoder, Selector, Str, Value};

use super::{Attributes, Operation};
use crate::catalog::Resource;
use crate::object::{Meta, to_json, tree};
use crate::registry::Registry;

/// The version of a resource that rules are about: that of the write, or another one if those count as well.
pub(super) fn version(
    registry: &Registry,
    rules: &[Value],
    attributes: &Attributes<'_>,
    subresource: &str,
    match_policy: &str,
) -> Option<Version> {
    if rules.iter().any(|rule| rule_fits(rule, attributes, subresource)) {
        return Some(Version::Own);
    }
    if match_policy == "Exact" {
        return None;
    }
    let catalog = registry.catalog();
    // Earlier rules come first.
    let mut tried =
        rules.iter().flat_map(|rule| catalog.equivalents(attributes.resource).map(move |other| (rule, other)));
    let met = tried.find(|(rule, other)| rule_fits(rule, &Attributes { resource: other, ..*attributes }, subresource));
    met.map(|(_, other)| Version::Other(Arc::clone(other)))
}

/// The version in which somebody wants to be told of a write.
#[derive(Debug, Clone)]
pub(super) enum Version {
    /// That of the write.
    Own,
    Other(Arc<Resource>),
}

/// Whether a rule is about a write.
fn rule_fits(rule: &Value, attributes: &Attributes<'_>, subresource: &str) -> bool {
    let has = |field: &str, wanted: &str| {
        let mut listed = tree::items(rule, &[field]).iter().filter_map(Value::as_str);
        listed.any(|have| have == "*" || have == wanted)
    };
    let resource = attributes.resource;
    let scope_fits = match tree::text(rule, &["scope"]) {
        "Cluster" => !resource.namespaced,
        "Namespaced" => resource.namespaced,
        _ => true,
    };
    let resource_fits = tree::items(rule, &["resources"]).iter().filter_map(Value::as_str).any(|listed| {
        let (plural, part) = listed.split_once('/').unwrap_or((listed, ""));
        (plural == "*" || plural == resource.plural) && (part == "*" || part == subresource)
    });
    let names = tree::items(rule, &["resourceNames"]);
    let name_fits = names.is_empty() || names.iter().any(|name| name.as_str() == Some(attributes.name));
    has("operations", attributes.operation.name())
        && has("apiGroups", &resource.group)
        && has("apiVersions", &resource.version)
        && scope_fits
        && resource_fits
        && name_fits
}

/// Whether the selectors of a match choose a write.
pub(super) fn selectors_fit(registry: &Registry, selectors: &Value, attributes: &Attributes<'_>) -> bool {
    let namespace_fits = || {
        let Some(selector) = selector(selectors.get("namespaceSelector")) else { return true };
        let resource = attributes.resource;
        let labels = match (resource.is("", "namespaces"), attributes.object.or(attributes.old)) {
            (true, Some(namespace)) => namespace.labels(),
            // What is in no namespace is chosen by every selector.
            _ if !resource.namespaced => return true,
            _ => namespace(registry, attributes).map(|namespace| namespace.labels()).unwrap_or_default(),
        };
        selector.matches(&labels)
    };
    let object_fits = || {
        let Some(selector) = selector(selectors.get("objectSelector")) else { return true };
        // Options have no labels, which is not the same as having none of them.
        let labelled = [attributes.object, attributes.old].into_iter().flatten();
        let mut labelled = labelled.filter(|_| attributes.operation != Operation::Connect);
        labelled.any(|object| selector.matches(&object.labels()))
    };
    namespace_fits() && object_fits()
}

/// The namespace that a write is in.
pub(super) fn namespace(registry: &Registry, attributes: &Attributes<'_>) -> Option<Value> {
    let catalog = registry.catalog();
    let namespaces = catalog.of_storage("namespaces")?;
    let found = registry.get(namespaces, "", attributes.namespace_name()).ok()?;
    Some(found.object.value().clone())
}

/// A selector of labels, `None` if it selects everything.
pub(super) fn selector(value: Option<&Value>) -> Option<Selector> {
    let selector: LabelSelector = Decoder::new().json(&to_json(value?)).ok()?;
    // One that cannot be read selects nothing.
    Some(Selector::from_label_selector(Some(&selector)).unwrap_or_else(|_| Selector::nothing()))
        .filter(|selector| !selector.is_everything())
}

/// Texts of a list.
pub(super) fn texts(value: &Value, field: &str) -> Vec<Str> {
    tree::items(value, &[field]).iter().filter_map(Value::as_str).map(Str::from).collect()
}
