//! Label and field selectors of lists and watches.

use std::borrow::Cow;
use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use kubewright_core::{FieldSelector, Selector, Str, Value};
use kubewright_resources::catalog::{Custom, Resource};
use kubewright_storage::{Compacted, Key, KeyRange, Store, Watcher};

use crate::object::{StoredObject, tree};
use crate::rejection::Rejection;

const POD_FIELDS: &[&str] = &[
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const CORE_EVENT_FIELDS: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const NEW_EVENT_FIELDS: &[&str] = &[
    "reason",
    "regarding.apiVersion",
    "regarding.fieldPath",
    "regarding.kind",
    "regarding.name",
    "regarding.namespace",
    "regarding.resourceVersion",
    "regarding.uid",
    "reportingController",
    "type",
];

/// The selectors of a request.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    labels: Selector,
    fields: FieldSelector,
    /// For selectable fields of custom objects, which may have defaults.
    custom: Option<Arc<Custom>>,
}

impl Selectors {
    /// Creates a selection. Rejects fields that the resource does not support.
    pub fn new(resource: &Resource, labels: Selector, fields: FieldSelector) -> Result<Self, Rejection> {
        let known = fields_of(resource);
        for requirement in fields.requirements() {
            let field = requirement.field.as_str();
            let is_custom =
                resource.custom.as_ref().is_some_and(|custom| custom.selectable.iter().any(|one| one == field));
            if !is_name(field) && !known.contains(&field) && !is_custom {
                return Err(Status::bad_request(unknown_field(resource, known, field)).into());
            }
        }
        let is_about_own = fields.requirements().iter().any(|requirement| !is_name(&requirement.field));
        let custom = resource.custom.clone().filter(|_| is_about_own);
        Ok(Selectors { labels, fields, custom })
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether matching reads the text of objects. Labels are at hand without it.
    pub fn reads_text(&self) -> bool {
        !self.fields.is_everything()
    }

    /// The smallest store scope that contains all matching objects.
    pub fn scope(&self, resource: &Resource, namespace: &str) -> KeyRange {
        let namespace = match self.fields.requires_exact_match("metadata.namespace") {
            Some(selected) if resource.namespaced && namespace.is_empty() => selected,
            _ => namespace,
        };
        match self.name() {
            Some(name) if !(resource.namespaced && namespace.is_empty()) => {
                KeyRange::object(&resource.key(namespace, name))
            }
            _ => resource.scope(namespace),
        }
    }

    /// Watches events after a revision. Uses an index if there is one; the events may include
    /// objects that do not match.
    pub fn watch(
        &self,
        store: &Store<StoredObject>,
        resource: &Resource,
        namespace: &str,
        from: u64,
    ) -> Result<Watcher<StoredObject>, Compacted> {
        let scope = self.scope(resource, namespace);
        if scope != resource.scope("") {
            return store.watch(&scope, from);
        }
        let indexed =
            indexed_field(&resource.storage).and_then(|path| self.fields.requires_exact_match(&path.join(".")));
        match (indexed, self.name()) {
            (Some(value), _) => store.watch_indexed(&resource.storage, value, from),
            (None, Some(name)) => store.watch_named(&resource.storage, name, from),
            (None, None) => store.watch(&scope, from),
        }
    }

    /// The name that matching objects must have, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.fields.requires_exact_match("metadata.name").filter(|name| !name.is_empty())
    }

    /// Whether there are field requirements other than this name.
    pub fn has_other_fields(&self, name: &str) -> bool {
        !self.fields.is_everything() && self.fields.requires_exact_match("metadata.name") != Some(name)
    }

    /// Adds the requirement of a name.
    pub fn named(mut self, name: &str) -> Self {
        self.fields = self.fields.equals("metadata.name", name);
        self
    }

    /// Whether a webhook must convert objects before they can match: the fields may be elsewhere in
    /// another version.
    pub fn needs_webhook(&self, resource: &Resource) -> bool {
        resource.needs_webhook() && self.fields.requirements().iter().any(|one| !is_name(&one.field))
    }

