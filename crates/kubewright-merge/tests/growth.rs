//! The cost is linear in the size of the input, for any order of keys: the sender of an object
//! chooses that order.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kubewright_core::Value;
use kubewright_core::meta::v1::OBJECT_META;
use kubewright_merge::apply::{FieldSet, ManagedFieldsOperation, ManagerIdentifier, Managers, MergeSchema, field_set};
use kubewright_merge::patch::{json_patch, merge_patch, strategic_merge};

/// Entries of the smaller input. Quadratic work dominates at four times as many.
const SMALL: usize = 16_000;

/// Fails if four times the input takes eight times as long in each of several attempts.
#[track_caller]
fn assert_linear<I>(input: impl Fn(usize) -> I, work: impl Fn(&I)) {
    let time = |input: &I| -> Duration {
        let start = Instant::now();
        work(input);
        start.elapsed()
    };
    let (small, large) = (input(SMALL), input(4 * SMALL));
    let mut ratios = Vec::new();
    for _ in 0..6 {
        let ratio = time(&large).as_secs_f64() / time(&small).as_secs_f64();
        if ratio < 8.0 {
            return;
        }
        ratios.push(ratio);
    }
    panic!("four times the input takes longer by {ratios:.1?}");
}

fn descending(count: usize) -> impl Iterator<Item = String> {
    (0..count).rev().map(|n| format!("k{n:07}"))
}

/// An object with `count` keys in descending order, each with this value.
fn object(count: usize, value: &str) -> String {
    let mut text = String::from("{");
    for key in descending(count) {
        write!(text, "\"{key}\":{value},").unwrap();
    }
    text.pop();
    text + "}"
}

fn tree(text: &str) -> Value {
    text.parse().expect("it is JSON")
}

