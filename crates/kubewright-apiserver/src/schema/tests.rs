//! What holds for any schema and any object.

use kubewright_core::{Map, Value};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::Schema;

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

proptest! {
    #[test]
    fn what_is_complete_stays_as_it_is(schema in schemas(), object in objects()) {
        let schema = Schema::read(&schema);
        let mut completed = object.clone();
        let dropped = schema.complete(&mut completed);
        prop_assert_eq!(schema.view(&completed), None);
        // A view is told apart from the object exactly when it differs.
        prop_assert_eq!(schema.view(&object).is_some(), completed != object);
        prop_assert!(dropped.is_empty() || completed != object);
    }

    #[test]
    fn an_object_is_no_worse_than_it_was(schema in schemas(), object in objects()) {
        let schema = Schema::read(&schema);
        prop_assert!(schema.complaints(&object, Some(&object)).is_empty());
    }
}
