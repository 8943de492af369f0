//! Writes the types of a resource as Rust.

use std::fmt::Write as _;

use kubewright_core::Value;

use super::idents;
use super::shape::{Field, Item, ItemBody, Items, Shape, doc};
use crate::project::struct_of;

/// The first lines of a file.
pub const HEAD: &str = "\
// Written by `kubewright types`.
#![allow(dead_code, clippy::all, rustdoc::all)]

";

const IMPORTS: &str = "\
use std::collections::BTreeMap;

use kubewright::IntOrString;
use kubewright::runtime::custom::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

";

/// Names that items of the module cannot have.
const IMPORTED: [&str; 6] = ["BTreeMap", "IntOrString", "CustomResource", "JsonSchema", "Deserialize", "Serialize"];

/// The name of the field that preserves unknown ones.
const OTHER_FIELDS: &str = "other_fields";

/// A version of a definition.
#[derive(Debug)]
pub struct ResourceVersion<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    /// The names of the definition.
    pub names: Option<&'a Value>,
    pub is_namespaced: bool,
    pub schema: Option<&'a Value>,
}

/// The types of a version, without the head of the file.
pub fn render(resource: &ResourceVersion<'_>) -> String {
    let type_name = struct_of(resource.kind);
    let mut items = Items::new(IMPORTED.map(str::to_owned).into_iter().chain([type_name.clone()]));
    let empty = Value::Object(kubewright_core::Map::new());
    let schema = resource.schema.unwrap_or(&empty);
    let root = main_item(schema, &type_name, &mut items);
    let mut code = String::new();
    for (index, item) in items.all().iter().enumerate() {
        let attribute = (index == root.index).then(|| attribute(resource, &type_name, &root, &items));
        code += &self::item(item, attribute.as_deref(), &items);
    }
    imports(&code) + &code
}

/// The struct that derives the resource.
struct MainItem {
    index: usize,
    status: Option<usize>,
    is_flat: bool,
}

fn main_item(schema: &Value, type_name: &str, items: &mut Items) -> MainItem {
    let properties = schema.get("properties").and_then(Value::as_object);
    let property = |name: &str| properties.and_then(|properties| properties.get(name));
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let has_others = properties.is_some_and(|all| all.iter().any(|(name, _)| !known.contains(&name.as_str())));
    let is_open = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(true);
    let is_struct = |shape: &Shape, items: &Items| match shape {
        Shape::Named(index) => matches!(items.all()[*index].body, ItemBody::Struct { .. }),
        _ => false,
    };
    if let (Some(spec), false, false) = (property("spec"), has_others, is_open)
        && spec.get("properties").is_some()
        && spec.get("nullable").and_then(Value::as_bool) != Some(true)
    {
        let body = items.body(spec, &format!("{type_name}Spec"), &[]);
        let index = items.add(&format!("{type_name}Spec"), doc(spec), body);
        let status = property("status").map(|status| items.shape(status, &format!("{type_name}Status")));
        let status = match status {
            None => Some(None),
            Some(Shape::Nullable(shape)) if is_struct(&shape, items) => Some(Some(*shape)),
            Some(shape) if is_struct(&shape, items) => Some(Some(shape)),
            Some(_) => None,
        };
        if let Some(status) = status {
            let status = status.and_then(|shape| if let Shape::Named(index) = shape { Some(index) } else { None });
            return MainItem { index, status, is_flat: false };
        }
    }
    let name = format!("{type_name}Fields");
    let mut body = items.body(schema, &name, &["apiVersion", "kind", "metadata"]);
    if schema.get("properties").is_none()
        && let ItemBody::Struct { has_other_fields, .. } = &mut body
    {
        *has_other_fields = true;
    }
    MainItem { index: items.add(&name, doc(schema), body), status: None, is_flat: true }
}

/// The imports that the code uses.
fn imports(code: &str) -> String {
    let is_used = |line: &str| {
        let name = line.trim_end_matches(';').rsplit("::").next().unwrap_or_default();
        name.starts_with('{') || name.is_empty() || code.contains(name)
    };
    let lines: Vec<&str> = IMPORTS.lines().filter(|line| is_used(line)).collect();
    lines.join("\n").trim_start().to_owned() + "\n\n"
}

