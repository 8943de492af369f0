//! Work grows with the size of the input, and not with its square. The sender of an object chooses the
//! order of its keys.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kubewright_core::apply::{FieldSet, Manager, Managers, Operation, Schema, compare, field_set};
use kubewright_core::meta::v1::{OBJECT_META, ObjectMeta};
use kubewright_core::patch::{json_patch, merge_patch, strategic_merge};
use kubewright_core::{Decoder, Finding, Map, Value, yaml};

/// Entries of the smaller input. Quadratic work dominates everything else at four times as many.
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

fn path(finding: &Finding) -> String {
    let (Finding::UnknownField(path) | Finding::DuplicateField(path)) = finding;
    path.clone()
}

fn tree(text: &str) -> Value {
    text.parse().expect("it is JSON")
}

#[test]
fn maps_are_collected_and_extended_in_any_order() {
    let keys = |count| descending(count).collect::<Vec<_>>();
    assert_linear(keys, |keys| {
        let map: Map<u8> = keys.iter().map(|key| (key.as_str(), 1)).collect();
        assert_eq!(map.len(), keys.len());
    });
    assert_linear(keys, |keys| {
        let mut map: Map<u8> = [("z", 1)].into();
        map.extend(keys.iter().map(|key| (key.as_str(), 1)));
        assert_eq!(map.len(), keys.len() + 1);
    });
}

#[test]
fn json_trees_are_decoded_in_any_order_of_keys() {
    assert_linear(|count| object(count, "1"), |text| drop(tree(text)));
}

