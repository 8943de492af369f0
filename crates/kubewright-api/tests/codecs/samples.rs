//! A typical pod as JSON and protobuf, as a Go server encodes it.

use kubewright_api::core::v1::Pod;
use kubewright_core::protobuf::encode_message;
use kubewright_core::stream::{Encoding, WatchDecoder, WatchEvent};
use kubewright_core::{Decoder, Object, StringPool};

use crate::model::{assert_same, to_server_json};

pub const POD_JSON: &[u8] = include_bytes!("data/pod.json");
pub const POD_PROTOBUF: &[u8] = include_bytes!("data/pod.pb");
pub const POD_EVENT: &[u8] = include_bytes!("data/pod.frame");

#[test]
fn both_forms_of_a_pod_are_the_same_object() {
    let mut decoder = Decoder::new();
    let from_json: Pod = decoder.json(POD_JSON).expect("JSON");
    let mut from_protobuf: Pod = decoder.protobuf(POD_PROTOBUF).expect("protobuf");
    // Go sorts the keys of raw JSON when it encodes protobuf.
    for (ours, theirs) in from_protobuf.metadata.managed_fields.iter_mut().zip(from_json.metadata.managed_fields.iter())
    {
        let value = |raw: &Option<kubewright_core::RawJson>| raw.as_ref().and_then(|raw| raw.to_value().ok());
        assert_eq!(value(&ours.fields_v1), value(&theirs.fields_v1));
        ours.fields_v1 = theirs.fields_v1.clone();
    }
    assert_eq!(from_protobuf, from_json);
    let written = serde_json::from_str(&to_server_json(&from_json)).expect("JSON");
    assert_same(&written, &serde_json::from_slice(POD_JSON).expect("JSON"), "pod");
}

#[test]
fn a_watch_event_decodes_to_the_same_pod() {
    let mut stream = WatchDecoder::<Pod>::new(Encoding::Protobuf);
    let mut decoder = Decoder::new().skip_managed_fields().pool(StringPool::default());
    stream.push(POD_EVENT);
    let Ok(Some(WatchEvent::Modified(pod))) = stream.next(&mut decoder) else { panic!("no event") };
    assert_eq!(pod, decoder.json(POD_JSON).expect("JSON"));
    assert!(pod.metadata.managed_fields.is_empty());
    assert_eq!(pod.name(), "search-worker-1-k99lc5ljkh-pmcxc11");
}

/// Go also writes zero values of value fields. Without them, the encodings are equal.
#[test]
fn our_protobuf_is_no_longer_than_that_of_go() {
    let pod: Pod = Decoder::new().protobuf(POD_PROTOBUF).expect("protobuf");
    let mut ours = Vec::new();
    encode_message(&pod, &mut ours);
    assert!(ours.len() <= POD_PROTOBUF.len());
    let mut again = Pod::default();
    Decoder::new().protobuf_message_into(&mut again, &ours).expect("ours");
    assert_eq!(again, pod);
}
