//! List types `set` and `map`: unique items, and correlation of items by their keys.

use std::collections::HashMap;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Map, Value};

use crate::cause::display;
use crate::field_path::FieldPath;
use crate::schema::{ListType, Schema};

/// Reports duplicate items in all lists of a value.
pub(crate) fn check_duplicates(schema: &Schema, path: &FieldPath<'_>, value: &Value, causes: &mut Vec<StatusCause>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter() {
                if let Some(schema) = schema.field(name) {
                    check_duplicates(schema, &path.field(name), field, causes);
                }
            }
        }
        Value::Array(list) => {
            if schema.list_type == ListType::Map {
                for (index, item) in list.iter().enumerate().filter(|(_, item)| item.as_object().is_none()) {
                    let why = "must be an object for an array of list-type map";
                    causes.push(StatusCause::invalid(path.item(index).to_string(), display(item), why));
                }
            }
            let duplicates = match schema.list_type {
                ListType::Atomic => Vec::new(),
                ListType::Set => duplicates(list.iter().cloned()),
                ListType::Map => {
                    let keys = |item: &Value| item.as_object().map(|_| keys(schema, item)).unwrap_or_default();
                    let is_object = |(index, _): &(usize, Value)| list[*index].as_object().is_some();
                    duplicates(list.iter().map(keys)).into_iter().filter(is_object).collect()
                }
            };
            for (index, value) in duplicates {
                causes.push(StatusCause::duplicate(path.item(index).to_string(), display(&value)));
            }
            if let Some(schema) = schema.items.as_deref() {
                for (index, item) in list.iter().enumerate() {
                    check_duplicates(schema, &path.item(index), item, causes);
                }
            }
        }
        _ => {}
    }
}

/// The items of an old list by their keys, to correlate the items of a new one.
pub(crate) struct KeyedItems<'a>(HashMap<String, (usize, &'a Value)>);

impl<'a> KeyedItems<'a> {
    /// Indexes the items of a list. Empty unless the list type is `map`.
    pub(crate) fn new(schema: &Schema, old: Option<&'a Value>) -> Self {
        let list = old.filter(|_| schema.list_type == ListType::Map).and_then(Value::as_array);
        let items = list.into_iter().flat_map(|list| list.iter());
        KeyedItems(items.enumerate().map(|(at, item)| (keys(schema, item).to_string(), (at, item))).collect())
    }

    /// The old item with the keys of this one.
    pub(crate) fn get(&self, schema: &Schema, item: &Value) -> Option<&'a Value> {
        self.get_indexed(schema, item).map(|(_, item)| item)
    }

    /// The old item with the keys of this one, and its index.
    pub(crate) fn get_indexed(&self, schema: &Schema, item: &Value) -> Option<(usize, &'a Value)> {
        if self.0.is_empty() { None } else { self.0.get(&keys(schema, item).to_string()).copied() }
    }
}

/// The keys of an item as an object.
fn keys(schema: &Schema, item: &Value) -> Value {
    let named = schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(named.collect::<Map<Value>>())
}

/// Indices and values of items that repeat an earlier item. Each value is reported once.
pub(crate) fn duplicates(items: impl Iterator<Item = Value>) -> Vec<(usize, Value)> {
    // JSON values cannot be hashed, their text can.
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        let times = times.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push((index, item));
        }
    }
    found
}
