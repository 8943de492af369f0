//! The JSON decoder rejects a text, or decodes it to an object that round-trips.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/kubewright-api/tests/codecs/model.rs"]
mod model;

use std::sync::LazyLock;

use kubewright_core::message::TypeEntry;
use kubewright_core::{Decoder, DynamicObject, Object, StringPool, Value};
use libfuzzer_sys::fuzz_target;

static TYPES: LazyLock<Vec<&TypeEntry>> = LazyLock::new(model::types);

fuzz_target!(|input: &[u8]| {
    let [first, second, strict, text @ ..] = input else { return };
    let entry = TYPES[usize::from(u16::from_be_bytes([*first, *second])) % TYPES.len()];
    let mut decoder = Decoder::new().pool(StringPool::default());
    if strict & 1 == 1 {
        decoder = decoder.report_findings();
    }
    let mut object = (entry.new)();
    if decoder.json_into(&mut *object, text).is_ok() {
        for json in [model::to_json(&*object), model::to_server_json(&*object)] {
            let mut again = (entry.new)();
            decoder.json_into(&mut *again, json.as_bytes()).unwrap_or_else(|error| panic!("{error} in {json}"));
            assert_eq!(model::to_server_json(&*again), model::to_server_json(&*object));
        }
        let _ = format!("{object:?}", object = kubewright_core::message::Ref::Message(&*object));
    }
    if let Ok(tree) = Value::from_json(text) {
        assert_eq!(Value::from_json(tree.to_string().as_bytes()), Ok(tree));
        assert!(serde_json::from_slice::<serde_json::Value>(text).is_ok() || tree_is_deep(text));
    }
    if let Ok(object) = std::str::from_utf8(text).unwrap_or_default().parse::<DynamicObject>() {
        let json = String::from_utf8(object.to_json()).expect("strings are UTF-8");
        // Managed fields are stored as text, including white space.
        assert_eq!(json.parse::<DynamicObject>().expect("we wrote it"), object);
        let _ = object.get(&["metadata", "labels"]);
    }
});

/// serde_json is limited to 128 levels, our decoder to 256.
fn tree_is_deep(text: &[u8]) -> bool {
    text.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > 120
}
