//! Server-side apply on metadata, which has maps, sets and associative lists.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{Map, Value};

fn schema() -> MergeSchema<'static> {
    MergeSchema::of(ObjectMeta::default().scheme())
}

fn value(json: &str) -> Value {
    json.parse().unwrap()
}

fn manager(name: &str, operation: ManagedFieldsOperation) -> ManagerIdentifier {
    ManagerIdentifier { name: name.into(), operation, api_version: "v1".into(), subresource: "".into() }
}

fn apply(managers: &mut Managers, live: &mut Value, name: &str, config: &str, force: bool) -> Result<(), ApplyError> {
    let mut after = managers.clone();
    let manager = manager(name, ManagedFieldsOperation::Apply);
    let new = after.apply(live, &value(config), schema(), &FieldSet::new(), &manager, force, Some("now"))?;
    *live = new.unwrap_or(live.clone());
    *managers = after;
    Ok(())
}

#[test]
fn field_sets_round_trip() {
    let text = r#"{"f:a":{".":{},"f:b":{}},"f:c":{"k:{\"x\":1,\"y\":\"z\"}":{}},"f:d":{"v:\"q\"":{}},"i:3":{}}"#;
    let set = FieldSet::from_value(&value(text)).unwrap();
    assert_eq!(set.to_string(), text);
    assert_eq!(set.paths(), [".a", "[3]", ".a.b", r#".c[x=1,y="z"]"#, r#".d[="q"]"#]);
    assert_eq!(FieldSet::from_value(&value(r#"{"x:a":{}}"#)), None);
    assert_eq!(FieldSet::from_value(&value(r#"{"é":{}}"#)), None);
}

#[test]
fn removing_a_field_keeps_the_fields_below_it() {
    let set = FieldSet::of_fields(&[&["a"], &["a", "b"], &["c"]]);
    assert_eq!(set.difference(&FieldSet::of_fields(&[&["a"]])).to_string(), r#"{"f:a":{"f:b":{}},"f:c":{}}"#);
    assert_eq!(set.without_trees(&FieldSet::of_fields(&[&["a"]])).to_string(), r#"{"f:c":{}}"#);
    assert_eq!(set.intersection(&FieldSet::of_fields(&[&["a", "b"]])).to_string(), r#"{"f:a":{"f:b":{}}}"#);
}

#[test]
fn an_omitted_field_is_removed_unless_another_manager_owns_it() {
    let (mut managers, mut live) = (Managers::new(), value("{}"));
    apply(&mut managers, &mut live, "a", r#"{"labels":{"x":"1","y":"2"},"finalizers":["f","g"]}"#, false).unwrap();
    apply(&mut managers, &mut live, "b", r#"{"labels":{"y":"2"},"finalizers":["g","h"]}"#, false).unwrap();
    assert_eq!(live.get("finalizers"), Some(&value(r#"["f","g","h"]"#)));
    apply(&mut managers, &mut live, "a", r#"{"annotations":{"n":"1"}}"#, false).unwrap();
    assert_eq!(live, value(r#"{"annotations":{"n":"1"},"finalizers":["g","h"],"labels":{"y":"2"}}"#));
}

#[test]
fn another_value_is_a_conflict_until_it_is_forced() {
    let (mut managers, mut live) = (Managers::new(), value("{}"));
    apply(&mut managers, &mut live, "a", r#"{"labels":{"x":"1"}}"#, false).unwrap();
    let error = apply(&mut managers, &mut live, "b", r#"{"labels":{"x":"2"}}"#, false).unwrap_err();
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "a": .labels.x"#);
    apply(&mut managers, &mut live, "b", r#"{"labels":{"x":"2"}}"#, true).unwrap();
    let list = managers.to_value().unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(Managers::from_value(&list), Some(managers));
}

#[test]
fn an_update_takes_ownership_of_differences() {
    let (old, new) = (value(r#"{"labels":{"x":"1"}}"#), value(r#"{"labels":{"x":"2"},"annotations":{"n":"1"}}"#));
    let mut managers = Managers::new();
    let (before, after) =
        (manager("old", ManagedFieldsOperation::Update), manager("new", ManagedFieldsOperation::Update));
    managers.update(&value("{}"), &old, schema(), &FieldSet::new(), &before, None);
    managers.update(&old, &new, schema(), &FieldSet::new(), &after, None);
    let fields: Vec<_> = managers.to_value().unwrap().as_array().unwrap().iter().map(|e| e.to_string()).collect();
    assert!(
        fields[0].contains(r#""fieldsV1":{"f:annotations":{".":{},"f:n":{}},"f:labels":{"f:x":{}}}"#),
        "{fields:?}"
    );
    assert!(fields[1].contains(r#""fieldsV1":{"f:labels":{}}"#), "{fields:?}");
}

#[test]
fn too_many_updaters_are_merged() {
    let mut managers = Managers::new();
    let mut old = value("{}");
    for n in 10..22 {
        let mut new = old.clone();
        let labels = new.as_object_mut().unwrap().get_or_insert_with("labels", || value("{}"));
        labels.as_object_mut().unwrap().insert(format!("l{n}"), "x".into());
        let (who, now) = (manager(&format!("m{n}"), ManagedFieldsOperation::Update), format!("2024-01-01T00:00:{n}Z"));
        managers.update(&old, &new, schema(), &FieldSet::new(), &who, Some(&now));
        old = new;
    }
    let list = managers.to_value().unwrap();
    assert_eq!(list.as_array().unwrap().len(), 10);
    assert!(list.to_string().contains("ancient-changes"));
}

#[test]
fn a_type_mismatch_names_its_path() {
    let config = value(r#"{"labels":{"k":5},"ownerReferences":[{"uid":"u"},{"uid":"u"}]}"#);
    assert_eq!(
        check(&config, schema()),
        [
            ".labels.k: expected string, got &value.valueUnstructured{Value:5}",
            r#".ownerReferences: duplicate entries for key [uid="u"]"#,
        ]
    );
    // Validation stops at an unknown field and at an item without identity.
    for (config, want) in [
        (
            r#"{"annotations":[1],"bogus":1,"labels":{"k":5}}"#,
            &[".annotations: expected map, got &{[1]}", ".bogus: field not declared in schema"][..],
        ),
        (
            r#"{"finalizers":[null,1]}"#,
            &[".finalizers: element 0: associative list without keys has an element that's an explicit null"],
        ),
        (
            r#"{"ownerReferences":[null]}"#,
            &[".ownerReferences: element 0: associative list with keys may not have a null element"],
        ),
        (
            r#"{"ownerReferences":["x",1]}"#,
            &[".ownerReferences: element 0: associative list with keys may not have non-map elements"],
        ),
        (
            r#"{"ownerReferences":{"b":[1,"x"],"c":null}}"#,
            &[".ownerReferences: expected list, got &{map[b:[1 x] c:<nil>]}"],
        ),
    ] {
        assert_eq!(check(&value(config), schema()), want);
    }
}

#[test]
fn shared_items_follow_the_order_of_the_applied_configuration() {
    let live = value(r#"{"finalizers":["a","b","c","d"]}"#);
    let config = value(r#"{"finalizers":["c","x","a"]}"#);
    let merged = merge(&live, &config, schema());
    assert_eq!(merged, value(r#"{"finalizers":["b","c","d","x","a"]}"#));
}

proptest! {
    #[test]
    fn a_merged_list_has_the_items_of_both_and_the_order_of_the_configuration(
        live in subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..6).prop_shuffle(),
        config in subsequence(vec!["a", "b", "c", "d", "e", "f"], 1..6).prop_shuffle(),
    ) {
        let object = |items: &[&str]| {
            let items: Vec<Value> = items.iter().map(|item| Value::from(*item)).collect();
            Value::Object([("finalizers", Value::from(items))].into_iter().collect())
        };
        let merged = merge(&object(&live), &object(&config), schema());
        let merged: Vec<_> = merged.get("finalizers").unwrap().as_array().unwrap().iter().collect();
        let merged: Vec<&str> = merged.into_iter().map(|item| item.as_str().unwrap()).collect();
        let of_config: Vec<_> = merged.iter().copied().filter(|item| config.contains(item)).collect();
        prop_assert_eq!(of_config, config.clone());
        let others: Vec<_> = merged.iter().copied().filter(|item| !config.contains(item)).collect();
        let expected: Vec<_> = live.iter().copied().filter(|item| !config.contains(item)).collect();
        prop_assert_eq!(others, expected);
    }

    #[test]
    fn a_sole_applier_gets_exactly_its_configuration(histories in vec(vec((0..4u8, 0..3u8), 0..5), 1..5)) {
        let (mut managers, mut live) = (Managers::new(), value("{}"));
        for labels in histories {
            let labels: Map<Value> = labels.iter().map(|(key, value)| (format!("k{key}"), format!("v{value}").into())).collect();
            let config = Value::Object([("labels", Value::Object(labels.clone()))].into_iter().collect());
            apply(&mut managers, &mut live, "me", &config.to_string(), false).unwrap();
            let left = live.get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
            prop_assert_eq!(left, labels);
        }
    }
}
