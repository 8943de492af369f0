//! Aggregated discovery (`APIGroupDiscoveryList`): read from the server, and written to disk.

use std::sync::Arc;

use kubewright_core::{GroupVersion, GroupVersionKind, Map, Str, Value};

use super::catalog::{ApiGroup, ApiResource, Discovery, GroupFailure, Subresource, Version};

/// The `Accept` header for it. Servers compare the parameters as text, so their order matters.
pub(super) const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The same, excluding resources of peer servers.
pub(super) const ACCEPT_WITHOUT_PEERS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json";

/// Whether a response of this media type is the aggregated document.
#[inline]
pub(super) fn is_aggregated(media_type: &str) -> bool {
    let wanted = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
    let parameters: Vec<&str> = media_type.split(';').map(str::trim).collect();
    wanted.iter().all(|parameter| parameters.contains(parameter))
}

/// Adds the groups of a document. Stale versions are recorded as failures.
#[inline]
pub(super) fn read(document: &Value, discovery: &mut Discovery) {
    let (known, mut order) = (discovery.failures.len(), discovery.group_versions().collect::<Vec<_>>());
    for item in items(document, "items") {
        let name = item.get("metadata").map(|metadata| text(metadata, "name")).unwrap_or_default();
        let mut group = ApiGroup { name, versions: Vec::new() };
        for version in items(item, "versions") {
            let group_version = GroupVersion::new(group.name.clone(), text(version, "version"));
            order.push(group_version.clone());
            if text(version, "freshness") == "Stale" {
                discovery.failures.push(GroupFailure {
                    reason: format!("stale GroupVersion discovery: {group_version}"),
                    group_version,
                    is_transient: true,
                    order: Arc::default(),
                });
                continue;
            }
            let resources =
                items(version, "resources").map(|resource| read_resource(resource, &group_version)).collect();
            group.versions.push(Version { name: group_version.version, resources });
        }
        if !group.versions.is_empty() {
            discovery.groups.push(group);
        }
    }
    let order: Arc<[GroupVersion]> = order.into();
    discovery.failures[known..].iter_mut().for_each(|failure| failure.order = Arc::clone(&order));
}

#[inline]
fn read_resource(value: &Value, group_version: &GroupVersion) -> ApiResource {
    let subresources = items(value, "subresources").map(|part| Subresource {
        name: text(part, "subresource"),
        kind: kind(part, group_version),
        verbs: texts(part, "verbs"),
    });
    ApiResource {
        plural: text(value, "resource"),
        singular: text(value, "singularResource"),
        kind: kind(value, group_version),
        namespaced: text(value, "scope") == "Namespaced",
        verbs: texts(value, "verbs"),
        short_names: texts(value, "shortNames"),
        categories: texts(value, "categories"),
        // Subresources without a kind are not objects and are skipped.
        subresources: subresources.filter(|part| !part.kind.kind.is_empty()).collect(),
    }
}

/// A kind without group and version has those of its document; the core group has a version only.
#[inline]
fn kind(value: &Value, own: &GroupVersion) -> GroupVersionKind {
    let named = value.get("responseKind").filter(|kind| !text(kind, "kind").is_empty());
    let Some(kind) = named else { return GroupVersionKind::default() };
    let (group, version) = (text(kind, "group"), text(kind, "version"));
    if group.is_empty() && version.is_empty() {
        own.with_kind(text(kind, "kind"))
    } else {
        GroupVersionKind::new(group, version, text(kind, "kind"))
    }
}

/// The document that [`read`] reads, without failures.
#[inline]
pub(super) fn write(discovery: &Discovery) -> Value {
    let groups = discovery.groups.iter().map(|group| {
        let versions = group.versions.iter().map(|version| {
            let resources = version.resources.iter().map(write_resource).collect();
            object([("version", version.name.clone().into()), ("resources", Value::Array(resources))])
        });
        let metadata = object([("name", group.name.clone().into())]);
        object([("metadata", metadata), ("versions", Value::Array(versions.collect()))])
    });
    object([
        ("kind", Value::from("APIGroupDiscoveryList")),
        ("apiVersion", Value::from("apidiscovery.k8s.io/v2")),
        ("items", Value::Array(groups.collect())),
    ])
}

