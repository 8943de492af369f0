use proptest::prelude::*;

use super::*;
use kubewright_core::scheme::{FieldInfo, Flags, ListType, Rules, Type};

const MERGE_BY_NAME: Rules = Rules { patch: &["merge"], merge_key: Some("name"), ..Rules::NONE };
const MERGE: Rules = Rules { list: ListType::Set, patch: &["merge"], ..Rules::NONE };
const MERGE_RETAIN: Rules = Rules { patch: &["merge", "retainKeys"], merge_key: Some("name"), ..Rules::NONE };
const REPLACE: Rules = Rules { patch: &["replace"], ..Rules::NONE };

const fn field(name: &'static str, ty: Type, rules: &'static Rules) -> FieldInfo {
    FieldInfo { name, ty, flags: Flags(0), rules }
}

static ITEM: TypeInfo = TypeInfo {
    name: "example.Item",
    kind: None,
    fields: &[
        field("name", Type::String, &Rules::NONE),
        field("value", Type::Int64, &Rules::NONE),
        field("inner", Type::List(&Type::Message(&ITEM)), &MERGE_BY_NAME),
        field("args", Type::List(&Type::String), &Rules::NONE),
    ],
    numbers: &[],
    embedded: &[],
    atomic: false,
    union: None,
};

static THING: TypeInfo = TypeInfo {
    name: "example.Thing",
    kind: None,
    fields: &[
        field("items", Type::List(&Type::Message(&ITEM)), &MERGE_BY_NAME),
        field("volumes", Type::List(&Type::Message(&ITEM)), &MERGE_RETAIN),
        field("atomic", Type::List(&Type::Message(&ITEM)), &Rules::NONE),
        field("finalizers", Type::List(&Type::String), &MERGE),
        field("numbers", Type::List(&Type::Int64), &MERGE),
        field("labels", Type::Map(&Type::String), &Rules::NONE),
        field("nested", Type::Map(&Type::Message(&ITEM)), &Rules::NONE),
        field("item", Type::Message(&ITEM), &Rules::NONE),
        field("whole", Type::Message(&ITEM), &REPLACE),
        field("lists", Type::List(&Type::String), &MERGE),
    ],
    numbers: &[],
    embedded: &[],
    atomic: false,
    union: None,
};

fn merged(target: &str, patch: &str) -> Result<String, PatchError> {
    strategic_merge(&target.parse().unwrap(), &patch.parse().unwrap(), &THING).map(|value| value.to_string())
}

