//! Decides which writes a hook matches: by rules, and by labels of the object and its namespace.

use std::sync::Arc;

use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::{Decoder, Selector, Str, Value};

use super::ControlState;
use super::{Attributes, Operation};
use kubewright_objects::object::{Meta, to_json, tree};
use kubewright_resources::catalog::Resource;

/// The version in which the rules match the write. With the match policy `Equivalent`, that may be
/// another version or group of the resource.
pub(super) fn version(
    cluster: &dyn ControlState,
    rules: &[Value],
    attributes: &Attributes<'_>,
    subresource: &str,
    match_policy: &str,
) -> Option<ReviewVersion> {
    if rules.iter().any(|rule| rule_fits(rule, attributes, subresource)) {
        return Some(ReviewVersion::Own);
    }
    if match_policy == "Exact" {
        return None;
    }
    let catalog = cluster.catalog();
    // The first rule that matches wins.
    let mut tried =
        rules.iter().flat_map(|rule| catalog.equivalents(attributes.resource).map(move |other| (rule, other)));
    let met = tried.find(|(rule, other)| rule_fits(rule, &Attributes { resource: other, ..*attributes }, subresource));
    met.map(|(_, other)| ReviewVersion::Other(Arc::clone(other)))
}

/// The version in which a hook receives the objects of a write.
#[derive(Debug, Clone)]
pub(super) enum ReviewVersion {
    /// The version of the request.
    Own,
    Other(Arc<Resource>),
}

/// Whether any rule lists a resource of this name, or one of its subresources.
pub(super) fn name_resource(rules: &[Value], name: &str) -> bool {
    rules.iter().flat_map(listed_resources).any(|(plural, _)| plural == "*" || plural == name)
}

/// The resources and subresources that a rule lists.
fn listed_resources(rule: &Value) -> impl Iterator<Item = (&str, &str)> {
    let listed = tree::items(rule, &["resources"]).iter().filter_map(Value::as_str);
    listed.map(|listed| listed.split_once('/').unwrap_or((listed, "")))
}

/// Whether a rule matches a write.
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
    let resource_fits = listed_resources(rule)
        .any(|(plural, part)| (plural == "*" || plural == resource.plural) && (part == "*" || part == subresource));
    let names = tree::items(rule, &["resourceNames"]);
    let name_fits = names.is_empty() || names.iter().any(|name| name.as_str() == Some(attributes.name));
    has("operations", attributes.operation.name())
        && has("apiGroups", &resource.group)
        && has("apiVersions", &resource.version)
        && scope_fits
        && resource_fits
        && name_fits
}

/// Whether the namespace and object selectors match a write.
pub(super) fn selectors_fit(cluster: &dyn ControlState, selectors: &Value, attributes: &Attributes<'_>) -> bool {
    let namespace_fits = || {
        let Some(selector) = selector(selectors.get("namespaceSelector")) else { return true };
        let resource = attributes.resource;
        let labels = match (resource.is("", "namespaces"), attributes.object.or(attributes.old)) {
            (true, Some(namespace)) => namespace.labels(),
            // Every namespace selector matches cluster-scoped objects.
            _ if !resource.namespaced => return true,
            _ => namespace(cluster, attributes).map(|namespace| namespace.labels()).unwrap_or_default(),
        };
        selector.matches(&labels)
    };
    let object_fits = || {
        let Some(selector) = selector(selectors.get("objectSelector")) else { return true };
        // Connect options have no metadata, so no object selector matches them.
        let labelled = [attributes.object, attributes.old].into_iter().flatten();
        let mut labelled = labelled.filter(|_| attributes.operation != Operation::Connect);
        labelled.any(|object| selector.matches(&object.labels()))
    };
    namespace_fits() && object_fits()
}

/// The Namespace of a write.
pub(super) fn namespace(cluster: &dyn ControlState, attributes: &Attributes<'_>) -> Option<Value> {
    let catalog = cluster.catalog();
    let namespaces = catalog.of_storage("namespaces")?;
    let found = cluster.newest(&namespaces.key("", attributes.namespace_name()))?;
    Some(found.object.value().clone())
}

/// A label selector. `None` if it selects everything.
pub(super) fn selector(value: Option<&Value>) -> Option<Selector> {
    let selector: LabelSelector = Decoder::new().json(&to_json(value?)).ok()?;
    // An invalid selector selects nothing.
    Some(Selector::from_label_selector(Some(&selector)).unwrap_or_else(|_| Selector::nothing()))
        .filter(|selector| !selector.is_everything())
}

/// The strings of a list.
pub(super) fn texts(value: &Value, field: &str) -> Vec<Str> {
    tree::items(value, &[field]).iter().filter_map(Value::as_str).map(Str::from).collect()
}
