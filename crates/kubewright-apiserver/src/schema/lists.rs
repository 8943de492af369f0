//! Lists whose items have to differ: sets, and maps whose keys are fields of the items.

use std::collections::HashMap;

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
            if schema.list_type == ListType::Map {
                for (index, item) in list.iter().enumerate().filter(|(_, item)| item.as_object().is_none()) {
                    let why = "must be an object for an array of list-type map";
                    causes.push(StatusCause::invalid(path.item(index).to_string(), shown(item), why));
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

/// The items of an older list by their keys, to recognize those of a newer one.
pub(super) struct Index<'a>(HashMap<String, (usize, &'a Value)>);

impl<'a> Index<'a> {
    /// Looks through the items of a list, if it is one whose items have keys.
    pub(super) fn new(schema: &Schema, old: Option<&'a Value>) -> Self {
        let list = old.filter(|_| schema.list_type == ListType::Map).and_then(Value::as_array);
        let items = list.into_iter().flat_map(|list| list.iter());
        Index(items.enumerate().map(|(at, item)| (keys(schema, item).to_string(), (at, item))).collect())
    }

    /// The item that has the keys of this one.
    pub(super) fn get(&self, schema: &Schema, item: &Value) -> Option<&'a Value> {
        self.find(schema, item).map(|(_, item)| item)
    }

    /// The item that has the keys of this one, and its place in the list.
    pub(super) fn find(&self, schema: &Schema, item: &Value) -> Option<(usize, &'a Value)> {
        if self.0.is_empty() { None } else { self.0.get(&keys(schema, item).to_string()).copied() }
    }
}

fn keys(schema: &Schema, item: &Value) -> Value {
    let named = schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(named.collect::<Map<Value>>())
}

/// Items that are equal to an earlier one; each value is named once.
pub(super) fn duplicates(items: impl Iterator<Item = Value>) -> Vec<(usize, Value)> {
    // Trees have no hash, but their text does.
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
