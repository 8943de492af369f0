//! Collects all schemas that a document refers to, directly or indirectly.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use kubewright_core::message::TypeEntry;
use kubewright_core::meta::v1::TYPES as META_TYPES;
use kubewright_core::scheme::TypeInfo;
use kubewright_core::{GroupVersion, GroupVersionKind, Str, Value};
use kubewright_schema::openapi::referenced_name;

use super::schema;

/// All types by their OpenAPI names.
static TYPE_BY_NAME: LazyLock<HashMap<&'static str, &'static TypeEntry>> = LazyLock::new(|| {
    let types = kubewright_api::types().into_iter().chain(META_TYPES.iter().copied());
    types.map(|entry| (entry.info.name, entry)).collect()
});

/// The type of a built-in kind.
pub(super) fn type_of(kind: &GroupVersionKind) -> Option<&'static TypeInfo> {
    static TYPE_BY_KIND: LazyLock<HashMap<GroupVersionKind, &'static TypeInfo>> = LazyLock::new(|| {
        let types = TYPE_BY_NAME.values().map(|entry| entry.info);
        types.filter_map(|info| Some((GroupVersionKind::from(info.kind.as_ref()?), info))).collect()
    });
    TYPE_BY_KIND.get(kind).copied()
}

/// Adds all schemas to which `value` refers, directly or indirectly.
pub(super) fn complete(schemas: &mut BTreeMap<Str, Value>, value: &Value, version: &GroupVersion) {
    let mut open = Vec::new();
    collect(value, &mut open);
    schemas.values().for_each(|schema| collect(schema, &mut open));
    while let Some(name) = open.pop() {
        if schemas.contains_key(name.as_str()) {
            continue;
        }
        if let Some(schema) = schema_of(&name, version) {
            collect(&schema, &mut open);
            schemas.insert(name.into(), schema);
        }
    }
}

/// The schema of a built-in type, of a list, or of a scalar.
pub(super) fn schema_of(name: &str, version: &GroupVersion) -> Option<Value> {
    if let Some(entry) = TYPE_BY_NAME.get(name) {
        return Some(schema::type_schema(entry, version));
    }
    if let Some(item) = name.strip_suffix("List").and_then(|item| TYPE_BY_NAME.get(item)) {
        let mut kind = GroupVersionKind::from(item.info.kind.as_ref()?);
        kind.kind = format!("{}List", kind.kind).into();
        return Some(schema::list_schema(item.info.name, &kind));
    }
    schema::scalar_schema(name)
}

/// Collects the names of the schemas to which a value refers.
fn collect(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries.iter() {
                match value.as_str().and_then(referenced_name).filter(|_| key == "$ref") {
                    Some(name) => names.push(name.to_owned()),
                    None => collect(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        _ => {}
    }
}
