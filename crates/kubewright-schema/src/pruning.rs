//! Removes fields that a schema does not specify.

use std::sync::LazyLock;

use kubewright_core::Value;
use kubewright_core::meta::v1::OBJECT_META;

use crate::field_path::FieldPath;
use crate::schema::{AdditionalProperties, Schema, is_object_field};

/// The number of paths that are reported. Warnings and errors show fewer.
const MAX_REPORTED: usize = 1000;

/// The schema of values that are allowed without being specified: their own fields are pruned.
static UNSPECIFIED: LazyLock<Schema> = LazyLock::new(Schema::default);

impl Schema {
    /// Removes unknown fields and returns the paths of up to 1000 of them, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if self.has_unknown_fields(object) {
            self.prune_at(&FieldPath::Root, Exempt::new(self, true), object, &mut dropped);
            dropped.sort();
        }
        dropped
    }

    /// Whether a default has unknown fields.
    pub(crate) fn has_unknown_default(&self, default: &Value) -> bool {
        self.has_unknown(Exempt::new(self, self.embedded_resource), default)
    }

    /// Whether an object has unknown fields.
    pub(crate) fn has_unknown_fields(&self, object: &Value) -> bool {
        self.has_unknown(Exempt::new(self, true), object)
    }

    /// A pruned copy of an object, `None` if there is nothing to prune.
    ///
    /// No defaults are applied: a stored object has those of the version it was stored in.
    pub fn pruned(&self, object: &Value) -> Option<Value> {
        self.has_unknown_fields(object).then(|| {
            let mut pruned = object.clone();
            self.prune(&mut pruned);
            pruned
        })
    }

    fn prune_at(&self, path: &FieldPath<'_>, exempt: Exempt, value: &mut Value, dropped: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    let keep = self.keeps(exempt, name);
                    if !keep && dropped.len() < MAX_REPORTED {
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
                        if !keep && dropped.len() < MAX_REPORTED {
                            dropped.push(path.field(name).to_string());
                        }
                        keep
                    });
                }
                for (name, field) in fields.iter_mut() {
                    if let Some(schema) = self.pruned_field(exempt, name) {
                        schema.prune_at(
                            &path.field(name),
                            Exempt::new(schema, schema.embedded_resource),
                            field,
                            dropped,
                        );
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = self.pruned_items(exempt) else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    schema.prune_at(&path.item(index), exempt.for_item(schema), item, dropped);
                }
            }
            _ => {}
        }
    }

    fn has_unknown(&self, exempt: Exempt, value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields.iter().any(|(name, field)| {
                if self.embedded_resource && name == "metadata" {
                    return field.as_object().is_some_and(|fields| !fields.keys().all(|name| is_metadata_field(name)));
                }
                let of_field = || self.pruned_field(exempt, name);
                !self.keeps(exempt, name)
                    || of_field().is_some_and(|part| part.has_unknown(Exempt::new(part, part.embedded_resource), field))
            }),
            Value::Array(list) => {
                let is_unknown = |part: &Schema| list.iter().any(|item| part.has_unknown(exempt.for_item(part), item));
                self.pruned_items(exempt).is_some_and(is_unknown)
            }
            _ => false,
        }
    }

    /// Whether a field is kept.
    fn keeps(&self, exempt: Exempt, name: &str) -> bool {
        exempt.all || (exempt.is_object && is_object_field(name)) || self.pruned_field(exempt, name).is_some()
    }

    /// The schema that a field is pruned by. `None` for fields that the schema does not govern.
    fn pruned_field(&self, exempt: Exempt, name: &str) -> Option<&Schema> {
        if exempt.is_object && is_object_field(name) {
            return None;
        }
        let any = || matches!(self.additional, Some(AdditionalProperties::Allowed(_))).then(|| &*UNSPECIFIED);
        self.field(name).or_else(any)
    }

    /// The schema that items are pruned by.
    fn pruned_items(&self, exempt: Exempt) -> Option<&Schema> {
        self.items.as_deref().or_else(|| (!exempt.all).then(|| &*UNSPECIFIED))
    }
}

/// Fields that are kept although the schema does not specify them.
#[derive(Debug, Clone, Copy)]
struct Exempt {
    /// All fields.
    all: bool,
    /// `apiVersion`, `kind` and `metadata`.
    is_object: bool,
}

impl Exempt {
    fn new(schema: &Schema, is_object: bool) -> Self {
        Exempt { all: schema.preserve_unknown, is_object }
    }

    /// The exemptions of an item: a list that preserves unknown fields does so for its items.
    fn for_item(self, schema: &Schema) -> Self {
        Exempt { all: self.all || schema.preserve_unknown, is_object: schema.embedded_resource }
    }
}

/// Whether `ObjectMeta` has a field of this name.
fn is_metadata_field(name: &str) -> bool {
    OBJECT_META.fields.iter().any(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(json: &str) -> Schema {
        Schema::parse(&json.parse().expect("valid JSON"))
    }

    #[test]
    fn unknown_fields_are_removed_and_reported() {
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
        assert!(!schema.has_unknown_fields(&object));
        assert_eq!(
            object.get("spec").and_then(|spec| spec.get("open")).map(Value::to_string).as_deref(),
            Some(r#"{"any":{"y":1},"shut":{}}"#)
        );
    }

    #[test]
    fn fields_of_unspecified_values_are_removed() {
        let schema = schema(
            r#"{"type":"object","properties":{"any":{"type":"object","additionalProperties":true},
                "open":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object",
                    "properties":{"shut":{"type":"object"}}}}}}"#,
        );
        let mut object: Value = r#"{"any":{"a":1,"b":{"c":1},"d":[{"e":1}]},"open":[{"x":{"y":1},"shut":{"z":1}}]}"#
            .parse()
            .expect("valid JSON");
        assert_eq!(schema.prune(&mut object), ["any.b.c", "any.d[0].e", "open[0].shut.z"]);
        assert_eq!(object.to_string(), r#"{"any":{"a":1,"b":{},"d":[{}]},"open":[{"shut":{},"x":{"y":1}}]}"#);
        assert!(!schema.has_unknown_fields(&object));
    }
}