#[test]
fn merge_patches_add_and_remove_any_number_of_keys() {
    let input = |count| (tree(&object(count, "1")), tree(&object(count, "null")));
    assert_linear(input, |(target, patch)| {
        assert_eq!(merge_patch(target, patch).unwrap().to_string(), "{}");
    });
    let input = |count| (tree(r#"{"z":1}"#), tree(&object(count, "1")));
    assert_linear(input, |(target, patch)| drop(merge_patch(target, patch).unwrap()));
}

#[test]
fn strategic_merge_patches_add_and_remove_any_number_of_keys() {
    let annotations = |text: String| tree(&format!(r#"{{"annotations":{text}}}"#));
    let merge = |target: &Value, patch: &Value| strategic_merge(target, patch, &OBJECT_META).unwrap();
    let input = |count| (annotations(object(count, "\"x\"")), annotations(object(count, "null")));
    assert_linear(input, |(target, patch)| drop(merge(target, patch)));
    let input = |count| {
        let keys: String = descending(count).map(|key| format!("\"{key}\",")).collect();
        let patch = object(count, "\"y\"");
        let patch = format!("{{\"$retainKeys\":[{}],{}", keys.trim_end_matches(','), &patch[1..]);
        (annotations(object(count, "\"x\"")), annotations(patch))
    };
    assert_linear(input, |(target, patch)| drop(merge(target, patch)));
}

/// A patch with the maximum number of operations.
fn operations(count: usize, operation: impl Fn(usize) -> String) -> Value {
    let all: Vec<_> = (0..count).rev().map(operation).collect();
    tree(&format!("[{}]", all.join(",")))
}

#[test]
fn json_patches_do_not_walk_the_document_for_each_operation() {
    // Adding and removing keys of a large object.
    let input = |count: usize| {
        let patch = operations(count / 8, |n| format!(r#"{{"op":"add","path":"/a{n:07}","value":1}}"#));
        (tree(&object(2 * count, "1")), patch)
    };
    assert_linear(input, |(target, patch)| drop(json_patch(target, patch).unwrap()));
    // Moves a large value, whose depth is tracked.
    let input = |count: usize| {
        let patch = operations(count / 8, |n| match n % 2 {
            0 => r#"{"op":"move","from":"/b","path":"/a"}"#.to_owned(),
            _ => r#"{"op":"move","from":"/a","path":"/b"}"#.to_owned(),
        });
        (tree(&format!("{{\"a\":{}}}", object(count, "1"))), patch)
    };
    assert_linear(input, |(target, patch)| drop(json_patch(target, patch).unwrap()));
}

#[test]
fn json_patches_move_only_so_many_items_of_lists() {
    let target = tree(&format!("[{}0]", "0,".repeat(50_000)));
    let front = r#"{"op":"add","path":"/0","value":1}"#.to_owned();
    assert!(json_patch(&target, &operations(1000, |_| front.clone())).is_ok());
    let error = json_patch(&target, &operations(3000, |_| front.clone())).unwrap_err();
    assert!(error.to_string().contains("move more than"), "{error}");
}

#[test]
fn moves_cannot_nest_a_document_too_deep() {
    let chain = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let target = tree(&format!("{{\"deep\":{},\"other\":{}}}", chain(150), chain(150)));
    let bottom = "/other".to_owned() + &"/a".repeat(149);
    let patch = tree(&format!(r#"[{{"op":"move","from":"/deep","path":"{bottom}"}}]"#));
    let error = json_patch(&target, &patch).unwrap_err();
    assert!(error.to_string().contains("nested deeper"), "{error}");
}

fn manager(name: &str) -> ManagerIdentifier {
    let [name, api_version] = [name, "v1"].map(Into::into);
    ManagerIdentifier { name, operation: ManagedFieldsOperation::Apply, api_version, subresource: "".into() }
}

fn schema() -> MergeSchema<'static> {
    MergeSchema::custom(&OBJECT_META)
}

#[test]
fn field_sets_do_not_depend_on_the_order_of_items() {
    let input = |count| {
        let items: Vec<_> = descending(count).map(|key| format!("\"{key}\"")).collect();
        tree(&format!(r#"{{"metadata":{{"finalizers":[{}]}}}}"#, items.join(",")))
    };
    assert_linear(input, |value| assert!(!field_set(value, schema()).is_empty()));
}

#[test]
fn managed_fields_are_read_in_any_form() {
    // Keys whose order changes by normalisation.
    let input = |count: usize| {
        let keys: Vec<_> = (0..count).map(|n| format!("\"v:{n:07}.5e{}\":{{}}", 10 + n % 7)).collect();
        tree(&format!("{{{}}}", keys.join(",")))
    };
    assert_linear(input, |value| assert!(FieldSet::from_value(value).is_none_or(|set| !set.is_empty())));
    // Many managers of one field each; an update subtracts from all of them, and merges the oldest.
    let input = |count: usize| {
        let one = |n: usize| {
            format!(
                r#"{{"manager":"m{n}","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:a{n}":{{}}}}}}"#
            )
        };
        let all: Vec<_> = (0..count / 4).map(one).collect();
        (tree(&format!("[{}]", all.join(","))), tree(&object(count, "1")))
    };
    assert_linear(input, |(value, new)| {
        let mut managers = Managers::from_value(value).expect("these are managers");
        managers.update(&tree("{}"), new, schema(), &FieldSet::new(), &manager("new"), None);
        assert!(managers.iter().count() <= 11);
    });
}

#[test]
fn a_long_key_is_not_repeated_without_bound() {
    let fields = object(1000, "1");
    let long = "x".repeat(100_000);
    // Messages about type mismatches.
    let config = tree(&format!(r#"{{"metadata":{{"annotations":{{"{long}":{fields}}},"labels":{fields}}}}}"#));
    let mut managers = Managers::new();
    let error = managers.apply(&tree("{}"), &config, schema(), &FieldSet::new(), &manager("a"), false, None);
    assert!(error.unwrap_err().to_string().len() < 2 << 20);
    // Conflicts.
    let live = tree(&format!(r#"{{"{long}":{fields}}}"#));
    let config = tree(&format!(r#"{{"{long}":{}}}"#, object(1000, "2")));
    let mut managers = Managers::new();
    managers.apply(&tree("{}"), &live, schema(), &FieldSet::new(), &manager("a"), false, None).unwrap();
    let error = managers.apply(&live, &config, schema(), &FieldSet::new(), &manager("b"), false, None).unwrap_err();
    assert!(error.to_string().len() < 4 << 20);
}
