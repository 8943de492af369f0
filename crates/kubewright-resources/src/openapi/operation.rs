//! OpenAPI operations.

use kubewright_core::{GroupVersionKind, Map, Str, Value, tree};
use kubewright_schema::openapi::{META_PACKAGE as META, kind_extension, reference};

use super::parameters::parameter;

/// The response formats and patch types of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavor {
    /// All formats, including strategic merge patches.
    BuiltIn,
    /// JSON and YAML, without strategic merge patches.
    Custom,
}

/// An HTTP method on a path.
#[derive(Debug, Clone)]
pub(super) struct PathOperation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    /// The `x-kubernetes-action` and its kind. `None` for discovery.
    pub(super) action: Option<(&'static str, GroupVersionKind)>,
    /// Names of all path and query parameters.
    pub(super) parameters: Vec<&'static str>,
    pub(super) body: Option<BodySchema>,
    /// The success codes, and the schema of the response. `None` means plain text.
    pub(super) success: &'static [&'static str],
    pub(super) answer: Option<String>,
    pub(super) streams: bool,
    pub(super) flavor: Flavor,
}

/// The request body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BodySchema {
    /// An object of this schema.
    Object(String),
    /// Delete options. The body is optional.
    DeleteOptions,
    /// A patch of any type.
    Patch,
}

impl PathOperation {
    /// The operation without the parameters in `common`, which its path item lists.
    pub(super) fn to_value(&self, tag: &str, common: &[&str]) -> Value {
        let mut operation = tree::map([
            ("tags", tree::list([tag])),
            ("description", self.description.as_str().into()),
            ("operationId", self.id.as_str().into()),
            ("responses", self.responses()),
        ]);
        let own = self.parameters.iter().copied().filter(|name| !common.contains(name));
        let own: Vec<Value> = own.map(parameter).collect();
        if !own.is_empty() {
            tree::set(&mut operation, &["parameters"], own);
        }
        if let Some(body) = &self.body {
            tree::set(&mut operation, &["requestBody"], self.request_body(body));
        }
        if let Some((action, kind)) = &self.action {
            tree::set(&mut operation, &["x-kubernetes-action"], *action);
            tree::set(&mut operation, &["x-kubernetes-group-version-kind"], kind_extension(kind));
        }
        operation
    }

    fn request_body(&self, body: &BodySchema) -> Value {
        let patches = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
        let strategic = (self.flavor == Flavor::BuiltIn).then_some("application/strategic-merge-patch+json");
        match body {
            BodySchema::Object(name) => tree::map([("content", content(["*/*"], name)), ("required", true.into())]),
            BodySchema::DeleteOptions => tree::map([("content", content(["*/*"], &format!("{META}.DeleteOptions")))]),
            BodySchema::Patch => {
                let content = content(patches.into_iter().chain(strategic), &format!("{META}.Patch"));
                tree::map([("content", content), ("required", true.into())])
            }
        }
    }

    fn responses(&self) -> Value {
        let formats: &[&'static str] = match (self.flavor, self.streams) {
            (Flavor::BuiltIn, false) => {
                &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"]
            }
            (Flavor::BuiltIn, true) => &[
                "application/json",
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf",
                "application/vnd.kubernetes.protobuf;stream=watch",
                "application/yaml",
            ],
            (Flavor::Custom, false) => &["application/json", "application/yaml"],
            (Flavor::Custom, true) => &["application/json", "application/json;stream=watch", "application/yaml"],
        };
        let mut responses: Map<Value> = Map::new();
        for code in self.success {
            let content = match &self.answer {
                Some(name) => content(formats.iter().copied(), name),
                None => tree::map([("*/*", tree::map([("schema", tree::map([("type", Value::from("string"))]))]))]),
            };
            let description = match *code {
                "201" => "Created",
                "202" => "Accepted",
                _ => "OK",
            };
            responses.insert(*code, tree::map([("description", Value::from(description)), ("content", content)]));
        }
        responses.insert("401", tree::map([("description", Value::from("Unauthorized"))]));
        responses.into()
    }
}

fn content(formats: impl IntoIterator<Item = &'static str>, schema: &str) -> Value {
    let formats =
        formats.into_iter().map(|format| (Str::from_static(format), tree::map([("schema", reference(schema))])));
    Value::Object(formats.collect())
}

/// A path item with its operations. Common parameters are listed once.
pub(super) fn path_item(operations: &[PathOperation], tag: &str) -> Value {
    let mut common: Vec<&'static str> = operations.first().map(|first| first.parameters.clone()).unwrap_or_default();
    common.retain(|name| operations.iter().all(|operation| operation.parameters.contains(name)));
    common.sort_unstable();
    let mut item: Map<Value> =
        operations.iter().map(|operation| (operation.method, operation.to_value(tag, &common))).collect();
    if !common.is_empty() {
        item.insert("parameters", tree::array(common.into_iter().map(parameter)));
    }
    item.into()
}
