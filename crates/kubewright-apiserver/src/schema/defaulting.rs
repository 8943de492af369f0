//! Fills in the defaults of a schema, and drops `null` where it means nothing.

use kubewright_core::{Map, Value};

use super::{Schema, is_object_field};

impl Schema {
    /// Fills in what an object leaves out, and drops `null` where neither it is allowed nor a default is there.
    pub(super) fn fill_in(&self, object: &mut Value) {
        if self.would_default(object) {
            self.fill_in_value(true, true, object);
        }
    }

    /// Fills in what an object leaves out, and nothing else: what is `null` stays so, and is complained about.
    pub(super) fn fill_in_only(&self, object: &mut Value) {
        if self.would_default(object) {
            self.fill_in_value(true, false, object);
        }
    }

    /// Whether there is anything to fill in, or a `null` to drop.
    pub(super) fn would_default(&self, object: &Value) -> bool {
        self.lacks_default(true, object)
    }

    fn fill_in_value(&self, is_object: bool, drops_null: bool, value: &mut Value) {
        match value {
            Value::Object(fields) => self.fill_in_fields(is_object, drops_null, fields),
            Value::Array(list) => {
                let Some(schema) = self.items.as_deref() else { return };
                for item in list.iter_mut() {
                    if let Some(default) = schema.default.as_ref().filter(|_| schema.drops_null(item)) {
                        *item = default.clone();
                    }
                    schema.fill_in_value(schema.embedded_resource, drops_null, item);
                }
            }
            _ => {}
        }
    }

    fn fill_in_fields(&self, is_object: bool, drops_null: bool, fields: &mut Map<Value>) {
        for (name, schema) in self.properties.iter().filter(|(name, _)| !(is_object && is_object_field(name))) {
            let Some(default) = &schema.default else { continue };
            if fields.get(name).is_none_or(|value| schema.drops_null(value)) {
                fields.insert(name.clone(), default.clone());
            }
        }
        for (name, value) in fields.iter_mut() {
            let Some(schema) = self.of_field(name).filter(|_| !(is_object && is_object_field(name))) else { continue };
            if let Some(default) = schema.default.as_ref().filter(|_| schema.drops_null(value)) {
                *value = default.clone();
            }
            schema.fill_in_value(schema.embedded_resource, drops_null, value);
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