#[inline]
fn write_resource(resource: &ApiResource) -> Value {
    let parts = resource.subresources.iter().map(|part| {
        object([
            ("subresource", part.name.clone().into()),
            ("responseKind", write_kind(&part.kind)),
            ("verbs", write_texts(&part.verbs)),
        ])
    });
    object([
        ("resource", resource.plural.clone().into()),
        ("singularResource", resource.singular.clone().into()),
        ("responseKind", write_kind(&resource.kind)),
        ("scope", Value::from(if resource.namespaced { "Namespaced" } else { "Cluster" })),
        ("verbs", write_texts(&resource.verbs)),
        ("shortNames", write_texts(&resource.short_names)),
        ("categories", write_texts(&resource.categories)),
        ("subresources", Value::Array(parts.collect())),
    ])
}

#[inline]
fn write_kind(kind: &GroupVersionKind) -> Value {
    if kind.kind.is_empty() {
        return Value::Null;
    }
    object([
        ("group", kind.group.clone().into()),
        ("version", kind.version.clone().into()),
        ("kind", kind.kind.clone().into()),
    ])
}

#[inline]
fn write_texts(texts: &[Str]) -> Value {
    Value::Array(texts.iter().cloned().map(Value::from).collect())
}

fn object<const N: usize>(entries: [(&'static str, Value); N]) -> Value {
    Value::Object(entries.into_iter().collect::<Map<Value>>())
}

#[inline]
fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    value.get(field).and_then(Value::as_array).into_iter().flat_map(|items| items.iter())
}

#[inline]
fn text(value: &Value, field: &str) -> Str {
    value.get(field).and_then(Value::as_str).map(Str::from).unwrap_or_default()
}

#[inline]
fn texts(value: &Value, field: &str) -> Vec<Str> {
    items(value, field).filter_map(Value::as_str).map(Str::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"items":[{"metadata":{"name":"example.com"},"versions":[
        {"version":"v2","freshness":"Stale","resources":[]},
        {"version":"v1","freshness":"Current","resources":[
            {"resource":"foos","responseKind":{"group":"","version":"","kind":"Foo"},"scope":"Namespaced","verbs":["get"],
             "subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}},
                             {"subresource":"odd"}]},
            {"resource":"bars","scope":"Cluster","subresources":[
                {"subresource":"status","responseKind":{"group":"example.com","version":"v1","kind":"Bar"}}]}]}]}]}"#;

    #[test]
    fn stale_versions_are_failures_and_the_first_current_one_is_preferred() {
        // DI-2
        let mut discovery = Discovery::default();
        read(&DOCUMENT.parse().unwrap(), &mut discovery);
        assert_eq!(discovery.failures.len(), 1);
        assert_eq!(discovery.failures[0].group_version.to_string(), "example.com/v2");
        let names: Vec<String> = discovery.group_versions().map(|version| version.to_string()).collect();
        assert_eq!(names, ["example.com/v1"]);
        let served: Vec<&str> = discovery.resources().map(|(_, one)| one.plural.as_str()).collect();
        assert_eq!(served, ["foos"], "what has no kind is not served");
        let resources = &discovery.groups[0].versions[0].resources;
        assert_eq!(resources[0].kind, GroupVersionKind::new("example.com", "v1", "Foo"));
        assert_eq!(resources[0].subresources.len(), 1, "parts without a kind are dropped");
        assert_eq!(resources[1].subresources[0].name, "status", "what has no kind may have parts");
    }

    #[test]
    fn a_written_document_is_read_back_unchanged() {
        let mut discovery = Discovery::default();
        read(&DOCUMENT.parse().unwrap(), &mut discovery);
        discovery.failures.clear();
        let mut again = Discovery::default();
        read(&write(&discovery), &mut again);
        assert_eq!(again, discovery);
    }

    #[test]
    fn the_media_type_selects_the_document_format() {
        // DI-1
        assert!(is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
        assert!(!is_aggregated("application/json"));
        assert!(!is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"));
    }
}
