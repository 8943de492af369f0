//! The OpenAPI document of one group version.

use std::collections::BTreeMap;

use kubewright_core::{GroupVersion, GroupVersionKind, Str, Value, tree};
use kubewright_schema::openapi::{list_schema, object_schema, schema_name};

use super::operation::Flavor;
use super::paths::Paths;
use super::{components, paths};
use crate::discovery::Served;

/// Builds the document of a group version.
///
/// ```
/// use kubewright_resources::{discovery::Served, openapi::OpenApiDocument};
/// use kubewright_core::GroupVersion;
/// let mut document = OpenApiDocument::new(GroupVersion::from_static("coordination.k8s.io", "v1"));
/// let resources = kubewright_api::resources();
/// document.add(&Served::from(resources.into_iter().find(|info| info.plural == "leases").unwrap()));
/// let value = document.to_value();
/// let schemas = value.get("components").and_then(|components| components.get("schemas")).unwrap();
/// assert!(schemas.get("io.k8s.api.coordination.v1.LeaseSpec").is_some());
/// ```
#[derive(Debug, Clone)]
pub struct OpenApiDocument {
    version: GroupVersion,
    paths: BTreeMap<Str, Value>,
    schemas: BTreeMap<Str, Value>,
    flavor: Flavor,
}

impl OpenApiDocument {
    /// A document without resources.
    pub fn new(version: GroupVersion) -> Self {
        OpenApiDocument { version, paths: BTreeMap::new(), schemas: BTreeMap::new(), flavor: Flavor::BuiltIn }
    }

    /// The document of a group, which contains its discovery path only.
    pub fn for_group(group: &str) -> Self {
        let mut document = OpenApiDocument::new(GroupVersion::new(group, ""));
        let (path, item) = paths::group_discovery(group);
        document.paths.insert(path.into(), item);
        document
    }

    /// Adds a built-in resource. Unknown kinds are ignored.
    pub fn add(&mut self, served: &Served) {
        let Some(object) = components::type_of(&self.version.with_kind(served.kind.clone())) else { return };
        let list = format!("{}List", object.name);
        self.add_paths(served, object.name, &list);
    }

    /// Adds a custom resource with the schema of its definition, if there is one. Selectable fields
    /// are in the extension `x-kubernetes-selectable-fields`.
    pub fn add_custom(&mut self, served: &Served, list_kind: &str, schema: Option<&Value>) {
        let kind = self.version.with_kind(served.kind.clone());
        let list_kind = self.version.with_kind(list_kind);
        let (object, list) = (schema_name(&kind), schema_name(&list_kind));
        self.schemas.insert(object.clone().into(), object_schema(schema, &kind));
        self.schemas.insert(list.clone().into(), list_schema(&object, &list_kind, schema));
        self.flavor = Flavor::Custom;
        self.add_paths(served, &object, &list);
    }

    fn add_paths(&mut self, served: &Served, object: &str, list: &str) {
        let own = self.version.with_kind(served.kind.clone());
        let schema_of = |kind: &GroupVersionKind| {
            if *kind == own {
                Some(object.to_owned())
            } else {
                components::type_of(kind).map(|info| info.name.to_owned())
            }
        };
        Paths { version: &self.version, served, object, list, schema_of: &schema_of }.add_to(&mut self.paths);
    }

    /// The document as a tree.
    pub fn to_value(&self) -> Value {
        let mut paths = self.paths.clone();
        if !self.version.version.is_empty() {
            let (path, item) = paths::discovery(&self.version, self.flavor);
            paths.insert(path.into(), item);
        }
        let paths = Value::Object(paths.into_iter().collect());
        let mut schemas = self.schemas.clone();
        components::complete(&mut schemas, &paths, &self.version);
        let token = tree::map([
            ("type", Value::from("apiKey")),
            ("in", Value::from("header")),
            ("name", Value::from("authorization")),
        ]);
        tree::map([
            ("openapi", Value::from("3.0.0")),
            ("info", tree::map([("title", Value::from("Kubernetes")), ("version", Value::from("v1.36.0"))])),
            ("paths", paths),
            (
                "components",
                tree::map([
                    ("schemas", Value::Object(schemas.into_iter().collect())),
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
