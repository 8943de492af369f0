//! Lists whose items have to differ: sets, and maps whose keys are fields of the items.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Map, Value};

use super::path::Path;
use super::validation::shown;
use super::{ListType, Schema};

/// Complains about items that are in a list before.
pub(super) fn check(schema: &Schema, path: &Path<'_>, value: &Value, causes: &mut Vec<StatusCause>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter() {
                if let Some(schema) = schema.of_field(name) {
                    check(schema, &path.field(name), field, causes);
                }
            }
        }
        Value::Array(list) => {
            let duplicates = match schema.list_type {
                ListType::Atomic => Vec::new(),
                ListType::Set => duplicates(list.iter().cloned()),
                ListType::Map => duplicates(list.iter().map(|item| keys(schema, item))),
            };
            for (index, value) in duplicates {
                causes.push(StatusCause::duplicate(path.item(index).to_string(), shown(&value)));
            }
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in list.iter().enumerate() {
                    check(schema, &path.item(index), item, causes);
                }
            }
        }
        _ => {}
    }
}

/// The item of an older list that has the keys of this one.
pub(super) fn same_item<'a>(schema: &Schema, item: &Value, old: &'a Value) -> Option<&'a Value> {
    let wanted = keys(schema, item);
    old.as_array()?.iter().find(|candidate| keys(schema, candidate) == wanted)
}

fn keys(schema: &Schema, item: &Value) -> Value {
    let named = schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(named.collect::<Map<Value>>())
}

/// Items that are equal to an earlier one; each value is named once.
fn duplicates(items: impl Iterator<Item = Value>) -> Vec<(usize, Value)> {
    let mut seen: Vec<Value> = Vec::new();
    let mut found: Vec<(usize, Value)> = Vec::new();
    for (index, item) in items.enumerate() {
        if !seen.contains(&item) {
            seen.push(item);
        } else if !found.iter().any(|(_, known)| *known == item) {
            found.push((index, item));
        }
    }
    found
}
