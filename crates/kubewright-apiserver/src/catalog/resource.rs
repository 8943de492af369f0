//! One resource in one version: its names, its type, and what can be done with it.

use std::fmt;
use std::sync::Arc;

use kubewright_core::json::Writer;
use kubewright_core::scheme::TypeEntry;
use kubewright_core::{GroupKind, GroupResource, GroupVersionKind, Map, ResourceInfo, Str, Value};
use tokio::sync::watch;

use super::type_entry;
use crate::conversion::webhook::Converter;
use crate::discovery::Served;
use crate::object::write_head;
use crate::schema::Schema;
use crate::storage::{Key, Scope};
use crate::table::Printer;

/// Versions whose objects are stored in another one.
const STORED_ELSEWHERE: [(&str, &str); 2] =
    [("events", "events.k8s.io/v1"), ("horizontalpodautoscalers", "autoscaling/v1")];

/// A resource as it is served in one version.
pub(crate) struct Resource {
    pub(crate) group: Str,
    pub(crate) version: Str,
    /// Group and version as objects name them.
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
    /// The name under which the store knows its objects, the same for all versions.
    pub(crate) storage: Str,
    /// The description of a built-in resource.
    pub(crate) info: Option<&'static ResourceInfo>,
    /// The type of its objects, where it is built in.
    pub(crate) entry: Option<&'static TypeEntry>,
    /// What an object without content looks like.
    pub(crate) empty: Value,
    /// How its objects become rows of a table.
    pub(crate) printer: Printer,
    /// What only resources of a CustomResourceDefinition have.
    pub(crate) custom: Option<Arc<Custom>>,
}

/// A part of an object with a path of its own.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: Str,
    pub(crate) api_version: Str,
    pub(crate) kind: Str,
    pub(crate) verbs: &'static [&'static str],
}

/// What a CustomResourceDefinition says beyond names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custom {
    /// Whether the definition is being deleted, and its objects with it.
    pub(crate) terminating: bool,
    /// Has no sender any more when the definition is gone or says something else: then watches end, so that clients look again.
    pub(crate) lifetime: Option<watch::Receiver<()>>,
    /// Whether this version can be asked for.
    pub(crate) served: bool,
    /// Whether objects are stored in this version.
    pub(crate) stored: bool,
    /// Where replicas and their selector are, as paths with a leading dot: spec, status, selector.
    pub(crate) scale: Option<[Str; 3]>,
    /// Paths that field selectors may name.
    pub(crate) selectable: Vec<Str>,
    /// What its objects look like in this version.
    pub(crate) schema: Arc<Schema>,
    /// The version that objects are stored in, as they name it.
    pub(crate) storage_version: Str,
    /// All versions of the definition, as objects name them.
    pub(crate) versions: Arc<[Str]>,
    /// What they look like there.
    pub(crate) storage_schema: Arc<Schema>,
    /// Who converts objects between versions, unless only their `apiVersion` changes.
    pub(crate) converter: Option<Arc<Converter>>,
    /// The version's part of the definition, for what else it says.
    pub(crate) version: Value,
    /// What whoever uses this version is warned of.
    pub(crate) deprecation: Option<Str>,
}

impl Custom {
    /// What a stored object looks like in this version; `None` if it looks the same, but for its `apiVersion`.
    pub(crate) fn view(&self, object: &Value) -> Option<Value> {
        if self.stored {
            return self.schema.view(object);
        }
        // Whoever converts it has been given its defaults.
        let is_stored = object.get("apiVersion").and_then(Value::as_str) == Some(&self.storage_version);
        let stored = if is_stored { self.storage_schema.view(object) } else { None };
        self.schema.pruned_view(stored.as_ref().unwrap_or(object)).or(stored)
    }
}

impl fmt::Debug for Resource {
    /// Its names; the rest is more than anybody would read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.plural)
    }
}

impl Resource {
    /// A resource of the table.
    pub(crate) fn built_in(info: &'static ResourceInfo) -> Self {
        let entry = type_entry(info.kind.api_version, info.kind.kind);
        let subresources = info.subresources.iter().map(|subresource| Subresource {
            name: Str::from_static(subresource.name),
            api_version: Str::from_static(subresource.kind.api_version),
            kind: Str::from_static(subresource.kind.kind),
            verbs: subresource.verbs,
        });
        // Events of both groups are the same objects.
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

    /// The resource as discovery describes it. One whose definition goes can only be emptied.
    pub(crate) fn to_discovered(&self) -> Served {
        let mut served = self.to_served();
        if self.custom.as_ref().is_some_and(|custom| custom.terminating) {
            served.verbs.retain(|verb| !matches!(verb.as_str(), "patch" | "create" | "update"));
        }
        served
    }

    /// The resource as it is served as a rule.
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

    /// Group and resource, as messages name it.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    /// Group and kind, as messages about invalid objects name it.
    pub(crate) fn group_kind(&self) -> GroupKind {
        // Events of both groups are checked as those of the core group.
        let group = if self.is("events.k8s.io", "events") { Str::new() } else { self.group.clone() };
        GroupKind::new(group, self.kind.clone())
    }

    /// Whether a CustomResourceDefinition made it.
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

    /// Whether this is the built-in resource of this group and name.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.plural == plural && self.group == group && !self.is_custom()
    }

    /// Whether objects are kept at all; the others are answered and forgotten.
    pub(crate) fn is_stored(&self) -> bool {
        self.has_verb("get") && !self.is("", "componentstatuses")
    }

    /// Whether objects are stored in this version.
    pub(crate) fn is_stored_version(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.stored,
            None => self.is_stored() && !STORED_ELSEWHERE.contains(&(&*self.plural, &*self.api_version)),
        }
    }

    /// Whether this version can be asked for.
    pub(crate) fn is_served(&self) -> bool {
        self.custom.as_ref().is_none_or(|custom| custom.served)
    }

    /// Whether `verb` can be done with it.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether the status has a path of its own, so that other writes leave it alone.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Where an object lies in the store.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        match self.namespaced {
            true => Key::namespaced(self.storage.clone(), namespace, name),
            false => Key::cluster(self.storage.clone(), name),
        }
    }

    /// Where the objects of a namespace lie in the store, or all for an empty one.
    pub(crate) fn scope(&self, namespace: &str) -> Scope {
        match namespace {
            "" => Scope::resource(self.storage.clone()),
            namespace => Scope::namespace(self.storage.clone(), namespace),
        }
    }
}

/// An object without content, as Go writes it.
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