    /// The label part only. It can be evaluated before conversion.
    pub fn without_fields(&self) -> Selectors {
        Selectors { labels: self.labels.clone(), ..Selectors::default() }
    }

    /// Whether an object matches.
    pub fn matches(&self, object: &StoredObject) -> bool {
        let has_fields = || self.fields.requirements().is_empty() || self.has_fields(object);
        (self.labels.is_everything() || self.labels.matches(&object.labels)) && has_fields()
    }

    fn has_fields(&self, object: &StoredObject) -> bool {
        // Defaults of custom fields are visible in the complete view only.
        let view = self.custom.as_ref().and_then(|custom| custom.view(&object.tree()));
        let get = |path: &[&str]| match &view {
            Some(view) => tree::get(view, path).map(Cow::Borrowed),
            None => object.field(path),
        };
        self.fields.requirements().iter().all(|one| (one.value == field(&get, &one.field)) != one.negated)
    }
}

/// The indexed field of a resource: one that many watches select by, each with a different value.
fn indexed_field(storage: &str) -> Option<&'static [&'static str]> {
    matches!(storage, "pods" | "resourceslices.resource.k8s.io").then_some(&["spec", "nodeName"])
}

/// The value of the indexed field of an object, if its resource has one.
pub fn indexed_value(key: &Key, object: &StoredObject) -> Option<Str> {
    let value = object.field(indexed_field(key.resource())?);
    Some(value.as_deref().and_then(Value::as_str).unwrap_or_default().into())
}

/// Whether every kind supports this field.
fn is_name(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

fn fields_of(resource: &Resource) -> &'static [&'static str] {
    if resource.is_custom() {
        return &[];
    }
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => POD_FIELDS,
        ("", "events") => CORE_EVENT_FIELDS,
        ("events.k8s.io", "events") => NEW_EVENT_FIELDS,
        ("", "namespaces") => &["status.phase"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "replicationcontrollers") | ("apps", "replicasets") => &["status.replicas"],
        ("batch", "jobs") => &["status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["spec.signerName"],
        ("resource.k8s.io", "resourceslices") => &["spec.driver", "spec.nodeName"],
        _ => &[],
    }
}

fn unknown_field(resource: &Resource, known: &[&str], field: &str) -> String {
    let is_plain = known.is_empty();
    match (is_plain, resource.is_custom()) {
        (_, true) => format!("field label not supported: {field}"),
        (true, _) => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        (false, _) => format!("field label not supported: {field}"),
    }
}

/// The value of a field as a string. Absent values are empty, or the zero value of the type.
fn field<'a>(get: &dyn Fn(&[&str]) -> Option<Cow<'a, Value>>, field: &str) -> String {
    let text = |path: &[&str]| match get(path).as_deref() {
        Some(Value::String(text)) => text.to_string(),
        Some(value @ (Value::Bool(_) | Value::Int(_) | Value::Float(_))) => value.to_string(),
        _ => String::new(),
    };
    let flag = |path: &[&str]| get(path).and_then(|value| value.as_bool()).unwrap_or_default().to_string();
    let number = |path: &[&str]| get(path).and_then(|value| value.as_i64()).unwrap_or_default().to_string();
    match field {
        "spec.unschedulable" => flag(&["spec", "unschedulable"]),
        "spec.hostNetwork" => flag(&["spec", "hostNetwork"]),
        "status.successful" => number(&["status", "succeeded"]),
        "status.replicas" => number(&["status", "replicas"]),
        "source" => match text(&["source", "component"]) {
            component if component.is_empty() => text(&["reportingComponent"]),
            component => component,
        },
        // Events are stored with the field names of the core group.
        "reportingController" => text(&["reportingComponent"]),
        field => {
            let (head, field) = match field.strip_prefix("regarding.") {
                Some(rest) => (Some("involvedObject"), rest),
                None => (None, field),
            };
            text(&head.into_iter().chain(field.split('.')).collect::<Vec<_>>())
        }
    }
}
