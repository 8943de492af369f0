//! Applies defaults, and removes `null` where it stands for an absent value.

use kubewright_core::tree::encoded_len;
use kubewright_core::{Map, Str, Value};

use crate::schema::{Schema, is_object_field};

/// The size limit of stored objects, that of etcd's requests.
const MAX_OBJECT_BYTES: usize = 1_572_864;

/// The remaining bytes that defaults may add to an object.
///
/// A short object can have many places for a large default. Defaulting stops when the defaults
/// alone exceed the size limit of objects. The object is then rejected because of its size.
struct DefaultBudget {
    bytes: usize,
}

impl DefaultBudget {
    fn new() -> Self {
        DefaultBudget { bytes: MAX_OBJECT_BYTES + 1 }
    }

    /// A copy of a default, unless the budget is used up.
    fn copy(&mut self, default: &Value) -> Option<Value> {
        if self.bytes == 0 {
            return None;
        }
        self.bytes = self.bytes.saturating_sub(encoded_len(default));
        Some(default.clone())
    }
}

impl Schema {
    /// Applies defaults, and removes `null` where it is not allowed and there is no default.
    pub fn apply_defaults(&self, object: &mut Value) {
        if self.lacks_defaults(object) {
            self.default_value(true, true, object, &mut DefaultBudget::new());
        }
    }

    /// Applies defaults, but keeps `null`, which is then reported as invalid.
    pub(crate) fn apply_defaults_keeping_nulls(&self, object: &mut Value) {
        if self.lacks_defaults(object) {
            self.default_value(true, false, object, &mut DefaultBudget::new());
        }
    }

    /// Prunes an object and applies defaults. Returns the paths of pruned fields.
    pub fn prune_and_default(&self, object: &mut Value) -> Vec<String> {
        let pruned = self.prune(object);
        self.apply_defaults(object);
        pruned
    }

    /// Prunes an applied object and applies defaults. Returns the paths of pruned fields.
    ///
    /// In an apply configuration `null` is a value that the applier wants to set, so it is kept.
    pub fn prune_and_default_applied(&self, object: &mut Value) -> Vec<String> {
        let pruned = self.prune(object);
        self.apply_defaults_keeping_nulls(object);
        pruned
    }

    /// A pruned and defaulted copy of an object, `None` if there is nothing to change.
    ///
    /// Use it to read an object that was stored under an older schema.
    pub fn pruned_and_defaulted(&self, object: &Value) -> Option<Value> {
        if !self.has_unknown_fields(object) && !self.lacks_defaults(object) {
            return None;
        }
        let mut completed = object.clone();
        self.prune_and_default(&mut completed);
        Some(completed)
    }

    /// Whether a default is missing, or a `null` has to be removed.
    pub(crate) fn lacks_defaults(&self, object: &Value) -> bool {
        self.lacks_default(true, object)
    }

    fn default_value(&self, is_object: bool, drops_null: bool, value: &mut Value, budget: &mut DefaultBudget) {
        match value {
            Value::Object(fields) => self.default_fields(is_object, drops_null, fields, budget),
            Value::Array(list) => {
                let Some(schema) = self.items.as_deref() else { return };
                for item in list.iter_mut() {
                    schema.replace_null(item, budget);
                    schema.default_value(schema.embedded_resource, drops_null, item, budget);
                }
            }
            _ => {}
        }
    }

    /// Replaces a `null` that is not allowed by the default.
    fn replace_null(&self, value: &mut Value, budget: &mut DefaultBudget) {
        if self.is_dropped_null(value)
            && let Some(default) = self.default.as_ref().and_then(|default| budget.copy(default))
        {
            *value = default;
        }
    }

    fn default_fields(&self, is_object: bool, drops_null: bool, fields: &mut Map<Value>, budget: &mut DefaultBudget) {
        let mut missing = Vec::new();
        for (name, schema) in self.properties.iter().filter(|(name, _)| !(is_object && is_object_field(name))) {
            if let Some(default) = &schema.default
                && !fields.contains_key(name)
                && let Some(default) = budget.copy(default)
            {
                missing.push((name.clone(), default));
            }
        }
        if !missing.is_empty() {
            fields.extend(missing);
        }
        for (name, value) in fields.iter_mut() {
            let Some(schema) = self.field(name).filter(|_| !(is_object && is_object_field(name))) else { continue };
            schema.replace_null(value, budget);
            schema.default_value(schema.embedded_resource, drops_null, value, budget);
        }
        if drops_null {
            fields.retain(|name, value| !self.field(name).is_some_and(|schema| schema.is_dropped_null(value)));
        }
    }

    fn lacks_default(&self, is_object: bool, value: &Value) -> bool {
        match value {
            Value::Object(fields) => {
                let is_missing =
                    |(name, schema): (&Str, &Schema)| schema.default.is_some() && !fields.contains_key(name);
                (self.has_defaults && self.properties.iter().any(is_missing))
                    || fields.iter().any(|(name, value)| {
                        !(is_object && is_object_field(name))
                            && self.field(name).is_some_and(|schema| {
                                schema.is_dropped_null(value) || schema.lacks_default(schema.embedded_resource, value)
                            })
                    })
            }
            Value::Array(list) => self.items.as_deref().is_some_and(|schema| {
                list.iter().any(|item| {
                    (schema.default.is_some() && schema.is_dropped_null(item))
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
        let schema = Schema::parse(&schema.parse().expect("valid JSON"));
        let filled = |count: usize| {
            let items = vec!["{}"; count].join(",");
            let mut object: Value = format!(r#"{{"list":[{items}]}}"#).parse().expect("valid JSON");
            schema.apply_defaults(&mut object);
            encoded_len(&object)
        };
        assert!(filled(100) > 100 * text.len());
        let large = filled(50_000);
        assert!((MAX_OBJECT_BYTES..2 * MAX_OBJECT_BYTES).contains(&large), "{large}");
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
        let schema = Schema::parse(&schema);
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
            schema.apply_defaults(&mut object);
            assert_eq!(object.to_string(), after);
            assert!(!schema.lacks_defaults(&object));
        }
    }
}