/// `#[resource(…)]`.
fn attribute(resource: &ResourceVersion<'_>, type_name: &str, main: &MainItem, items: &Items) -> String {
    let mut parts = vec![
        format!("group = {:?}", resource.group),
        format!("version = {:?}", resource.version),
        format!("kind = {:?}", resource.kind),
    ];
    if type_name != resource.kind {
        parts.push(format!("struct = {type_name:?}"));
    }
    let name = |field: &str| resource.names.and_then(|names| names.get(field)).and_then(Value::as_str);
    for (attribute, field) in [("plural", "plural"), ("singular", "singular"), ("list_kind", "listKind")] {
        if let Some(name) = name(field).filter(|name| !name.is_empty()) {
            parts.push(format!("{attribute} = {name:?}"));
        }
    }
    if resource.is_namespaced {
        parts.push("namespaced".to_owned());
    }
    if main.is_flat {
        parts.push("flat".to_owned());
    }
    if let Some(status) = main.status {
        parts.push(format!("status = {}", items.all()[status].name));
    }
    for (attribute, field) in [("short_names", "shortNames"), ("categories", "categories")] {
        let names = resource.names.and_then(|names| names.get(field)).and_then(Value::as_array);
        let names: Vec<String> =
            names.into_iter().flatten().filter_map(Value::as_str).map(|name| format!("{name:?}")).collect();
        if !names.is_empty() {
            parts.push(format!("{attribute}({})", names.join(", ")));
        }
    }
    parts.push("derive(PartialEq)".to_owned());
    format!("#[resource({})]\n", parts.join(", "))
}

fn item(item: &Item, attribute: Option<&str>, items: &Items) -> String {
    let mut code = docs(&item.doc, "");
    match &item.body {
        ItemBody::Enum { values } => {
            code += "#[derive(Serialize, Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]\n";
            let _ = writeln!(code, "pub enum {} {{", item.name);
            let mut variants: Vec<String> = Vec::new();
            for value in values {
                let variant = idents::free(idents::variant(value), |name| variants.iter().any(|other| other == name));
                if variant != *value {
                    let _ = writeln!(code, "    #[serde(rename = {value:?})]");
                }
                let _ = writeln!(code, "    {variant},");
                variants.push(variant);
            }
        }
        ItemBody::Struct { fields, has_other_fields } => {
            let has_default = fields.iter().all(|field| !field.is_required || items.has_default(&field.shape));
            let resource = if attribute.is_some() { "CustomResource, " } else { "" };
            let default = if has_default { ", Default" } else { "" };
            let _ = writeln!(
                code,
                "#[derive({resource}Serialize, Deserialize, JsonSchema, Debug, Clone, PartialEq{default})]"
            );
            code += attribute.unwrap_or_default();
            code += "#[serde(rename_all = \"camelCase\")]\n";
            let _ = writeln!(code, "pub struct {} {{", item.name);
            fields.iter().for_each(|one| code += &field(one, items));
            if *has_other_fields {
                let taken = |name: &str| fields.iter().any(|field| field.name == name);
                code += "    /// Fields that the schema does not describe.\n    #[serde(flatten)]\n";
                let name = idents::free(OTHER_FIELDS.to_owned(), taken);
                let _ = writeln!(code, "    pub {name}: BTreeMap<String, serde_json::Value>,");
            }
        }
    }
    code + "}\n\n"
}

fn field(field: &Field, items: &Items) -> String {
    let mut code = docs(&field.doc, "    ");
    let is_nullable = matches!(field.shape, Shape::Nullable(_));
    let mut attributes = Vec::new();
    if idents::camel_case(&field.name) != field.json_name {
        attributes.push(format!("rename = {:?}", field.json_name));
    }
    let mut type_name = type_of(&field.shape, items);
    if !field.is_required {
        if !is_nullable {
            type_name = format!("Option<{type_name}>");
        }
        attributes.push("default".to_owned());
        attributes.push("skip_serializing_if = \"Option::is_none\"".to_owned());
    }
    if !attributes.is_empty() {
        let _ = writeln!(code, "    #[serde({})]", attributes.join(", "));
    }
    let _ = writeln!(code, "    pub {}: {type_name},", idents::written(&field.name));
    code
}

fn type_of(shape: &Shape, items: &Items) -> String {
    match shape {
        Shape::Boolean => "bool".to_owned(),
        Shape::Integer { bits } => format!("i{bits}"),
        Shape::Number => "f64".to_owned(),
        Shape::Text => "String".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::Any => "serde_json::Value".to_owned(),
        Shape::List(item) => format!("Vec<{}>", type_of(item, items)),
        Shape::Map(value) => format!("BTreeMap<String, {}>", type_of(value, items)),
        Shape::Nullable(shape) => format!("Option<{}>", type_of(shape, items)),
        Shape::Named(index) => items.all()[*index].name.clone(),
    }
}

/// A description as comments. Indented lines and fences would be code that rustdoc tests.
fn docs(text: &str, indent: &str) -> String {
    let lines: Vec<String> =
        text.trim().lines().map(|line| line.trim().replace("```", "'''").replace('\r', " ")).collect();
    let comment =
        |line: &String| if line.is_empty() { format!("{indent}///\n") } else { format!("{indent}/// {line}\n") };
    lines.iter().map(comment).collect()
}