#[test]
fn json_maps_of_text_are_decoded_in_any_order_of_keys() {
    let input = |count| format!(r#"{{"labels":{}}}"#, object(count, r#""x""#));
    assert_linear(input, |text| {
        let mut decoder = Decoder::new();
        let mut meta = ObjectMeta::default();
        kubewright_core::json::Reader::new(text.as_bytes(), &mut decoder).message(&mut meta).unwrap();
        assert!(!meta.labels.is_empty());
    });
}

#[test]
fn serde_decodes_in_any_order_of_keys() {
    assert_linear(
        |count| object(count, "1"),
        |text| {
            drop(serde_json::from_str::<Value>(text).unwrap());
            drop(serde_json::from_str::<Map<u8>>(text).unwrap());
        },
    );
}

#[test]
fn yaml_is_decoded_in_any_order_of_keys() {
    let input = |count| descending(count).map(|key| key + ": 1\n").collect::<String>();
    assert_linear(input, |text| drop(yaml::parse(text).unwrap()));
    let merges = |count| {
        let all: String = descending(count / 4).map(|key| format!("{{{key}: 1}},")).collect();
        format!("a:\n  <<: [{all}]\n")
    };
    assert_linear(merges, |text| drop(yaml::parse(text).unwrap()));
}

/// An entry of `labels` in protobuf.
fn label(key: &str) -> Vec<u8> {
    let entry = [&[0x0a, key.len() as u8], key.as_bytes(), &[0x12, 1, b'x']].concat();
    [&[11 << 3 | 2, entry.len() as u8], &entry[..]].concat()
}

fn decode_metadata(bytes: &[u8]) -> Result<ObjectMeta, kubewright_core::DecodeError> {
    let mut meta = ObjectMeta::default();
    kubewright_core::protobuf::decode_message(&mut meta, bytes, &mut Decoder::new()).map(|()| meta)
}

#[test]
fn protobuf_maps_are_decoded_in_any_order_of_keys() {
    let input = |count| descending(count).flat_map(|key| label(&key)).collect::<Vec<u8>>();
    assert_linear(input, |bytes| assert!(!decode_metadata(bytes).unwrap().labels.is_empty()));
}

#[test]
fn large_protobuf_maps_must_not_be_scattered() {
    let scattered = |count| -> Vec<u8> {
        let generation = [7 << 3, 1];
        descending(count).flat_map(|key| [label(&key), generation.to_vec()].concat()).collect()
    };
    assert_eq!(decode_metadata(&scattered(200)).unwrap().labels.len(), 200);
    let error = decode_metadata(&scattered(1000)).unwrap_err();
    assert!(error.to_string().contains("scattered"), "{error}");
    // Two messages one after the other are their merge.
    let [first, second] = [(0..500), (500..1000)].map(|range| -> Vec<u8> {
        let entries = range.flat_map(|n| label(&format!("k{n:07}")));
        entries.chain([7 << 3, 1]).collect()
    });
    assert_eq!(decode_metadata(&[second, first].concat()).unwrap().labels.len(), 1000);
}

#[test]
fn findings_keep_the_order_and_the_paths_of_the_input() {
    let many = object(200, "1");
    let text = format!("{}{},\"k0000007\":2,\"a\":{{\"b\":1,\"b\":2}}}}", &many[..many.len() - 1], ",\"k0000150\":3");
    let mut decoder = Decoder::new().report_findings();
    let value = kubewright_core::json::Reader::new(text.as_bytes(), &mut decoder).tree().unwrap();
    assert_eq!(value.get("k0000007"), Some(&Value::Int(2)));
    let paths: Vec<_> = decoder.take_findings().iter().map(path).collect();
    assert_eq!(paths, ["k0000150", "k0000007", "a.b"]);
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

/// A patch with as many operations as allowed.
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
    // Moving a large value, whose depth counts.
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

fn manager(name: &str) -> Manager {
    let [name, api_version] = [name, "v1"].map(Into::into);
    Manager { name, operation: Operation::Apply, api_version, subresource: "".into() }
}

fn schema() -> Schema<'static> {
    Schema::custom(&OBJECT_META)
}

#[test]
fn apply_merges_and_compares_any_number_of_fields() {
    let with = |parity: usize, count: usize| {
        let keys = (0..count).filter(|n| n % 2 == parity).map(|n| format!("\"k{n:07}\":\"x\""));
        tree(&format!(r#"{{"spec":{{{}}}}}"#, keys.collect::<Vec<_>>().join(",")))
    };
    let input = |count| (with(0, count), with(1, count));
    assert_linear(input, |(live, config)| {
        let mut managers = Managers::new();
        let applied = managers.apply(live, config, schema(), &FieldSet::new(), &manager("a"), false, None).unwrap();
        let applied = applied.expect("it has new fields");
        let found = compare(live, &applied, schema());
        assert!(!found.added.is_empty() && found.removed.is_empty());
        // The second one takes all fields away again.
        managers.apply(&applied, &tree("{}"), schema(), &FieldSet::new(), &manager("a"), false, None).unwrap();
    });
}

#[test]
fn field_sets_of_lists_are_made_in_any_order_of_items() {
    let input = |count| {
        let items: Vec<_> = descending(count).map(|key| format!("\"{key}\"")).collect();
        tree(&format!(r#"{{"metadata":{{"finalizers":[{}]}}}}"#, items.join(",")))
    };
    assert_linear(input, |value| assert!(!field_set(value, schema()).is_empty()));
}

#[test]
fn managed_fields_are_read_in_any_form() {
    // Keys that sort otherwise once they are normalised.
    let input = |count: usize| {
        let keys: Vec<_> = (0..count).map(|n| format!("\"v:{n:07}.5e{}\":{{}}", 10 + n % 7)).collect();
        tree(&format!("{{{}}}", keys.join(",")))
    };
    assert_linear(input, |value| assert!(FieldSet::from_value(value).is_none_or(|set| !set.is_empty())));
    // Many managers of one field each; an update takes from all of them, and merges the oldest.
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
    // Messages about a configuration that does not fit.
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
    // Findings.
    let mut decoder = Decoder::new().report_findings();
    let text = format!(r#"{{"{long}":{{"{long}":{{"a":1,"a":2}}}}}}"#);
    kubewright_core::json::Reader::new(text.as_bytes(), &mut decoder).tree().unwrap();
    assert_eq!(path(&decoder.take_findings()[0]), "a");
}
