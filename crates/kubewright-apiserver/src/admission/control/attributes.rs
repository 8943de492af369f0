//! What is known of a write before it is done.

use kubewright_core::{Str, Value};

use super::Control;
use crate::catalog::Resource;
use crate::object::{Meta, tree};

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// Reaches through the server to what runs somewhere.
    Connect,
}

impl Operation {
    /// The name that rules know it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A write that is about to be done.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    /// The version in which the objects are, where that is another one.
    pub(crate) shown: Option<&'a Resource>,
    pub(crate) namespace: &'a str,
    /// Empty where a name is yet to be made.
    pub(crate) name: &'a str,
    /// What is to be there, unless it is deleted.
    pub(crate) object: Option<&'a Value>,
    /// What is there, unless it is created.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

impl Attributes<'_> {
    /// What an admission review tells of it, without the objects.
    pub(super) fn request(&self, control: &Control<'_>) -> Value {
        let (request_kind, request_resource) = names(self.resource, &control.subresource);
        let (kind, resource) = names(self.shown.unwrap_or(self.resource), &control.subresource);
        let options = match self.operation {
            Operation::Create => Some("CreateOptions"),
            Operation::Update => Some("UpdateOptions"),
            Operation::Delete => Some("DeleteOptions"),
            // The options are the object.
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

    /// The namespace whose labels count: its own for a namespace.
    pub(super) fn namespace_name(&self) -> &str {
        match self.resource.is("", "namespaces") {
            true => self.name,
            false => self.namespace,
        }
    }

    /// The name that messages use.
    pub(super) fn shown_name(&self) -> &str {
        match self.name {
            "" => self.object.map(|object| object.meta_text("generateName")).unwrap_or_default(),
            name => name,
        }
    }
}

/// The kind and the resource that a review names.
fn names(resource: &Resource, subresource: &str) -> (Value, Value) {
    let text = |text: &Str| Value::from(text.clone());
    let (group, version) = (text(&resource.group), text(&resource.version));
    // What is sent to a subresource may be of another kind than what is stored.
    let (api_version, kind) = match resource.subresource(subresource) {
        Some(part) => (&part.api_version, &part.kind),
        None => (&resource.api_version, &resource.kind),
    };
    let (of_group, of_version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = tree::map([("group", of_group.into()), ("version", of_version.into()), ("kind", text(kind))]);
    (kind, tree::map([("group", group), ("version", version), ("resource", text(&resource.plural))]))
}
