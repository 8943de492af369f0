//! Every API type round-trips through all codecs with random values.

use std::cell::RefCell;

use kubewright_api::core::v1::Pod;
use kubewright_core::message::Message;
use kubewright_core::message::TypeEntry;
use kubewright_core::protobuf::encode_message;
use kubewright_core::scheme::TypeInfo;
use kubewright_core::{Decoder, StringPool};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::model::{self, Entropy, Everything, assert_same, to_json, to_server_json};

/// Number of random values per type, for some 580 types.
const CASES: u32 = 16;

#[test]
fn every_type_round_trips_through_json_and_protobuf() {
    for entry in model::types() {
        let pooled = RefCell::new(Decoder::new().pool(StringPool::default()));
        check(entry, &model::message(entry.info, &mut Everything::default(), 0), &mut pooled.borrow_mut());
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..400), |bytes| {
            check(entry, &model::message(entry.info, &mut Entropy::new(&bytes), 0), &mut pooled.borrow_mut());
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{}: {error}", entry.info.name));
    }
}

#[test]
fn repeated_lists_are_shared_even_if_few_pods_have_them() {
    let pod = |name: &str| -> Pod {
        let json = format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"containers": [], "topologySpreadConstraints": [
                {{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}},
                {{"maxSkew": 2, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}}]}}}}"#
        );
        Decoder::new().json(json.as_bytes()).expect("a pod")
    };
    let mut decoder = Decoder::new().pool(StringPool::default());
    let [one, two] = ["a", "b"].map(|name| {
        let (mut bytes, mut again) = (Vec::new(), Pod::default());
        encode_message(&pod(name), &mut bytes);
        decoder.protobuf_message_into(&mut again, &bytes).expect("what was written is read");
        assert_eq!(again, pod(name));
        again.spec.expect("it has one").topology_spread_constraints.clone()
    });
    assert_eq!(one.len(), 2);
    assert!(std::ptr::eq(&*one, &*two));
}

/// `pooled` has decoded the earlier values, and shares repeated ones.
fn check(entry: &TypeEntry, model: &Value, pooled: &mut Decoder) {
    let mut object = model.clone();
    model::with_kind(entry.info, &mut object);
    let decoded = decode(entry.info, &model.to_string());
    let encoded = to_json(&*decoded);
    assert_same(&parse(&encoded), &object, "JSON");
    // The fields in our order rather than by name.
    assert_eq!(to_json(&*decode(entry.info, &encoded)), encoded);

    let bytes = protobuf(&*decoded);
    let mut again = (entry.new)();
    Decoder::new().protobuf_message_into(&mut *again, &bytes).expect("protobuf");
    assert_same(&parse(&to_json(&*again)), &object, "JSON after protobuf");
    assert!(protobuf(&*again) == bytes, "protobuf after protobuf");

    for _ in 0..2 {
        let [mut from_json, mut from_protobuf] = [(entry.new)(), (entry.new)()];
        pooled.json_into(&mut *from_json, encoded.as_bytes()).expect("JSON");
        pooled.protobuf_message_into(&mut *from_protobuf, &bytes).expect("protobuf");
        assert_eq!(to_json(&*from_json), encoded, "JSON that came before");
        assert!(protobuf(&*from_protobuf) == bytes, "protobuf that came before");
    }

    let server = to_server_json(&*decoded);
    let answered = decode(entry.info, &server);
    assert_same(&parse(&to_server_json(&*answered)), &parse(&server), "what a server answers, twice");
    assert_same(&parse(&to_server_json(&*again)), &parse(&server), "what a server answers after protobuf");

    let through_serde = kubewright_core::generated_support::serialize(&*decoded, serde_json::value::Serializer);
    assert_same(&through_serde.expect("serialises"), &object, "through serde");
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

pub fn decode(info: &TypeInfo, json: &str) -> Box<dyn Message> {
    let mut object = model::new(info);
    let result = Decoder::new().json_into(&mut *object, json.as_bytes());
    result.unwrap_or_else(|error| panic!("{}: {error} in {json}", info.name));
    object
}

pub fn protobuf(message: &dyn Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(message, &mut out);
    out
}
