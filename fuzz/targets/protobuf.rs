//! The protobuf decoder rejects the input, or decodes it to an object that round-trips.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/kubewright-api/tests/codecs/model.rs"]
mod model;

use std::sync::LazyLock;

use kubewright_core::Decoder;
use kubewright_core::message::TypeEntry;
use kubewright_core::protobuf::{Envelope, encode_message};
use libfuzzer_sys::fuzz_target;

static TYPES: LazyLock<Vec<&TypeEntry>> = LazyLock::new(model::types);

fuzz_target!(|input: &[u8]| {
    let [first, second, bytes @ ..] = input else { return };
    let entry = TYPES[usize::from(u16::from_be_bytes([*first, *second])) % TYPES.len()];
    let mut decoder = Decoder::new();
    let mut object = (entry.new)();
    if decoder.protobuf_message_into(&mut *object, bytes).is_ok() {
        let mut first = Vec::new();
        encode_message(&*object, &mut first);
        let mut again = (entry.new)();
        decoder.protobuf_message_into(&mut *again, &first).expect("we wrote it");
        let mut second = Vec::new();
        encode_message(&*again, &mut second);
        assert_eq!(first, second);
        // The server's JSON must be the same for objects decoded from protobuf and from JSON.
        let json = model::to_server_json(&*object);
        let mut from_json = (entry.new)();
        decoder.json_into(&mut *from_json, json.as_bytes()).unwrap_or_else(|error| panic!("{error} in {json}"));
        assert_eq!(model::to_server_json(&*from_json), json);
    }
    if let Ok(envelope) = Envelope::decode(bytes) {
        let _ = decoder.protobuf_message_into(&mut *(entry.new)(), envelope.raw);
    }
    let _ = decoder.protobuf_into(&mut *(entry.new)(), bytes);
});
