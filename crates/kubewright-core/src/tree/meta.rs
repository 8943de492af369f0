//! Access to the metadata of an object tree.

use super::{text_map, texts};
use crate::{List, Map, Str, Value};

/// Accessors for object metadata.
pub trait Meta {
    /// A metadata field.
    fn meta(&self, field: &str) -> Option<&Value>;
    /// Sets a metadata field.
    fn set_meta(&mut self, field: &str, value: impl Into<Value>);
    /// Removes a metadata field.
    fn remove_meta(&mut self, field: &str) -> Option<Value>;

    /// A string field of the metadata, empty if it is not set.
    fn meta_text(&self, field: &str) -> &str {
        self.meta(field).and_then(Value::as_str).unwrap_or_default()
    }
    /// `metadata.name`.
    fn name(&self) -> &str {
        self.meta_text("name")
    }
    /// `metadata.namespace`.
    fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.meta_text("uid")
    }
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str {
        self.meta_text("resourceVersion")
    }
    /// `metadata.generation`.
    fn generation(&self) -> i64 {
        self.meta("generation").and_then(Value::as_i64).unwrap_or_default()
    }
    /// Whether the object is being deleted.
    fn is_being_deleted(&self) -> bool {
        self.meta("deletionTimestamp").is_some()
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<Str> {
        texts(self.meta("finalizers"))
    }
    /// Sets `metadata.finalizers`. An empty list removes the field.
    fn set_finalizers(&mut self, finalizers: &[Str]) {
        if finalizers.is_empty() {
            self.remove_meta("finalizers");
        } else {
            let list: List<Value> = finalizers.iter().map(|finalizer| Value::from(finalizer.clone())).collect();
            self.set_meta("finalizers", list);
        }
    }
    /// `metadata.ownerReferences`.
    fn owner_references(&self) -> &[Value] {
        self.meta("ownerReferences").and_then(Value::as_array).map_or(&[], |list| &list[..])
    }
    /// `metadata.labels`.
    fn labels(&self) -> Map<Str> {
        text_map(self.meta("labels"))
    }
}

impl Meta for Value {
    fn meta(&self, field: &str) -> Option<&Value> {
        self.get("metadata")?.get(field)
    }

    fn set_meta(&mut self, field: &str, value: impl Into<Value>) {
        let Some(object) = self.as_object_mut() else { return };
        match object.get_mut("metadata").and_then(Value::as_object_mut) {
            Some(metadata) => drop(metadata.insert(field, value.into())),
            None => drop(object.insert("metadata", Value::Object([(field, value.into())].into()))),
        }
    }

    fn remove_meta(&mut self, field: &str) -> Option<Value> {
        self.as_object_mut()?.get_mut("metadata")?.as_object_mut()?.remove(field)
    }
}
