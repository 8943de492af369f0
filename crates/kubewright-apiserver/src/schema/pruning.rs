//! Drops the fields that a schema does not know.

use kubewright_core::Value;
use kubewright_core::meta::v1::OBJECT_META;

use super::path::Path;
use super::{Additional, Schema, is_object_field};

impl Schema {
    /// Drops unknown fields of an object and returns their paths, in order.
    pub(super) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if self.would_prune(object) {
            self.prune_at(&Path::Root, true, object, &mut dropped);
            dropped.sort();
        }
        dropped
    }

    /// Whether a default has fields that are unknown.
    pub(super) fn has_unknown_default(&self, default: &Value) -> bool {
        self.has_unknown(self.embedded_resource, default)
    }

    /// Whether an object has fields that are unknown.
    pub(super) fn would_prune(&self, object: &Value) -> bool {
        self.has_unknown(true, object)
    }

    fn prune_at(&self, path: &Path<'_>, is_object: bool, value: &mut Value, dropped: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    let keep = self.knows(is_object, name);
                    if !keep {
                        dropped.push(path.field(name).to_string());
                    }
                    keep
                });
                if self.embedded_resource
                    && let Some(Value::Object(metadata)) = fields.get_mut("metadata")
                {
                    let path = path.field("metadata");
                    metadata.retain(|name, _| {
                        let keep = is_metadata_field(name);
                        if !keep {
                            dropped.push(path.field(name).to_string());
                        }
                        keep
                    });
                }
                for (name, field) in fields.iter_mut() {
                    if let Some(schema) = self.of_field(name).filter(|_| !leaves_alone(is_object, name)) {
                        schema.prune_at(&path.field(name), schema.embedded_resource, field, dropped);
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = self.items.as_deref() else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    schema.prune_at(&path.item(index), schema.embedded_resource, item, dropped);
                }
            }
            _ => {}
        }
    }

    fn has_unknown(&self, is_object: bool, value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields.iter().any(|(name, field)| {
                if self.embedded_resource && name == "metadata" {
                    return field.as_object().is_some_and(|fields| !fields.keys().all(|name| is_metadata_field(name)));
                }
                !self.knows(is_object, name)
                    || !leaves_alone(is_object, name)
                        && self.of_field(name).is_some_and(|schema| schema.has_unknown(schema.embedded_resource, field))
            }),
            Value::Array(list) => self
                .items
                .as_deref()
                .is_some_and(|schema| list.iter().any(|item| schema.has_unknown(schema.embedded_resource, item))),
            _ => false,
        }
    }

    /// Whether a field may stay.
    fn knows(&self, is_object: bool, name: &str) -> bool {
        self.preserve_unknown
            || (is_object && is_object_field(name))
            || self.of_field(name).is_some()
            || matches!(self.additional, Some(Additional::Any(true)))
    }
}

/// Whether the metadata of objects has a field of this name.
fn is_metadata_field(name: &str) -> bool {
    OBJECT_META.fields.iter().any(|field| field.name == name)
}

/// Whether a field has its own rules, which are not in the schema.
fn leaves_alone(is_object: bool, name: &str) -> bool {
    is_object && is_object_field(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(json: &str) -> Schema {
        Schema::read(&json.parse().expect("valid JSON"))
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = schema(
            r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
                "list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"}}}},
                "map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"integer"}}}},
                "open":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                    "properties":{"shut":{"type":"object"}}},
                "pod":{"type":"object","x-kubernetes-embedded-resource":true}}}}}"#,
        );
        let mut object: Value = r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n"},"zone":1,"spec":{"x":1,
            "list":[{"a":1},{"a":1,"b":2}],"map":{"k":{"a":1,"c":3}},"open":{"any":{"y":1},"shut":{"z":1}},
            "pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","q":1},"spec":{}}}}"#
            .parse()
            .expect("valid JSON");
        let dropped = schema.prune(&mut object);
        let want = [
            "spec.list[1].b",
            "spec.map.k.c",
            "spec.open.shut.z",
            "spec.pod.metadata.q",
            "spec.pod.spec",
            "spec.x",
            "zone",
        ];
        assert_eq!(dropped, want);
        assert!(!schema.would_prune(&object));
        assert_eq!(
            object.get("spec").and_then(|spec| spec.get("open")).map(Value::to_string).as_deref(),
            Some(r#"{"any":{"y":1},"shut":{}}"#)
        );
    }
}
