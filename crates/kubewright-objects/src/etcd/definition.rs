//! Definitions as kube-apiserver stores them: in version v1beta1, which nobody serves any more.
//!
//! There, what all versions have in common is a field of the spec, columns have a `JSONPath`, and
//! the webhook of a conversion is not nested.

use kubewright_core::json::find_field;
use kubewright_core::{List, Value};

use crate::object::tree;

/// The stored version.
const STORED: &str = "apiextensions.k8s.io/v1beta1";
/// The served version.
const SERVED: &str = "apiextensions.k8s.io/v1";

/// Fields that v1beta1 has once for all versions if they are equal: the name in a version, and the
/// name in the spec.
const COMMON: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The stored form of a definition, from its served form with the fields in Go's order.
pub(super) fn stored(json: &str) -> Option<String> {
    let part = |path: &[&str]| find_field(json.as_bytes(), path).ok().flatten();
    let spec = |name: &str| part(&["spec", name]);
    let versions = items(spec("versions")?)?;
    let first = *versions.first()?;
    let of = |version: &str, field: &str| find_field(version.as_bytes(), &[field]).ok().flatten().map(str::to_owned);
    let common = COMMON.map(|(field, _)| {
        let value = of(first, field)?;
        versions.iter().all(|version| of(version, field).as_deref() == Some(&value)).then_some(value)
    });
    let top = |name: &str| {
        let index = COMMON.iter().position(|(_, top)| *top == name)?;
        common[index].as_deref().map(|value| column_names(value, "jsonPath", "JSONPath"))
    };
    let version = |version: &&str| {
        let own =
            ["name", "served", "storage", "deprecated", "deprecationWarning"].map(|name| (name, of(version, name)));
        let shared = COMMON.iter().zip(&common).map(|((name, _), common)| {
            let value = of(version, name).filter(|_| common.is_none());
            (*name, value.map(|value| column_names(&value, "jsonPath", "JSONPath")))
        });
        object(own.into_iter().chain(shared))
    };
    let versions: Vec<String> = versions.iter().map(version).collect();
    let conversion = object([
        ("strategy", part(&["spec", "conversion", "strategy"]).map(str::to_owned)),
        ("webhookClientConfig", part(&["spec", "conversion", "webhook", "clientConfig"]).map(str::to_owned)),
        (
            "conversionReviewVersions",
            part(&["spec", "conversion", "webhook", "conversionReviewVersions"]).map(str::to_owned),
        ),
    ]);
    let spec = object([
        ("group", spec("group").map(str::to_owned)),
        ("version", of(first, "name")),
        ("names", spec("names").map(str::to_owned)),
        ("scope", spec("scope").map(str::to_owned)),
        ("validation", top("validation")),
        ("subresources", top("subresources")),
        ("versions", Some(format!("[{}]", versions.join(",")))),
        ("additionalPrinterColumns", top("additionalPrinterColumns")),
        ("selectableFields", top("selectableFields")),
        ("conversion", spec("conversion").map(|_| conversion)),
        ("preserveUnknownFields", Some(spec("preserveUnknownFields").unwrap_or("false").to_owned())),
    ]);
    Some(object([
        ("kind", Some("\"CustomResourceDefinition\"".to_owned())),
        ("apiVersion", Some(format!("\"{STORED}\""))),
        ("metadata", part(&["metadata"]).map(str::to_owned)),
        ("spec", Some(spec)),
        ("status", part(&["status"]).map(str::to_owned)),
    ]))
}

/// The served form of a stored definition. Other values stay as they are.
pub(super) fn served(mut value: Value) -> Value {
    if tree::text(&value, &["apiVersion"]) != STORED {
        return value;
    }
    tree::set(&mut value, &["apiVersion"], SERVED);
    let version = tree::remove(&mut value, &["spec", "version"]);
    let common = COMMON.map(|(field, top)| (field, tree::remove(&mut value, &["spec", top])));
    let mut versions: Vec<Value> = tree::items(&value, &["spec", "versions"]).to_vec();
    if let (Some(name), true) = (version, versions.is_empty()) {
        versions.push(tree::map([("name", name), ("served", true.into()), ("storage", true.into())]));
    }
    for version in &mut versions {
        for (field, shared) in &common {
            if let Some(shared) = shared
                && tree::get(version, &[*field]).is_none()
            {
                tree::set(version, &[*field], shared.clone());
            }
        }
        let columns = tree::items(version, &["additionalPrinterColumns"]).iter().map(served_column);
        let columns: List<Value> = columns.collect();
        if !columns.is_empty() {
            tree::set(version, &["additionalPrinterColumns"], Value::Array(columns));
        }
    }
    tree::set(&mut value, &["spec", "versions"], Value::Array(versions.into_iter().collect()));
    let client = tree::remove(&mut value, &["spec", "conversion", "webhookClientConfig"]);
    let reviews = tree::remove(&mut value, &["spec", "conversion", "conversionReviewVersions"]);
    for (field, moved) in [("clientConfig", client), ("conversionReviewVersions", reviews)] {
        if let Some(moved) = moved.filter(|moved| !moved.is_null()) {
            tree::set(&mut value, &["spec", "conversion", "webhook", field], moved);
        }
    }
    if tree::get(&value, &["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(false) {
        tree::remove(&mut value, &["spec", "preserveUnknownFields"]);
    }
    value
}

fn served_column(column: &Value) -> Value {
    let mut column = column.clone();
    if let Some(path) = tree::remove(&mut column, &["JSONPath"]) {
        tree::set(&mut column, &["jsonPath"], path);
    }
    column
}

/// Renames a field in JSON. A string cannot contain it: its quotes would be escaped.
fn column_names(json: &str, from: &str, to: &str) -> String {
    json.replace(&format!("\"{from}\":"), &format!("\"{to}\":"))
}

/// The texts of the items of a JSON array.
fn items(json: &str) -> Option<Vec<&str>> {
    let inner = json.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut items, mut start, mut depth, mut in_string, mut escaped) = (Vec::new(), 0, 0usize, false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                items.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        items.push(&inner[start..]);
    }
    Some(items)
}

/// A JSON object of the fields that have a value.
fn object<'n>(fields: impl IntoIterator<Item = (&'n str, Option<String>)>) -> String {
    let fields = fields.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
