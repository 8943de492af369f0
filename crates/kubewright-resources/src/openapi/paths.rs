//! The paths and operations of a resource.

use std::collections::BTreeMap;

use kubewright_core::{GroupVersion, GroupVersionKind, Str, Value};
use kubewright_schema::openapi::META_PACKAGE as META;

use super::names::{capital, capitalized, tag};
use super::operation::{BodySchema, Flavor, PathOperation, path_item};
use super::parameters::{DELETE, DELETE_COLLECTION, GET, LIST, PATCH, WRITE};
use crate::discovery::{Served, ServedSubresource};

/// Builds the paths of a resource.
pub(super) struct Paths<'d> {
    pub(super) version: &'d GroupVersion,
    pub(super) served: &'d Served,
    /// The schema names of an object and of a list.
    pub(super) object: &'d str,
    pub(super) list: &'d str,
    /// The schema name of a subresource kind, if it is known.
    pub(super) schema_of: &'d dyn Fn(&GroupVersionKind) -> Option<String>,
}

/// The discovery path of a version, with which its document starts.
pub(super) fn discovery(version: &GroupVersion, flavor: Flavor) -> (String, Value) {
    let id = format!("get{}APIResources", capitalized(version));
    let operation = discover(id, "Lists the resources of the version.", "APIResourceList", flavor);
    (format!("{}/", version.api_path()), path_item(&[operation], &tag(version)))
}

/// The discovery path of a group.
pub(super) fn group_discovery(group: &str) -> (String, Value) {
    let version = GroupVersion::new(group, "");
    let id = format!("get{}APIGroup", capitalized(&version));
    let operation = discover(id, "Lists the versions of the group.", "APIGroup", Flavor::BuiltIn);
    (format!("/apis/{group}/"), path_item(&[operation], tag(&version).trim_end_matches('_')))
}

fn discover(id: String, description: &str, answer: &str, flavor: Flavor) -> PathOperation {
    PathOperation {
        method: "get",
        id,
        description: description.to_owned(),
        action: None,
        parameters: Vec::new(),
        body: None,
        success: &["200"],
        answer: Some(format!("{META}.{answer}")),
        streams: false,
        flavor,
    }
}

