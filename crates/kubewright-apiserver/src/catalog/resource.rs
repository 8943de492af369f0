//! A resource in one version: its names, its type and its verbs.

use std::fmt;
use std::sync::Arc;

use kubewright_core::json::Writer;
use kubewright_core::message::TypeEntry;
use kubewright_core::{GroupKind, GroupResource, GroupVersionKind, Map, ResourceInfo, Str, Value};
use kubewright_schema::Schema;
use tokio::sync::watch;

use super::converter::ConversionWebhook;
use super::type_entry;
use crate::discovery::Served;
use crate::object::write_head;
use crate::table::Printer;
use kubewright_storage::{Key, KeyRange};

/// Resources whose served version is not their storage version.
const STORED_ELSEWHERE: [(&str, &str); 2] =
    [("events", "events.k8s.io/v1"), ("horizontalpodautoscalers", "autoscaling/v1")];

/// A resource in one served version.
pub(crate) struct Resource {
    pub(crate) group: Str,
    pub(crate) version: Str,
    /// Group and version as in `apiVersion`.
    pub(crate) api_version: Str,
    pub(crate) kind: Str,
    pub(crate) list_kind: Str,
    pub(crate) plural: Str,
    pub(crate) singular: Str,
    pub(crate) short_names: Vec<Str>,
    pub(crate) categories: Vec<Str>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) subresources: Vec<Subresource>,
    /// The storage name, which is the same in all versions.
    pub(crate) storage: Str,
    /// The description of a built-in resource.
    pub(crate) info: Option<&'static ResourceInfo>,
    /// The type of a built-in resource's objects.
    pub(crate) entry: Option<&'static TypeEntry>,
    /// An empty object.
    pub(crate) empty: Value,
    /// Prints objects as table rows.
    pub(crate) printer: Printer,
    /// Set for custom resources.
    pub(crate) custom: Option<Arc<Custom>>,
}

/// A subresource.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: Str,
    pub(crate) api_version: Str,
    pub(crate) kind: Str,
    pub(crate) verbs: &'static [&'static str],
}

/// The additional properties of a custom resource.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custom {
    /// Whether the definition is being deleted together with its objects.
    pub(crate) terminating: bool,
    /// Closed when the definition is deleted or its spec changes. Watches then end, so that clients
    /// list again.
    pub(crate) lifetime: Option<watch::Receiver<()>>,
    /// Whether this version is served.
    pub(crate) served: bool,
    /// Whether this is the storage version.
    pub(crate) stored: bool,
    /// The JSON paths of the scale subresource: spec, status and selector.
    pub(crate) scale: Option<[Str; 3]>,
    /// The paths of the selectable fields.
    pub(crate) selectable: Vec<Str>,
    /// The schema of this version.
    pub(crate) schema: Arc<Schema>,
    /// The storage version, in the form of `apiVersion`.
    pub(crate) storage_version: Str,
    /// All versions of the definition, in the form of `apiVersion`.
    pub(crate) versions: Arc<[Str]>,
    /// The schema of the storage version.
    pub(crate) storage_schema: Arc<Schema>,
    /// The conversion webhook, if the definition has one.
    pub(crate) converter: Option<Arc<ConversionWebhook>>,
    /// This version's entry in the definition.
    pub(crate) version: Value,
    /// The deprecation warning of this version.
    pub(crate) deprecation: Option<Str>,
}

impl Custom {
    /// A stored object in this version. `None` if only its `apiVersion` differs.
    pub(crate) fn view(&self, object: &Value) -> Option<Value> {
        if self.stored {
            return self.schema.pruned_and_defaulted(object);
        }
        // A conversion webhook receives objects that are already defaulted.
        let is_stored = object.get("apiVersion").and_then(Value::as_str) == Some(&self.storage_version);
        let stored = if is_stored { self.storage_schema.pruned_and_defaulted(object) } else { None };
        self.schema.pruned(stored.as_ref().unwrap_or(object)).or(stored)
    }
}

impl fmt::Debug for Resource {
    /// Prints the names only, because schemas are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.plural)
    }
}

