//! Generated values round-trip through JSON and protobuf.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/kubewright-api/tests/codecs/model.rs"]
mod model;

use std::sync::LazyLock;

use kubewright_core::Decoder;
use kubewright_core::message::TypeEntry;
use kubewright_core::protobuf::encode_message;
use libfuzzer_sys::fuzz_target;

static TYPES: LazyLock<Vec<&TypeEntry>> = LazyLock::new(model::types);

fuzz_target!(|input: &[u8]| {
    let [first, second, bytes @ ..] = input else { return };
    let entry = TYPES[usize::from(u16::from_be_bytes([*first, *second])) % TYPES.len()];
    let mut value = model::message(entry.info, &mut model::Entropy::new(bytes), 0);
    let mut object = (entry.new)();
    Decoder::new().json_into(&mut *object, value.to_string().as_bytes()).expect("fits the type");
    model::with_kind(entry.info, &mut value);
    let same = |object: &dyn kubewright_core::message::Message, context: &str| {
        let json = serde_json::from_str(&model::to_json(object)).expect("JSON");
        model::assert_same(&json, &value, context);
    };
    same(&*object, "JSON");
    let mut protobuf = Vec::new();
    encode_message(&*object, &mut protobuf);
    let mut again = (entry.new)();
    Decoder::new().protobuf_message_into(&mut *again, &protobuf).expect("we wrote it");
    same(&*again, "protobuf");
});
