//! The cost is linear in the size of the input, for any order of keys: the sender of an object
//! chooses that order.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use kubewright_core::meta::v1::ObjectMeta;
use kubewright_core::{Decoder, Finding, Map, Value};

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
    // Two concatenated messages are their merge.
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
fn a_long_key_is_not_repeated_without_bound() {
    let long = "x".repeat(100_000);
    let mut decoder = Decoder::new().report_findings();
    let text = format!(r#"{{"{long}":{{"{long}":{{"a":1,"a":2}}}}}}"#);
    kubewright_core::json::Reader::new(text.as_bytes(), &mut decoder).tree().unwrap();
    assert_eq!(path(&decoder.take_findings()[0]), "a");
}
