//! All schemas that a document refers to, directly or through others.

use std::collections::HashMap;
use std::sync::LazyLock;

use kubewright_core::meta::v1::TYPES as META_TYPES;
use kubewright_core::scheme::TypeInfo;
use kubewright_core::{GroupVersion, GroupVersionKind, Map, Value};

use super::names::referenced;
use super::schema;

/// All types, by their names in OpenAPI.
static TYPE_BY_NAME: LazyLock<HashMap<&'static str, &'static TypeInfo>> = LazyLock::new(|| {
    let types = kubewright_api::types().into_iter().chain(META_TYPES.iter().copied());
    types.map(|entry| (entry.info.name, entry.info)).collect()
});

/// The type of a built-in kind.
pub(super) fn type_of(kind: &GroupVersionKind) -> Option<&'static TypeInfo> {
    TYPE_BY_NAME
        .values()
        .copied()
        .find(|info| info.kind.as_ref().is_some_and(|own| GroupVersionKind::from(own) == *kind))
}

/// Adds to `schemas` everything that `value` and they themselves refer to.
pub(super) fn complete(schemas: &mut Map<Value>, value: &Value, version: &GroupVersion) {
    let mut open = Vec::new();
    collect(value, &mut open);
    schemas.values().for_each(|schema| collect(schema, &mut open));
    while let Some(name) = open.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(schema) = schema_of(&name, version) {
            collect(&schema, &mut open);
            schemas.insert(name, schema);
        }
    }
}

/// The schema of a built-in type, of a list of them, or of a scalar.
pub(super) fn schema_of(name: &str, version: &GroupVersion) -> Option<Value> {
    if let Some(info) = TYPE_BY_NAME.get(name) {
        return Some(schema::of_type(info, version));
    }
    if let Some(item) = name.strip_suffix("List").and_then(|item| TYPE_BY_NAME.get(item)) {
        let mut kind = GroupVersionKind::from(item.kind.as_ref()?);
        kind.kind = format!("{}List", kind.kind).into();
        return Some(schema::of_list(item.name, &kind));
    }
    schema::of_scalar(name)
}

/// The names of all schemas that a value refers to.
fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                match value.as_str().and_then(referenced).filter(|_| key == "$ref") {
                    Some(name) => names.push(name.to_owned()),
                    None => collect(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}
