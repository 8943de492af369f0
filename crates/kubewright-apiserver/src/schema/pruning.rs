//! Drops the fields that a schema does not know.

use std::sync::LazyLock;

use kubewright_core::Value;
use kubewright_core::meta::v1::OBJECT_META;

use super::path::Path;
use super::{Additional, Schema, is_object_field};

/// How many dropped fields are named; warnings and errors show fewer.
const MAX_DROPPED: usize = 1000;

/// What is known of a value that any value may be in the place of: nothing, so that its own fields go.
static NOTHING: LazyLock<Schema> = LazyLock::new(Schema::default);

impl Schema {
    /// Drops unknown fields of an object and returns the paths of the first of them, in order.
    pub(super) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        if self.would_prune(object) {
            self.prune_at(&Path::Root, Kept::of(self, true), object, &mut dropped);
            dropped.sort();
        }
        dropped
    }

    /// Whether a default has fields that are unknown.
    pub(super) fn has_unknown_default(&self, default: &Value) -> bool {
        self.has_unknown(Kept::of(self, self.embedded_resource), default)
    }

    /// Whether an object has fields that are unknown.
    pub(super) fn would_prune(&self, object: &Value) -> bool {
        self.has_unknown(Kept::of(self, true), object)
    }

    fn prune_at(&self, path: &Path<'_>, kept: Kept, value: &mut Value, dropped: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    let keep = self.knows(kept, name);
                    if !keep && dropped.len() < MAX_DROPPED {
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
                        if !keep && dropped.len() < MAX_DROPPED {
                            dropped.push(path.field(name).to_string());
                        }
                        keep
                    });
                }
                for (name, field) in fields.iter_mut() {
                    if let Some(schema) = self.of_kept_field(kept, name) {
                        schema.prune_at(&path.field(name), Kept::of(schema, schema.embedded_resource), field, dropped);
                    }
                }
            }
            Value::Array(list) => {
                let Some(schema) = self.of_items(kept) else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    schema.prune_at(&path.item(index), kept.of_item(schema), item, dropped);
                }
            }
            _ => {}
        }
    }

    fn has_unknown(&self, kept: Kept, value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields.iter().any(|(name, field)| {
                if self.embedded_resource && name == "metadata" {
                    return field.as_object().is_some_and(|fields| !fields.keys().all(|name| is_metadata_field(name)));
                }
                let of_field = || self.of_kept_field(kept, name);
                !self.knows(kept, name)
                    || of_field().is_some_and(|part| part.has_unknown(Kept::of(part, part.embedded_resource), field))
            }),
            Value::Array(list) => {
                let is_unknown = |part: &Schema| list.iter().any(|item| part.has_unknown(kept.of_item(part), item));
                self.of_items(kept).is_some_and(is_unknown)
            }
            _ => false,
        }
    }

    /// Whether a field may stay.
    fn knows(&self, kept: Kept, name: &str) -> bool {
        kept.all || (kept.is_object && is_object_field(name)) || self.of_kept_field(kept, name).is_some()
    }

    /// The schema that a field is pruned by, unless it has its own rules, which are not in the schema.
    fn of_kept_field(&self, kept: Kept, name: &str) -> Option<&Schema> {
        if kept.is_object && is_object_field(name) {
            return None;
        }
        let any = || matches!(self.additional, Some(Additional::Any(_))).then(|| &*NOTHING);
        self.of_field(name).or_else(any)
    }

    /// The schema that items are pruned by.
    fn of_items(&self, kept: Kept) -> Option<&Schema> {
        self.items.as_deref().or_else(|| (!kept.all).then(|| &*NOTHING))
    }
}

/// What stays of an object although the schema does not know it.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Everything.
    all: bool,
    /// What every object has.
    is_object: bool,
}

impl Kept {
    fn of(schema: &Schema, is_object: bool) -> Self {
        Kept { all: schema.preserve_unknown, is_object }
    }

    /// What stays of an item: a list that keeps everything does so for its items.
    fn of_item(self, schema: &Schema) -> Self {
        Kept { all: self.all || schema.preserve_unknown, is_object: schema.embedded_resource }
    }
}

/// Whether the metadata of objects has a field of this name.
fn is_metadata_field(name: &str) -> bool {
    OBJECT_META.fields.iter().any(|field| field.name == name)
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

    #[test]
    fn any_value_may_be_there_but_nothing_is_known_of_its_fields() {
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
        assert!(!schema.would_prune(&object));
    }
}
