//! Properties of arbitrary schemas and objects.

use kubewright_core::{Map, Value, json};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::Schema;

/// Schemas with few names, so that objects often meet them.
fn schemas() -> impl Strategy<Value = Value> {
    let text = |json: &str| json.parse::<Value>().expect("valid JSON");
    let leaf = prop_oneof![
        Just(text(r#"{"type":"string"}"#)),
        Just(text(r#"{"type":"string","nullable":true,"default":"d"}"#)),
        Just(text(r#"{"type":"integer","default":7}"#)),
        Just(text(r#"{"x-kubernetes-preserve-unknown-fields":true}"#)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            btree_map("[a-c]", inner.clone(), 0..3).prop_map(|fields| schema("object", "properties", map(fields))),
            inner.clone().prop_map(|items| schema("array", "items", items)),
            inner.clone().prop_map(|values| schema("object", "additionalProperties", values)),
            btree_map("[a-c]", inner, 0..3).prop_map(|fields| {
                let mut schema = schema("object", "properties", map(fields));
                schema.as_object_mut().expect("made above").insert("default", Value::Object(Map::new()));
                schema
            }),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), Just(Value::Int(1)), Just(Value::from("x"))];
    leaf.prop_recursive(3, 24, 3, |inner| {
        prop_oneof![btree_map("[a-d]", inner.clone(), 0..4).prop_map(map), vec(inner, 0..3).prop_map(Value::from),]
    })
}

fn schema(ty: &str, field: &str, value: Value) -> Value {
    Value::Object([("type", Value::from(ty)), (field, value)].into())
}

fn map(fields: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(fields.into_iter().collect())
}

#[test]
fn rules_select_fields_named_by_reserved_words_in_both_ways() {
    let rules = [
        "self.claims.all(c, !has(c.namespace) || size(c.namespace) == 0)",
        "self.claims.all(c, !has(c.__namespace__))",
    ];
    for rule in rules {
        let definition = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {"claims": {"type": "array", "maxItems": 5, "items": {
                "type": "object",
                "properties": {"namespace": {"type": "string", "maxLength": 60}},
            }}},
            "x-kubernetes-validations": [{"rule": rule, "message": "no namespace"}],
        }}});
        let causes = crate::validate_schema("openAPIV3Schema", &definition);
        assert!(causes.is_empty(), "{rule}: {causes:?}");
        let schema = Schema::parse(&definition);
        assert!(schema.validate(&json!({"spec": {"claims": [{}]}}), None).causes.is_empty(), "{rule}");
        let invalid = schema.validate(&json!({"spec": {"claims": [{"namespace": "x"}]}}), None).causes;
        assert_eq!(invalid.len(), 1, "{rule}: {invalid:?}");
    }
}

proptest! {
    #[test]
    fn pruning_and_defaulting_are_idempotent(schema in schemas(), object in objects()) {
        let schema = Schema::parse(&schema);
        let mut completed = object.clone();
        let dropped = schema.prune_and_default(&mut completed);
        prop_assert_eq!(schema.pruned_and_defaulted(&completed), None);
        // There is a changed copy exactly if the object changes.
        prop_assert_eq!(schema.pruned_and_defaulted(&object).is_some(), completed != object);
        prop_assert!(dropped.is_empty() || completed != object);
    }

    #[test]
    fn an_unchanged_object_is_valid(schema in schemas(), object in objects()) {
        let schema = Schema::parse(&schema);
        prop_assert!(schema.validate_structure(&object, Some(&object)).is_empty());
    }
}
