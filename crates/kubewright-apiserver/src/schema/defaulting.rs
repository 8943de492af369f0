//! Fills in the defaults of a schema, and drops `null` where it means nothing.

use kubewright_core::{Map, Value};

use super::{Schema, is_object_field};
use crate::object::MAX_STORED_BYTES;
use crate::tree::encoded_len;

/// How many bytes defaults may still add to an object.
///
/// A short object may have many places for a large default. Filling in stops when the defaults alone
/// are larger than any stored object; such an object is refused later because of its size.
struct Room {
    bytes: usize,
}

impl Room {
    fn new() -> Self {
        Room { bytes: MAX_STORED_BYTES + 1 }
    }

    /// A copy of a default, if there is still room.
    fn copy(&mut self, default: &Value) -> Option<Value> {
        if self.bytes == 0 {
            return None;
        }
        self.bytes = self.bytes.saturating_sub(encoded_len(default));
        Some(default.clone())
    }
}

impl Schema {
    /// Fills in what an object leaves out, and drops `null` where neither it is allowed nor a default is there.
    pub(super) fn fill_in(&self, object: &mut Value) {
        if self.would_default(object) {
            self.fill_in_value(true, true, object, &mut Room::new());
        }
    }

    /// Fills in what an object leaves out, and nothing else: what is `null` stays so, and is complained about.
    pub(super) fn fill_in_only(&self, object: &mut Value) {
        if self.would_default(object) {
            self.fill_in_value(true, false, object, &mut Room::new());
        }
    }

    /// Whether there is anything to fill in, or a `null` to drop.
    pub(super) fn would_default(&self, object: &Value) -> bool {
        self.lacks_default(true, object)
    }

    fn fill_in_value(&self, is_object: bool, drops_null: bool, value: &mut Value, room: &mut Room) {
        match value {
            Value::Object(fields) => self.fill_in_fields(is_object, drops_null, fields, room),
            Value::Array(list) => {
                let Some(schema) = self.items.as_deref() else { return };
                for item in list.iter_mut() {
                    schema.replace_null(item, room);
                    schema.fill_in_value(schema.embedded_resource, drops_null, item, room);
                }
            }
            _ => {}
        }
    }

    /// Puts the default in the place of a `null` that is not allowed.
    fn replace_null(&self, value: &mut Value, room: &mut Room) {
        if self.drops_null(value)
            && let Some(default) = self.default.as_ref().and_then(|default| room.copy(default))
        {
            *value = default;
        }
    }

    fn fill_in_fields(&self, is_object: bool, drops_null: bool, fields: &mut Map<Value>, room: &mut Room) {
        let mut missing = Vec::new();
        for (name, schema) in self.properties.iter().filter(|(name, _)| !(is_object && is_object_field(name))) {
            if let Some(default) = &schema.default
                && !fields.contains_key(name)
                && let Some(default) = room.copy(default)
            {
                missing.push((name.clone(), default));
            }
        }
        if !missing.is_empty() {
            fields.extend(missing);
        }
        for (name, value) in fields.iter_mut() {
            let Some(schema) = self.of_field(name).filter(|_| !(is_object && is_object_field(name))) else { continue };
            schema.replace_null(value, room);
            schema.fill_in_value(schema.embedded_resource, drops_null, value, room);
        }
        if drops_null {
            fields.retain(|name, value| !self.of_field(name).is_some_and(|schema| schema.drops_null(value)));
        }
    }

    fn lacks_default(&self, is_object: bool, value: &Value) -> bool {
        match value {
            Value::Object(fields) => {
                let is_missing = |(name, schema): (&kubewright_core::Str, &Schema)| {
                    schema.default.is_some() && !fields.contains_key(name)
                };
                (self.has_defaults && self.properties.iter().any(is_missing))
                    || fields.iter().any(|(name, value)| {
                        !(is_object && is_object_field(name))
                            && self.of_field(name).is_some_and(|schema| {
                                schema.drops_null(value) || schema.lacks_default(schema.embedded_resource, value)
                            })
                    })
            }
            Value::Array(list) => self.items.as_deref().is_some_and(|schema| {
                list.iter().any(|item| {
                    (schema.default.is_some() && schema.drops_null(item))
                        || schema.lacks_default(schema.embedded_resource, item)
                })
            }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_stop_at_the_size_of_the_largest_object() {
        let text = "x".repeat(10_000);
        let schema = format!(
            r#"{{"type":"object","properties":{{"list":{{"type":"array","items":{{"type":"object","properties":{{
                "text":{{"type":"string","default":"{text}"}}}}}}}}}}}}"#
        );
        let schema = Schema::read(&schema.parse().expect("valid JSON"));
        let filled = |count: usize| {
            let items = vec!["{}"; count].join(",");
            let mut object: Value = format!(r#"{{"list":[{items}]}}"#).parse().expect("valid JSON");
            schema.fill_in(&mut object);
            encoded_len(&object)
        };
        assert!(filled(100) > 100 * text.len());
        let large = filled(50_000);
        assert!((MAX_STORED_BYTES..2 * MAX_STORED_BYTES).contains(&large), "{large}");
    }

    #[test]
    fn defaults_reach_into_objects_lists_and_maps() {
        let schema: Value = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
            "nested":{"type":"object","default":{},"properties":{"deep":{"type":"integer","default":7}}},
            "list":{"type":"array","items":{"type":"object","properties":{"p":{"type":"string","default":"TCP"}}}},
            "map":{"type":"object","additionalProperties":{"type":"string","default":"m"}},
            "maybe":{"type":"string","nullable":true,"default":"d"},
            "mode":{"type":"string","default":"auto"},"color":{"type":"string"}}}}}"#
            .parse()
            .expect("valid JSON");
        let schema = Schema::read(&schema);
        for (before, after) in [
            (r#"{}"#, r#"{}"#),
            (r#"{"spec":null}"#, r#"{}"#),
            (r#"{"spec":{}}"#, r#"{"spec":{"maybe":"d","mode":"auto","nested":{"deep":7}}}"#),
            (
                r#"{"spec":{"maybe":null,"mode":null,"color":null,"nested":{"deep":1},"list":[{}],"map":{"k":null}}}"#,
                r#"{"spec":{"list":[{"p":"TCP"}],"map":{"k":"m"},"maybe":null,"mode":"auto","nested":{"deep":1}}}"#,
            ),
        ] {
            let mut object: Value = before.parse().expect("valid JSON");
            schema.fill_in(&mut object);
            assert_eq!(object.to_string(), after);
            assert!(!schema.would_default(&object));
        }
    }
}