impl Resource {
    /// A built-in resource.
    pub(crate) fn built_in(info: &'static ResourceInfo) -> Self {
        let entry = type_entry(info.kind.api_version, info.kind.kind);
        let subresources = info.subresources.iter().map(|subresource| Subresource {
            name: Str::from_static(subresource.name),
            api_version: Str::from_static(subresource.kind.api_version),
            kind: Str::from_static(subresource.kind.kind),
            verbs: subresource.verbs,
        });
        // Both groups of events share their objects.
        let storage = match (info.plural, info.kind.group) {
            ("events", _) => "events".into(),
            (plural, "") => Str::from_static(plural),
            (plural, group) => format!("{plural}.{group}").into(),
        };
        let texts = |texts: &'static [&'static str]| texts.iter().map(|text| Str::from_static(text)).collect();
        Resource {
            group: Str::from_static(info.kind.group),
            version: Str::from_static(info.kind.version),
            api_version: Str::from_static(info.kind.api_version),
            kind: Str::from_static(info.kind.kind),
            list_kind: format!("{}List", info.kind.kind).into(),
            plural: Str::from_static(info.plural),
            singular: Str::from_static(info.singular),
            short_names: texts(info.short_names),
            categories: texts(info.categories),
            namespaced: info.namespaced,
            verbs: info.verbs,
            subresources: subresources.collect(),
            storage,
            info: Some(info),
            entry,
            empty: empty(entry, info.kind.api_version, info.kind.kind),
            printer: Printer::for_resource(info),
            custom: None,
        }
    }

    /// The resource for discovery. While its definition is being deleted, its objects can only be
    /// read and deleted.
    pub(crate) fn to_discovered(&self) -> Served {
        let mut served = self.to_served();
        if self.custom.as_ref().is_some_and(|custom| custom.terminating) {
            served.verbs.retain(|verb| !matches!(verb.as_str(), "patch" | "create" | "update"));
        }
        served
    }

    /// The resource for discovery, without regard to deletion.
    pub(crate) fn to_served(&self) -> Served {
        if let Some(info) = self.info {
            return Served::from(info);
        }
        let kind = GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone());
        let mut served = Served::custom(kind, &self.plural, &self.singular, self.namespaced);
        let stored = self.custom.as_ref().and_then(|custom| custom.storage_version.rsplit('/').next());
        if let (Some(version), Some(kind)) = (stored.filter(|version| !version.is_empty()), &mut served.stored_as) {
            kind.version = version.into();
        }
        served.short_names = self.short_names.clone();
        served.categories = self.categories.clone();
        for subresource in &self.subresources {
            served = if subresource.name == "status" { served.with_status() } else { served.with_scale() };
        }
        served
    }

    /// Group and resource, as in messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Group and kind, as in messages about invalid objects.
    pub(crate) fn group_kind(&self) -> GroupKind {
        // Events of both groups are validated as core events.
        let group = if self.is("events.k8s.io", "events") { Str::new() } else { self.group.clone() };
        GroupKind::new(group, self.kind.clone())
    }

    /// Whether this is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether a webhook converts its objects between versions.
    pub(crate) fn needs_webhook(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.converter.is_some())
    }

    /// Whether its objects can be written in a version.
    pub(crate) fn has_version(&self, api_version: &str) -> bool {
        match &self.custom {
            Some(custom) => custom.versions.iter().any(|version| version == api_version),
            None => type_entry(api_version, &self.kind).is_some(),
        }
    }

    /// Whether this is the built-in resource with this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group && !self.is_custom()
    }

    /// Whether objects are stored. Others, such as reviews, are only answered.
    pub(crate) fn is_stored(&self) -> bool {
        self.has_verb("get") && !self.is("", "componentstatuses")
    }

    /// Whether this is the storage version.
    pub(crate) fn is_stored_version(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.stored,
            None => self.is_stored() && !STORED_ELSEWHERE.contains(&(&*self.plural, &*self.api_version)),
        }
    }

    /// Whether this version is served.
    pub(crate) fn is_served(&self) -> bool {
        self.custom.as_ref().is_none_or(|custom| custom.served)
    }

    /// Whether the resource supports `verb`.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether there is a status subresource, so that other writes ignore the status.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The storage key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        if self.namespaced {
            Key::namespaced(self.storage.clone(), namespace, name)
        } else {
            Key::cluster(self.storage.clone(), name)
        }
    }

    /// The storage scope of a namespace. An empty namespace means all of them.
    pub(crate) fn scope(&self, namespace: &str) -> KeyRange {
        match namespace {
            "" => KeyRange::resource(self.storage.clone()),
            namespace => KeyRange::namespace(self.storage.clone(), namespace),
        }
    }
}

/// An empty object, as Go encodes it.
fn empty(entry: Option<&TypeEntry>, api_version: &str, kind: &str) -> Value {
    let mut json = Vec::new();
    match entry {
        Some(entry) => Writer::new(&mut json).as_server().object(&*(entry.new)()),
        None => {
            write_head(api_version, kind, &mut json);
            json.push(b'}');
        }
    }
    Value::from_json(&json).unwrap_or_else(|_| Value::Object(Map::new()))
}
