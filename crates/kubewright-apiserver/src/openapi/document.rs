//! The document of one version of one group.

use kubewright_core::{GroupVersion, GroupVersionKind, Map, Str, Value};

use super::operation::Flavor;
use super::paths::Paths;
use super::{components, custom, names, paths};
use crate::discovery::Served;
use crate::tree::{object, word};

/// A document in the making: add what is served, then take its value.
///
/// ```
/// use kubewright_apiserver::{discovery::Served, openapi::Document};
/// use kubewright_core::GroupVersion;
/// let mut document = Document::new(GroupVersion::from_static("coordination.k8s.io", "v1"));
/// let resources = kubewright_api::resources();
/// document.add(&Served::from(resources.into_iter().find(|info| info.plural == "leases").unwrap()));
/// let value = document.to_value();
/// let schemas = value.get("components").and_then(|components| components.get("schemas")).unwrap();
/// assert!(schemas.get("io.k8s.api.coordination.v1.LeaseSpec").is_some());
/// ```
#[derive(Debug, Clone)]
pub struct Document {
    version: GroupVersion,
    paths: Map<Value>,
    schemas: Map<Value>,
    flavor: Flavor,
}

impl Document {
    /// A document without resources.
    pub fn new(version: GroupVersion) -> Self {
        Document { version, paths: Map::new(), schemas: Map::new(), flavor: Flavor::BuiltIn }
    }

    /// The document of a group, which has only its discovery.
    pub fn of_group(group: &str) -> Self {
        let mut document = Document::new(GroupVersion::new(group, ""));
        let (path, item) = paths::group_discovery(group);
        document.paths.insert(path, item);
        document
    }

    /// Adds a built-in resource. One whose kind is not known is passed over.
    pub fn add(&mut self, served: &Served) {
        let Some(object) = components::type_of(&self.version.with_kind(served.kind.clone())) else { return };
        let list = format!("{}List", object.name);
        self.add_paths(served, object.name, &list);
    }

    /// Adds a custom resource with the schema from its definition, if it has one. The fields by which objects can be
    /// selected are in its extension `x-kubernetes-selectable-fields`.
    pub fn add_custom(&mut self, served: &Served, list_kind: &str, schema: Option<&Value>) {
        let kind = self.version.with_kind(served.kind.clone());
        let list_kind = self.version.with_kind(list_kind);
        let (object, list) = (names::custom(&kind), names::custom(&list_kind));
        self.schemas.insert(object.clone(), custom::of_object(schema, &kind));
        self.schemas.insert(list.clone(), custom::of_list(&object, &list_kind, schema));
        self.flavor = Flavor::Custom;
        self.add_paths(served, &object, &list);
    }

    fn add_paths(&mut self, served: &Served, object: &str, list: &str) {
        let own = self.version.with_kind(served.kind.clone());
        let schema_of = |kind: &GroupVersionKind| match *kind == own {
            true => Some(object.to_owned()),
            false => components::type_of(kind).map(|info| info.name.to_owned()),
        };
        Paths { version: &self.version, served, object, list, schema_of: &schema_of }.add_to(&mut self.paths);
    }

    /// The whole document.
    pub fn to_value(&self) -> Value {
        let mut paths = self.paths.clone();
        if !self.version.version.is_empty() {
            let (path, item) = paths::discovery(&self.version, self.flavor);
            paths.insert(path, item);
        }
        let paths = Value::Object(paths);
        let mut schemas = self.schemas.clone();
        components::complete(&mut schemas, &paths, &self.version);
        let token = object([("type", word("apiKey")), ("in", word("header")), ("name", word("authorization"))]);
        object([
            ("openapi", word("3.0.0")),
            ("info", object([("title", word("Kubernetes")), ("version", word("v1.36.0"))])),
            ("paths", paths),
            (
                "components",
                object([
                    ("schemas", schemas.into()),
                    ("securitySchemes", Value::Object([(Str::from_static("BearerToken"), token)].into())),
                ]),
            ),
        ])
    }

    /// The document as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.to_value().encode_json(&mut kubewright_core::json::Writer::new(&mut bytes));
        bytes
    }
}