impl Paths<'_> {
    /// Adds all paths of the resource.
    pub(super) fn add_to(&self, paths: &mut BTreeMap<Str, Value>) {
        let base = self.version.api_path();
        let plural = &self.served.plural;
        let within = if self.served.namespaced { "/namespaces/{namespace}" } else { "" };
        if self.served.namespaced && self.has("list") {
            self.add(paths, format!("{base}/{plural}"), vec![self.list("list", "ForAllNamespaces", "list", &[])]);
        }
        self.add(paths, format!("{base}{within}/{plural}"), self.on_collection());
        self.add(paths, format!("{base}{within}/{plural}/{{name}}"), self.on_object());
        for subresource in &self.served.subresources {
            let path = format!("{base}{within}/{plural}/{{name}}/{}", subresource.name);
            self.add(paths, path, self.on_subresource(subresource));
        }
        if self.has("watch") && !self.served.custom {
            if self.served.namespaced {
                let watch = self.list("watch", "ListForAllNamespaces", "watchlist", &[]);
                self.add(paths, format!("{base}/watch/{plural}"), vec![watch]);
            }
            let collection = self.list("watch", "List", "watchlist", self.place());
            self.add(paths, format!("{base}/watch{within}/{plural}"), vec![collection]);
            let named = [&["name"], self.place()].concat();
            let object = self.list("watch", "", "watch", &named);
            self.add(paths, format!("{base}/watch{within}/{plural}/{{name}}"), vec![object]);
        }
    }

    fn add(&self, paths: &mut BTreeMap<Str, Value>, path: String, operations: Vec<PathOperation>) {
        if !operations.is_empty() {
            paths.insert(path.into(), path_item(&operations, &tag(self.version)));
        }
    }

    fn on_collection(&self) -> Vec<PathOperation> {
        let mut operations = Vec::new();
        if self.has("list") {
            operations.push(self.list("list", "", "list", self.place()));
        }
        if self.has("create") {
            operations.push(PathOperation {
                body: Some(BodySchema::Object(self.object.to_owned())),
                success: &["200", "201", "202"],
                ..self.operation("post", "create", "", "post", &[self.place(), WRITE].concat())
            });
        }
        if self.has("deletecollection") {
            let parameters = [self.place(), DELETE_COLLECTION].concat();
            operations.push(PathOperation {
                id: format!("delete{}Collection{}{}", capitalized(self.version), self.scope(), self.served.kind),
                description: format!("Deletes all selected objects of the kind {}.", self.served.kind),
                body: Some(BodySchema::DeleteOptions),
                answer: Some(format!("{META}.Status")),
                ..self.operation("delete", "", "", "deletecollection", &parameters)
            });
        }
        operations
    }

    fn on_object(&self) -> Vec<PathOperation> {
        let place = [&["name"], self.place()].concat();
        let mut operations = Vec::new();
        if self.has("get") {
            operations.push(self.operation("get", "read", "", "get", &[&place, GET].concat()));
        }
        if self.has("update") {
            operations.push(PathOperation {
                body: Some(BodySchema::Object(self.object.to_owned())),
                success: &["200", "201"],
                ..self.operation("put", "replace", "", "put", &[&place, WRITE].concat())
            });
        }
        if self.has("delete") {
            operations.push(PathOperation {
                body: Some(BodySchema::DeleteOptions),
                success: &["200", "202"],
                answer: Some(format!("{META}.Status")),
                ..self.operation("delete", "delete", "", "delete", &[&place, DELETE].concat())
            });
        }
        if self.has("patch") {
            operations.push(PathOperation {
                body: Some(BodySchema::Patch),
                success: &["200", "201"],
                ..self.operation("patch", "patch", "", "patch", &[&place, PATCH].concat())
            });
        }
        operations
    }

    fn on_subresource(&self, subresource: &ServedSubresource) -> Vec<PathOperation> {
        let place = [&["name"], self.place()].concat();
        let suffix = capital(&subresource.name);
        // Connect subresources have no object schema; their kinds are those of their options.
        let connects = subresource.kind.kind.ends_with("Options");
        let schema = (self.schema_of)(&subresource.kind).filter(|_| subresource.name != "log");
        let operations = subresource.verbs.iter().filter_map(|verb| {
            let (method, word, action, parameters) = match verb.as_str() {
                "get" => ("get", "read", "get", GET),
                "create" => ("post", "create", "post", WRITE),
                "update" => ("put", "replace", "put", WRITE),
                "patch" => ("patch", "patch", "patch", PATCH),
                "delete" => ("delete", "delete", "delete", GET),
                _ => return None,
            };
            let parameters = if connects { GET } else { parameters };
            let mut operation = self.operation(method, word, &suffix, action, &[&place, parameters].concat());
            operation.action = Some((if connects { "connect" } else { action }, subresource.kind.clone()));
            operation.description = self.description_of(subresource, connects, method);
            if connects {
                operation.id = format!(
                    "connect{}{}{}{}{suffix}",
                    capitalized(self.version),
                    capital(method),
                    self.scope(),
                    self.served.kind
                );
            }
            operation.answer = schema.clone();
            operation.success = match method {
                "post" if !connects => &["200", "201", "202"],
                "put" | "patch" if !connects => &["200", "201"],
                _ => &["200"],
            };
            operation.body = match (method, &schema) {
                ("patch", Some(_)) => Some(BodySchema::Patch),
                ("post" | "put", Some(schema)) => Some(BodySchema::Object(schema.clone())),
                _ => None,
            };
            Some(operation)
        });
        operations.collect()
    }

    /// A list or watch operation. `suffix` follows the kind in its name.
    fn list(&self, word: &str, suffix: &str, action: &'static str, place: &[&'static str]) -> PathOperation {
        let watches = word == "watch";
        let scope = if suffix.ends_with("ForAllNamespaces") { "" } else { self.scope() };
        let answer = if watches { format!("{META}.WatchEvent") } else { self.list.to_owned() };
        PathOperation {
            id: format!("{word}{}{scope}{}{suffix}", capitalized(self.version), self.served.kind),
            description: self.description_of_list(watches, place),
            answer: Some(answer),
            streams: true,
            ..self.operation("get", word, suffix, action, &[place, LIST].concat())
        }
    }

    fn operation(
        &self,
        method: &'static str,
        word: &str,
        suffix: &str,
        action: &'static str,
        parameters: &[&'static str],
    ) -> PathOperation {
        PathOperation {
            method,
            id: format!("{word}{}{}{}{suffix}", capitalized(self.version), self.scope(), self.served.kind),
            description: self.description(method),
            action: Some((action, self.version.with_kind(self.served.kind.clone()))),
            parameters: parameters.to_vec(),
            body: None,
            success: &["200"],
            answer: Some(self.object.to_owned()),
            streams: false,
            flavor: if self.served.custom { Flavor::Custom } else { Flavor::BuiltIn },
        }
    }

    /// The description of a method of an object.
    fn description(&self, method: &str) -> String {
        let kind = &self.served.kind;
        match method {
            "post" => format!("Creates an object of the kind {kind}."),
            "put" => format!("Replaces an object of the kind {kind}."),
            "patch" => format!("Changes parts of an object of the kind {kind}."),
            "delete" => format!("Deletes an object of the kind {kind}."),
            _ => format!("Reads an object of the kind {kind}."),
        }
    }

    /// The description of a method of a subresource.
    fn description_of(&self, subresource: &ServedSubresource, connects: bool, method: &str) -> String {
        let (kind, name) = (&self.served.kind, &subresource.name);
        if connects {
            return format!("Connects {} requests to {name} of an object of the kind {kind}.", method.to_uppercase());
        }
        let verb = match method {
            "post" => "Creates",
            "put" => "Replaces",
            "patch" => "Changes parts of",
            "delete" => "Deletes",
            _ => "Reads",
        };
        format!("{verb} the subresource {name} of an object of the kind {kind}.")
    }

    fn description_of_list(&self, watches: bool, place: &[&str]) -> String {
        let kind = &self.served.kind;
        if !watches {
            return format!("Lists objects of the kind {kind}, or watches them.");
        }
        let objects = if place.contains(&"name") { "an object" } else { "objects" };
        format!("Deprecated: use a list with the parameter watch. Watches {objects} of the kind {kind}.")
    }

    fn has(&self, verb: &str) -> bool {
        self.served.verbs.iter().any(|have| have == verb)
    }

    fn scope(&self) -> &'static str {
        if self.served.namespaced { "Namespaced" } else { "" }
    }

    /// The path parameters of a collection.
    fn place(&self) -> &'static [&'static str] {
        if self.served.namespaced { &["namespace"] } else { &[] }
    }
}
