//! The field `extensions` of kubeconfigs and their entries.

use std::collections::BTreeMap;

use kubewright_core::{Map, Value};

use super::fields::{FieldError, FieldValue, FieldVisitor};

/// Extensions: a list of pairs in the file, a map here.
#[derive(Default)]
pub(super) struct Extensions(pub(super) BTreeMap<String, Value>);

impl FieldValue for Extensions {
    fn read(value: Value) -> Result<Self, FieldError> {
        let Value::Array(items) = value else {
            return Err(FieldError::new("", format!("expected a list, found {}", value.kind())));
        };
        let mut extensions = BTreeMap::new();
        for item in items {
            let Some(name) = item.get("name").and_then(Value::as_str) else {
                return Err(FieldError::new("", "an extension has no name"));
            };
            let extension = item.get("extension").cloned().unwrap_or_default();
            if extensions.insert(name.to_owned(), extension).is_some() {
                return Err(FieldError::new("", format!("there are two extensions {name:?}")));
            }
        }
        Ok(Extensions(extensions))
    }

    fn write(&self) -> Option<Value> {
        let item = |(name, extension): (&String, &Value)| {
            Value::Object(Map::from([("name", Value::from(name.as_str())), ("extension", extension.clone())]))
        };
        (!self.0.is_empty()).then(|| Value::Array(self.0.iter().map(item).collect()))
    }
}

/// Visits the field `extensions`.
pub(super) fn extensions(fields: &mut FieldVisitor, map: &mut BTreeMap<String, Value>) -> Result<(), FieldError> {
    let mut wrapped = Extensions(std::mem::take(map));
    let visited = fields.field("extensions", &mut wrapped);
    *map = wrapped.0;
    visited
}
