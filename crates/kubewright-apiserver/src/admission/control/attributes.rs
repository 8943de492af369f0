//! The attributes of a write, as policies and webhooks see it.

use kubewright_core::{Str, Value};

use super::Control;
use kubewright_objects::object::{Meta, tree};
use kubewright_resources::catalog::Resource;

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A connection to a pod, node or service through the API server, such as `exec`.
    Connect,
}

impl Operation {
    /// The name in admission rules.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A write before it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    /// The resource of the version that a hook wants, if it differs from the request's.
    pub(crate) shown: Option<&'a Resource>,
    pub(crate) namespace: &'a str,
    /// Empty until a `generateName` is resolved.
    pub(crate) name: &'a str,
    /// The new object. `None` for a deletion.
    pub(crate) object: Option<&'a Value>,
    /// The stored object. `None` for a creation.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

impl Attributes<'_> {
    /// The `request` of an AdmissionReview, without the objects.
    pub(super) fn request(&self, control: &Control<'_>) -> Value {
        let (request_kind, request_resource) = names(self.resource, &control.subresource);
        let (kind, resource) = names(self.shown.unwrap_or(self.resource), &control.subresource);
        let options = match self.operation {
            Operation::Create => Some("CreateOptions"),
            Operation::Update => Some("UpdateOptions"),
            Operation::Delete => Some("DeleteOptions"),
            // For CONNECT, the options are the object.
            Operation::Connect => None,
        };
        let options = options.map(|kind| tree::map([("kind", kind.into()), ("apiVersion", "meta.k8s.io/v1".into())]));
        let mut request = tree::map([
            ("uid", control.uid.as_str().into()),
            ("kind", kind),
            ("resource", resource),
            ("requestKind", request_kind),
            ("requestResource", request_resource),
            ("operation", self.operation.name().into()),
            ("userInfo", control.user.info()),
            ("dryRun", self.dry_run.into()),
            ("options", options.unwrap_or_default()),
        ]);
        for (field, value) in [("name", self.name), ("namespace", self.namespace)] {
            if !value.is_empty() {
                tree::set(&mut request, &[field], value);
            }
        }
        if !control.subresource.is_empty() {
            for field in ["subResource", "requestSubResource"] {
                tree::set(&mut request, &[field], control.subresource.clone());
            }
        }
        request
    }

    /// The namespace whose labels selectors match: for a Namespace, the object itself.
    pub(super) fn namespace_name(&self) -> &str {
        if self.resource.is("", "namespaces") { self.name } else { self.namespace }
    }

    /// The name for messages. `generateName` stands in for a missing name.
    pub(super) fn shown_name(&self) -> &str {
        match self.name {
            "" => self.object.map(|object| object.meta_text("generateName")).unwrap_or_default(),
            name => name,
        }
    }
}

/// The kind and the resource of a review request.
fn names(resource: &Resource, subresource: &str) -> (Value, Value) {
    let text = |text: &Str| Value::from(text.clone());
    let (group, version) = (text(&resource.group), text(&resource.version));
    // A subresource can have its own kind, such as `Scale`.
    let (api_version, kind) = match resource.subresource(subresource) {
        Some(part) => (&part.api_version, &part.kind),
        None => (&resource.api_version, &resource.kind),
    };
    let (of_group, of_version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = tree::map([("group", of_group.into()), ("version", of_version.into()), ("kind", text(kind))]);
    (kind, tree::map([("group", group), ("version", version), ("resource", text(&resource.plural))]))
}