#[test]
fn merges_follow_the_schema() {
    for (target, patch, want) in [
        // Maps.
        (r#"{"labels":{"a":"1","b":"2"}}"#, r#"{"labels":{"a":null,"c":"3"}}"#, r#"{"labels":{"b":"2","c":"3"}}"#),
        (r#"{"labels":{"a":"1"}}"#, r#"{"labels":{"$patch":"replace","b":"2"}}"#, r#"{"labels":{"b":"2"}}"#),
        (r#"{"labels":{"a":"1"}}"#, r#"{"labels":{"$patch":"delete"}}"#, r#"{"labels":{}}"#),
        (r#"{}"#, r#"{"labels":{"$patch":"replace","b":"2"}}"#, r#"{}"#),
        (r#"{"labels":{"a":"1"}}"#, r#"{"labels":null}"#, r#"{}"#),
        (r#"{}"#, r#"{"item":{"name":"a","value":null}}"#, r#"{"item":{"name":"a"}}"#),
        (r#"{"whole":{"name":"a","value":1}}"#, r#"{"whole":{"name":"b"}}"#, r#"{"whole":{"name":"b"}}"#),
        (r#"{"item":{"name":"a"}}"#, r#"{"item":5}"#, r#"{"item":5}"#),
        (r#"{"a":1}"#, r#"{"$patch":"replace","b":2}"#, r#"{"b":2}"#),
        // Lists of objects.
        (
            r#"{"items":[{"name":"a","value":1},{"name":"b"}]}"#,
            r#"{"items":[{"name":"b","value":2}]}"#,
            r#"{"items":[{"name":"a","value":1},{"name":"b","value":2}]}"#,
        ),
        (r#"{"items":[{"name":"a"}]}"#, r#"{"items":[{"name":"n"}]}"#, r#"{"items":[{"name":"n"},{"name":"a"}]}"#),
        (
            r#"{"items":[{"name":"a"},{"name":"b"}]}"#,
            r#"{"items":[{"name":"b"},{"name":"n"}]}"#,
            r#"{"items":[{"name":"a"},{"name":"b"},{"name":"n"}]}"#,
        ),
        (
            r#"{"items":[{"name":"a"},{"name":"b"}]}"#,
            r#"{"items":[{"$patch":"delete","name":"a"},{"name":"b","value":1}]}"#,
            r#"{"items":[{"name":"b","value":1}]}"#,
        ),
        (r#"{"items":[{"name":"a"}]}"#, r#"{"items":[{"$patch":"delete","name":"a"}]}"#, r#"{"items":[]}"#),
        (r#"{"items":[{"name":"a"}]}"#, r#"{"items":[{"$patch":"replace"}]}"#, r#"{"items":[]}"#),
        (
            r#"{"items":[{"name":"a"}]}"#,
            r#"{"items":[{"name":"n"},{"$patch":"replace"}]}"#,
            r#"{"items":[{"name":"n"}]}"#,
        ),
        (r#"{"items":[{"name":"a"}]}"#, r#"{"items":[]}"#, r#"{"items":[{"name":"a"}]}"#),
        (
            r#"{"items":[{"name":"a","inner":[{"name":"x"}],"args":["1","2"]}]}"#,
            r#"{"items":[{"name":"a","inner":[{"name":"x","value":1}],"args":["3"]}]}"#,
            r#"{"items":[{"args":["3"],"inner":[{"name":"x","value":1}],"name":"a"}]}"#,
        ),
        (r#"{}"#, r#"{"items":[{"name":"a"},{"name":"b","$patch":"delete"}]}"#, r#"{"items":[{"name":"a"}]}"#),
        (r#"{"atomic":[{"name":"a"}]}"#, r#"{"atomic":[{"name":"b"}]}"#, r#"{"atomic":[{"name":"b"}]}"#),
        (
            r#"{"items":[{"name":1,"value":1}]}"#,
            r#"{"items":[{"name":1.0,"value":2}]}"#,
            r#"{"items":[{"name":1.0,"value":2}]}"#,
        ),
        // Lists of scalars.
        (r#"{"finalizers":["a","b"]}"#, r#"{"finalizers":["b","c"]}"#, r#"{"finalizers":["a","b","c"]}"#),
        (r#"{"finalizers":["a"]}"#, r#"{"finalizers":["c"]}"#, r#"{"finalizers":["c","a"]}"#),
        (r#"{"numbers":[1,2]}"#, r#"{"numbers":[2.0]}"#, r#"{"numbers":[1,2]}"#),
        (
            r#"{"finalizers":["a","b","c"]}"#,
            r#"{"$deleteFromPrimitiveList/finalizers":["b","x"]}"#,
            r#"{"finalizers":["a","c"]}"#,
        ),
        (r#"{}"#, r#"{"$deleteFromPrimitiveList/finalizers":["b"]}"#, r#"{}"#),
        (
            r#"{"finalizers":["a","b"]}"#,
            r#"{"$setElementOrder/finalizers":["c","b"],"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}"#,
            r#"{"finalizers":["c","b"]}"#,
        ),
        // Element orders.
        (
            r#"{"items":[{"name":"a"},{"name":"b"}]}"#,
            r#"{"$setElementOrder/items":[{"name":"b"},{"name":"a"}]}"#,
            r#"{"items":[{"name":"b"},{"name":"a"}]}"#,
        ),
        (
            r#"{"items":[{"name":"live"},{"name":"a"},{"name":"b"}]}"#,
            r#"{"$setElementOrder/items":[{"name":"b"},{"name":"n"},{"name":"a"}],"items":[{"name":"n","value":1}]}"#,
            r#"{"items":[{"name":"live"},{"name":"b"},{"name":"n","value":1},{"name":"a"}]}"#,
        ),
        // Another writer's item stays before those that replace deleted ones.
        (
            r#"{"items":[{"name":"z"},{"name":"b"},{"name":"c"}]}"#,
            r#"{"$setElementOrder/items":[{"name":"d"},{"name":"a"},{"name":"g"}],"items":[{"name":"d"},{"name":"a"},
                {"name":"g"},{"$patch":"delete","name":"b"},{"$patch":"delete","name":"c"}]}"#,
            r#"{"items":[{"name":"z"},{"name":"d"},{"name":"a"},{"name":"g"}]}"#,
        ),
        (r#"{}"#, r#"{"$setElementOrder/items":[{"name":"b"}]}"#, r#"{}"#),
        (r#"{}"#, r#"{"$setElementOrder/items":[{"name":"b"}],"items":[{"name":"b"}]}"#, r#"{"items":[{"name":"b"}]}"#),
        // Retained fields.
        (
            r#"{"volumes":[{"name":"v","value":1,"args":["x"]}]}"#,
            r#"{"volumes":[{"$retainKeys":["name","value"],"name":"v","value":2}]}"#,
            r#"{"volumes":[{"name":"v","value":2}]}"#,
        ),
        (
            r#"{"item":{"name":"v","value":1}}"#,
            r#"{"item":{"$retainKeys":["name"],"value":null}}"#,
            r#"{"item":{"name":"v"}}"#,
        ),
    ] {
        assert_eq!(merged(target, patch).as_deref(), Ok(want), "{target} by {patch}");
    }
}

#[test]
fn unmergeable_patches_are_rejected() {
    let target = r#"{"items":[{"name":"a"}],"item":{"name":"v"},"labels":{"a":"b"},"nested":{"x":{"name":"x"}},"lists":[["a"]],"finalizers":["a"],"unknown":{}}"#;
    for (patch, want) in [
        (r#"{"$patch":"explode"}"#, "unknown patch type"),
        (r#"{"labels":{"$patch":"merge"}}"#, "unknown patch type"),
        (r#"{"items":[{"name":"a","$patch":"explode"}]}"#, "unknown patch type"),
        (r#"{"items":[{"name":"a","$patch":"merge"}]}"#, "merging lists cannot yet be specified"),
        (r#"{"items":[{"value":1}]}"#, "does not contain declared merge key: name"),
        (r#"{"items":[{"$patch":"delete"}]}"#, "does not contain declared merge key: name"),
        (r#"{"items":["a"]}"#, "types are not identical"),
        (r#"{"items":[null]}"#, "types are not identical"),
        (r#"{"finalizers":[null]}"#, "types are not identical"),
        (r#"{"lists":[["b"]]}"#, "lists of lists are not supported"),
        (r#"{"nested":{"x":{"value":1}}}"#, "data type is not struct, instead is: map"),
        (r#"{"unknown":{"a":1}}"#, "unable to find api field in struct Thing for the json field \"unknown\""),
        (r#"{"item":{"$retainKeys":["name"],"value":1}}"#, "invalid patch format of retainKeys"),
        (r#"{"item":{"$retainKeys":"name"}}"#, "invalid patch format of retainKeys"),
        (r#"{"$setElementOrder/items":{}}"#, "expected a []interface {}"),
        (r#"{"$setElementOrder/items":[{"name":"a"}],"items":[{"name":"b"}]}"#, "doesn't match"),
        (r#"{"$setElementOrder/items":[{"value":"a"}]}"#, "does not contain declared merge key"),
        (r#"{"$setElementOrder/none":["a"]}"#, "unable to find api field"),
        (r#"[]"#, "cannot unmarshal array"),
    ] {
        let error = merged(target, patch).unwrap_err().to_string();
        assert!(error.contains(want), "{patch}: {error}");
    }
}

#[test]
fn only_errors_of_form_are_the_clients_fault() {
    use kubewright_core::meta::v1::Status;
    let code = |patch: &str| Status::from(merged(r#"{"items":[{"name":"a"}],"item":{}}"#, patch).unwrap_err()).code;
    assert_eq!(code("[]"), Some(400));
    assert_eq!(code(r#"{"item":{"$retainKeys":1}}"#), Some(400));
    assert_eq!(code(r#"{"items":[{"value":1}]}"#), Some(500));
}

/// Objects of the test type and patches with directives; most are invalid in some way.
fn tree() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        Just(Value::Bool(true)),
        (0..3i64).prop_map(Value::from),
        "replace|delete|merge|name|a|b".prop_map(Value::from),
    ];
    let key = "name|value|inner|items|volumes|atomic|finalizers|labels|nested|item|\\$patch|\\$retainKeys\
        |\\$setElementOrder/(items|finalizers|none)|\\$deleteFromPrimitiveList/(finalizers|items)";
    scalar.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..5).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_patch_is_too_strange(target in tree(), patch in tree()) {
        let _ = strategic_merge(&target, &patch, &THING);
        let _ = crate::patch::merge_patch(&target, &patch);
        let _ = crate::patch::json_patch(&target, &patch);
    }

    #[test]
    fn a_patch_without_directives_is_idempotent(names in prop::collection::vec("[a-d]", 0..4), more in prop::collection::vec("[a-f]", 0..4)) {
        let items = |names: &[String]| {
            let mut seen = Vec::new();
            let items = names.iter().filter(|name| !seen.contains(name) && { seen.push(name); true });
            let items: Vec<String> = items.map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
            format!(r#"{{"items":[{}]}}"#, items.join(","))
        };
        let once = merged(&items(&names), &items(&more)).unwrap();
        prop_assert_eq!(merged(&once, &items(&more)).unwrap(), once);
    }
}
