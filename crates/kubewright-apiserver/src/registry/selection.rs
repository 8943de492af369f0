//! Which objects a list or a watch is about: by labels, and by the fields that their kind can be selected by.

use std::borrow::Cow;
use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use kubewright_core::{FieldSelector, Selector, Value};

use crate::catalog::{Custom, Resource};
use crate::object::{Meta, StoredObject, tree};
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

/// A choice among the objects of a resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: Selector,
    fields: FieldSelector,
    /// How custom objects are seen that are chosen by fields of their own, which may have defaults.
    custom: Option<Arc<Custom>>,
}

impl Selection {
    /// A choice by these selectors, if the resource knows their fields.
    pub(crate) fn new(resource: &Resource, labels: Selector, fields: FieldSelector) -> Result<Self, Rejection> {
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
        Ok(Selection { labels, fields, custom })
    }

    /// Whether all objects are chosen.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The one name that an object must have to be chosen.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.requires_exact_match("metadata.name").filter(|name| !name.is_empty())
    }

    /// Whether it chooses by fields without choosing this name.
    pub(crate) fn has_other_fields(&self, name: &str) -> bool {
        !self.fields.is_everything() && self.fields.requires_exact_match("metadata.name") != Some(name)
    }

    /// Also chooses by name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.fields = self.fields.equals("metadata.name", name);
        self
    }

    /// Whether only a webhook can say what is chosen: it looks at fields that are elsewhere in another version.
    pub(crate) fn needs_webhook(&self, resource: &Resource) -> bool {
        resource.needs_webhook() && self.fields.requirements().iter().any(|one| !is_name(&one.field))
    }

    /// What can be said before objects are in the version of the request: they may be chosen if their labels are.
    pub(crate) fn without_fields(&self) -> Selection {
        Selection { labels: self.labels.clone(), ..Selection::default() }
    }

    /// Whether an object is chosen.
    pub(crate) fn matches(&self, object: &StoredObject) -> bool {
        let has_fields = || self.fields.requirements().is_empty() || self.has_fields(object.value());
        (self.labels.is_everything() || self.labels.matches(&object.labels)) && has_fields()
    }

    fn has_fields(&self, object: &Value) -> bool {
        let view = self.custom.as_ref().and_then(|custom| custom.view(object));
        let object = view.as_ref().unwrap_or(object);
        self.fields
            .requirements()
            .iter()
            .all(|requirement| (requirement.value == *field(object, &requirement.field)) != requirement.negated)
    }
}

/// Whether all objects have this field, custom ones as well.
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

/// The value of a field as text; what is absent is empty, or the zero of its type.
fn field<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    match field {
        "metadata.name" => return object.name().into(),
        "metadata.namespace" => return object.namespace().into(),
        "spec.unschedulable" => return tree::is_true(object, &["spec", "unschedulable"]).to_string().into(),
        "spec.hostNetwork" => return tree::is_true(object, &["spec", "hostNetwork"]).to_string().into(),
        "status.successful" => {
            return tree::int(object, &["status", "succeeded"]).unwrap_or_default().to_string().into();
        }
        "status.replicas" => return tree::int(object, &["status", "replicas"]).unwrap_or_default().to_string().into(),
        "source" => {
            let component = tree::text(object, &["source", "component"]);
            return if component.is_empty() { tree::text(object, &["reportingComponent"]) } else { component }.into();
        }
        _ => {}
    }
    // Events of the newer group are stored as those of the core group.
    let field = match field {
        "reportingController" => "reportingComponent".into(),
        field => match field.strip_prefix("regarding.") {
            Some(rest) => Cow::Owned(format!("involvedObject.{rest}")),
            None => Cow::Borrowed(field),
        },
    };
    let path: Vec<&str> = field.split('.').collect();
    match tree::get(object, &path) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(value @ (Value::Bool(_) | Value::Int(_) | Value::Float(_))) => value.to_string().into(),
        _ => "".into(),
    }
}
