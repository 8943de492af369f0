//! A resource in one version: its names, its type and its verbs.

use std::fmt;
use std::sync::Arc;

use kubewright_core::json::Writer;
use kubewright_core::message::TypeEntry;
use kubewright_core::{GroupKind, GroupResource, GroupVersionKind, Map, ResourceInfo, Str, Value, tree};
use kubewright_schema::Schema;
use tokio::sync::watch;

use super::converter::ConversionWebhook;
use super::type_entry;
use crate::discovery::Served;
use kubewright_printers::Printer;
use kubewright_storage::{Key, KeyRange};

/// Resources whose served version is not their storage version.
const STORED_ELSEWHERE: [(&str, &str); 2] =
    [("events", "events.k8s.io/v1"), ("horizontalpodautoscalers", "autoscaling/v1")];

/// A resource in one served version.
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: Str,
    /// The version.
    pub version: Str,
    /// Group and version as in `apiVersion`.
    pub api_version: Str,
    /// The kind of objects.
    pub kind: Str,
    /// The kind of lists.
    pub list_kind: Str,
    /// The plural name, as in URLs.
    pub plural: Str,
    /// The singular name.
    pub singular: Str,
    /// Abbreviations for command lines.
    pub short_names: Vec<Str>,
    /// Categories, such as `all`.
    pub categories: Vec<Str>,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
    /// The supported verbs.
    pub verbs: &'static [&'static str],
    /// The subresources.
    pub subresources: Vec<Subresource>,
    /// The storage name, which is the same in all versions.
    pub storage: Str,
    /// The description of a built-in resource.
    pub info: Option<&'static ResourceInfo>,
    /// The type of a built-in resource's objects.
    pub entry: Option<&'static TypeEntry>,
    /// An empty object.
    pub empty: Value,
    /// Prints objects as table rows.
    pub printer: Printer,
    /// Set for custom resources.
    pub custom: Option<Arc<Custom>>,
}

/// A subresource.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// The name, such as `status`.
    pub name: Str,
    /// Group and version of its objects, as in `apiVersion`.
    pub api_version: Str,
    /// The kind of objects.
    pub kind: Str,
    /// The supported verbs.
    pub verbs: &'static [&'static str],
}

/// The additional properties of a custom resource.
#[derive(Debug, Clone, Default)]
pub struct Custom {
    /// Whether the definition is being deleted together with its objects.
    pub terminating: bool,
    /// Closed when the definition is deleted or its spec changes. Watches then end, so that clients
    /// list again.
    pub lifetime: Option<watch::Receiver<()>>,
    /// Whether this version is served.
    pub served: bool,
    /// Whether this is the storage version.
    pub stored: bool,
    /// The JSON paths of the scale subresource: spec, status and selector.
    pub scale: Option<[Str; 3]>,
    /// The paths of the selectable fields.
    pub selectable: Vec<Str>,
    /// The schema of this version.
    pub schema: Arc<Schema>,
    /// The storage version, in the form of `apiVersion`.
    pub storage_version: Str,
    /// All versions of the definition, in the form of `apiVersion`.
    pub versions: Arc<[Str]>,
    /// The schema of the storage version.
    pub storage_schema: Arc<Schema>,
    /// The conversion webhook, if the definition has one.
    pub converter: Option<Arc<ConversionWebhook>>,
    /// This version's entry in the definition.
    pub version: Value,
    /// The deprecation warning of this version.
    pub deprecation: Option<Str>,
}

impl Custom {
    /// A stored object in this version. `None` if only its `apiVersion` differs.
    pub fn view(&self, object: &Value) -> Option<Value> {
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
    pub fn built_in(info: &'static ResourceInfo) -> Self {
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
    pub fn to_discovered(&self) -> Served {
        let mut served = self.to_served();
        if self.custom.as_ref().is_some_and(|custom| custom.terminating) {
            served.verbs.retain(|verb| !matches!(verb.as_str(), "patch" | "create" | "update"));
        }
        served
    }

    /// The resource for discovery, without regard to deletion.
    pub fn to_served(&self) -> Served {
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
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Group and kind, as in messages about invalid objects.
    pub fn group_kind(&self) -> GroupKind {
        // Events of both groups are validated as core events.
        let group = if self.is("events.k8s.io", "events") { Str::new() } else { self.group.clone() };
        GroupKind::new(group, self.kind.clone())
    }

    /// Whether this is a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Whether a webhook converts its objects between versions.
    pub fn needs_webhook(&self) -> bool {
        self.custom.as_ref().is_some_and(|custom| custom.converter.is_some())
    }

    /// Whether its objects can be written in a version.
    pub fn has_version(&self, api_version: &str) -> bool {
        match &self.custom {
            Some(custom) => custom.versions.iter().any(|version| version == api_version),
            None => type_entry(api_version, &self.kind).is_some(),
        }
    }

    /// Whether this is the built-in resource with this group and plural.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group && !self.is_custom()
    }

    /// Whether objects are stored. Others, such as reviews, are only answered.
    pub fn is_stored(&self) -> bool {
        self.has_verb("get") && !self.is("", "componentstatuses")
    }

    /// Whether this is the storage version.
    pub fn is_stored_version(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.stored,
            None => self.is_stored() && !STORED_ELSEWHERE.contains(&(&*self.plural, &*self.api_version)),
        }
    }

    /// Whether this version is served.
    pub fn is_served(&self) -> bool {
        self.custom.as_ref().is_none_or(|custom| custom.served)
    }

    /// Whether the resource supports `verb`.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether there is a status subresource, so that other writes ignore the status.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The storage key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        if self.namespaced {
            Key::namespaced(self.storage.clone(), namespace, name)
        } else {
            Key::cluster(self.storage.clone(), name)
        }
    }

    /// The storage scope of a namespace. An empty namespace means all of them.
    pub fn scope(&self, namespace: &str) -> KeyRange {
        match namespace {
            "" => KeyRange::resource(self.storage.clone()),
            namespace => KeyRange::namespace(self.storage.clone(), namespace),
        }
    }
}

/// An empty object, as Go encodes it.
fn empty(entry: Option<&TypeEntry>, api_version: &'static str, kind: &'static str) -> Value {
    let Some(entry) = entry else {
        return tree::map([("kind", kind.into()), ("apiVersion", api_version.into())]);
    };
    let mut json = Vec::new();
    Writer::new(&mut json).as_server().object(&*(entry.new)());
    Value::from_json(&json).unwrap_or_else(|_| Value::Object(Map::new()))
}
