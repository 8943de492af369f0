//! Server-side apply sends only the fields of an object that were set.

use kubewright_core::json::Writer;
use kubewright_core::message::{Message, Ref, Slot};
use kubewright_core::scheme::{Flags, Type};
use serde_json::{Value, json};

use crate::model::{Everything, assert_same, message, new, to_json, types, with_kind};

fn applied(message: &dyn Message) -> Value {
    let mut out = Vec::new();
    Writer::new(&mut out).as_apply().object(message);
    serde_json::from_slice(&out).expect("we wrote it")
}

#[test]
fn an_empty_object_of_any_type_encodes_to_nothing() {
    for entry in types() {
        let mut wanted = json!({});
        with_kind(entry.info, &mut wanted);
        assert_same(&applied(&*new(entry.info)), &wanted, entry.info.name);
    }
}

#[test]
fn a_field_that_is_set_to_zero_is_sent_and_no_struct_beside_it() {
    let mut count = 0;
    for entry in types() {
        for (index, field) in entry.info.fields.iter().enumerate() {
            let mut object = new(entry.info);
            match object.slot(index) {
                Slot::OptBool(place) => *place = Some(false),
                Slot::OptInt32(place) => *place = Some(0),
                Slot::OptInt64(place) => *place = Some(0),
                Slot::OptStr(place) => *place = Some("".into()),
                _ => continue,
            }
            count += 1;
            let sent = applied(&*object);
            let name = entry.info.name;
            assert!(sent.get(field.name).is_some(), "{name}.{} is set, but not in {sent}", field.name);
            for (key, value) in sent.as_object().expect("an object") {
                assert!(!value.is_null() && !value.is_object() && !value.is_array(), "{name}: {key} in {sent}");
                let beside = entry.info.fields.iter().find(|beside| beside.name == key);
                assert!(
                    key == field.name
                        || matches!(key.as_str(), "kind" | "apiVersion")
                        || beside.is_some_and(|beside| beside.flags.has(Flags::REQUIRED)),
                    "{name}: {key} was not set in {sent}"
                );
            }
        }
    }
    assert!(count > 700, "{count} fields");
}

#[test]
fn of_an_object_with_everything_set_everything_is_sent() {
    for entry in types() {
        let mut whole = message(entry.info, &mut Everything::default(), 0);
        with_kind(entry.info, &mut whole);
        let mut object = new(entry.info);
        kubewright_core::Decoder::new().json_into(&mut *object, whole.to_string().as_bytes()).expect("it fits");
        let request: Value = serde_json::from_str(&to_json(&*object)).expect("we wrote it");
        assert_same(&without_unset(&applied(&*object)), &without_unset(&request), entry.info.name);
    }
}

/// `Everything` sets each field once. Recursive types contain empty structs, which may be omitted.
fn without_unset(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().map(|(key, value)| (key.clone(), without_unset(value)));
            Value::Object(kept.filter(|(_, value)| *value != json!({})).collect())
        }
        Value::Array(items) => items.iter().map(without_unset).collect(),
        value => value.clone(),
    }
}

#[test]
fn an_empty_struct_is_sent_where_its_presence_has_a_meaning() {
    let mut count = 0;
    for entry in types() {
        for (index, field) in entry.info.fields.iter().enumerate() {
            let Type::Message(inner) = field.ty else { continue };
            let mut object = new(entry.info);
            if !matches!(object.get(index), Ref::Absent) {
                continue;
            }
            let mut whole = json!({});
            whole[field.name] = json!({});
            kubewright_core::Decoder::new().json_into(&mut *object, whole.to_string().as_bytes()).expect("it fits");
            let is_sent = applied(&*object).get(field.name).is_some();
            let has_meaning = field.flags.has(Flags::POINTER) && !field.flags.has(Flags::REQUIRED);
            assert_eq!(is_sent, has_meaning, "{}.{} of {}", entry.info.name, field.name, inner.name);
            count += usize::from(has_meaning);
        }
    }
    assert!(count > 100, "{count} fields");
}
