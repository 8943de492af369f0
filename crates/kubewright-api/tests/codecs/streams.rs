//! Lists and watches decode to the same objects regardless of chunk boundaries.

use kubewright_api::core::v1::Pod;
use kubewright_core::json::Writer;
use kubewright_core::meta::v1::{ListMeta, Status};
use kubewright_core::protobuf::{Encoder, Envelope};
use kubewright_core::stream::{Bookmark, Encoding, ListDecoder, WatchDecoder, WatchEvent};
use kubewright_core::{DecodeError, Decoder, DynamicObject, GroupVersionKind, Object, ObjectList};
use proptest::prelude::*;

use crate::model::{self, Entropy};

const ENCODINGS: [Encoding; 2] = [Encoding::Json, Encoding::Protobuf];

#[test]
fn a_list_in_pieces_of_any_size_is_the_list() {
    let pods = pods(3);
    for encoding in ENCODINGS {
        let bytes = list(encoding, &pods);
        let whole = decode_list(encoding, [&bytes[..]]).expect("decodes");
        assert_eq!(whole, ObjectList { metadata: list_metadata(), items: pods.clone() });
        for size in 1..=bytes.len() {
            assert_eq!(
                decode_list(encoding, bytes.chunks(size)).as_ref(),
                Ok(&whole),
                "{encoding:?}, pieces of {size}"
            );
        }
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(decode_list(encoding, [head, tail]).as_ref(), Ok(&whole), "{encoding:?}, cut at {at}");
        }
    }
}

#[test]
fn a_list_that_ends_early_is_an_error_wherever_it_ends() {
    for encoding in ENCODINGS {
        let bytes = list(encoding, &pods(2));
        // The envelope ends with two empty fields, which may be missing.
        let tail = if encoding == Encoding::Protobuf { 4 } else { 0 };
        for end in 0..bytes.len() - tail {
            let error = decode_list::<Pod>(encoding, [&bytes[..end]]).expect_err("is cut");
            assert!(error.is_truncated(), "{encoding:?}, cut at {end}: {error}");
        }
    }
}

/// A list may be larger than memory, so the decoder must find the end of an item without the end of
/// the list.
#[test]
fn an_item_is_given_as_soon_as_it_is_whole_wherever_the_pieces_end() {
    let pods = pods(3);
    let mut with_unknown = br#"{"unknown":123,"kind":"PodList","items":["#.to_vec();
    with_unknown.extend_from_slice(&pods[0].to_json());
    let (first, end) = (with_unknown.len(), b",{\"metadata\":{\"name\":\"next\"}}");
    with_unknown.extend_from_slice(end);
    let json = list(Encoding::Json, &pods);
    let plain = json.windows(14).position(|bytes| bytes == b"},{\"metadata\":").expect("a second item") + 1;
    for (bytes, first) in [(with_unknown, first), (json, plain)] {
        for at in 0..first {
            let mut stream = ListDecoder::<Pod>::new(Encoding::Json);
            let mut decoder = Decoder::new();
            stream.push(&bytes[..at]);
            assert_eq!(stream.next(&mut decoder), Ok(None));
            stream.push(&bytes[at..=first]);
            assert_eq!(stream.next(&mut decoder).as_ref(), Ok(&Some(pods[0].clone())), "cut at {at}");
        }
    }
}

#[test]
fn a_watch_in_pieces_of_any_size_is_the_watch() {
    let pods = pods(2);
    for encoding in ENCODINGS {
        let bytes = watch(encoding, &pods);
        let whole = decode_watch(encoding, [&bytes[..]]).expect("decodes");
        let expected = [
            WatchEvent::Added(pods[0].clone()),
            WatchEvent::Modified(pods[1].clone()),
            WatchEvent::Deleted(pods[0].clone()),
            WatchEvent::Bookmark(Box::new(Bookmark {
                kind: GroupVersionKind::new("", "v1", "Pod"),
                metadata: pods[1].metadata.clone(),
            })),
            WatchEvent::Error(Box::new(gone())),
        ];
        assert_eq!(whole, expected);
        for size in 1..=bytes.len() {
            assert_eq!(
                decode_watch(encoding, bytes.chunks(size)).as_ref(),
                Ok(&whole),
                "{encoding:?}, pieces of {size}"
            );
        }
    }
}

#[test]
fn a_truncated_watch_is_an_error() {
    for encoding in ENCODINGS {
        let bytes = watch(encoding, &pods(1));
        let mut stream = WatchDecoder::<Pod>::new(encoding);
        let mut decoder = Decoder::new();
        let mut boundaries = 0;
        for byte in &bytes {
            stream.push(&[*byte]);
            while stream.next(&mut decoder).expect("decodes").is_some() {}
            boundaries += usize::from(!stream.is_mid_event());
        }
        // In JSON, each event is complete before its line break.
        assert_eq!(boundaries, if encoding == Encoding::Json { 10 } else { 5 });
    }
}

#[test]
fn the_type_of_an_event_may_follow_its_object() {
    let mut stream = WatchDecoder::<DynamicObject>::new(Encoding::Json);
    stream.push(br#"{"object":{"kind":"Foo","metadata":{"name":"a"}},"type":"ADDED"}"#);
    let event = stream.next(&mut Decoder::new());
    assert!(matches!(event, Ok(Some(WatchEvent::Added(object))) if object.name() == "a"));
}

#[test]
fn a_number_may_be_cut_after_its_sign() {
    let list = br#"{"items":[{"spec":{"priority":-7,"terminationGracePeriodSeconds":-12}}]}"#;
    for at in 0..list.len() {
        let (start, end) = list.split_at(at);
        let decoded: ObjectList<Pod> = decode_list(Encoding::Json, vec![start, end]).expect("decodes");
        let spec = decoded.items[0].spec.as_ref().expect("it has one");
        assert_eq!((spec.priority, spec.termination_grace_period_seconds), (Some(-7), Some(-12)), "cut at {at}");
    }
}

/// A failed stream resets its decoder: the next stream has the full depth limit and no old
/// findings.
#[test]
fn a_decoder_outlives_the_streams_that_fail() {
    let mut decoder = Decoder::new();
    for _ in 0..200 {
        let mut stream = ListDecoder::<Pod>::new(Encoding::Json);
        stream.push(br#"{"items":[{"spec":{"affinity":{"nodeAffinity":7}}}]}"#);
        let error = stream.next(&mut decoder).expect_err("is no object");
        let error = error.decode_error().to_string();
        assert_eq!(error, "items[0].spec.affinity.nodeAffinity: expected object, found number");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_lists_in_random_pieces_are_the_list(seeds in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..4), cuts in prop::collection::vec(1..300usize, 1..20)) {
        let items: Vec<Pod> = seeds.iter().map(|seed| pod(seed)).collect();
        for encoding in ENCODINGS {
            let bytes = list(encoding, &items);
            let (mut rest, mut pieces) = (&bytes[..], Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            let decoded: ObjectList<Pod> = decode_list(encoding, pieces).expect("decodes");
            prop_assert_eq!(&decoded.items, &items);
        }
    }
}

fn pod(seed: &[u8]) -> Pod {
    let info = model::TYPES["io.k8s.api.core.v1.Pod"].info;
    let model = model::message(info, &mut Entropy::new(seed), 0);
    Decoder::new().json(model.to_string().as_bytes()).expect("fits the type")
}

/// Small pods with quotes, backslashes and braces in their text.
fn pods(count: usize) -> Vec<Pod> {
    let make = |index: usize| {
        let json = format!(
            r#"{{"metadata":{{"name":"web-{index}","annotations":{{"a\"b\\":"}}]{{[\",é"}}}},"spec":{{"containers":[{{"name":"c","ports":[{{"containerPort":{index}80}}]}}]}}}}"#
        );
        Decoder::new().json(json.as_bytes()).expect("fits the type")
    };
    (1..=count).map(make).collect()
}

fn list_metadata() -> ListMeta {
    ListMeta { resource_version: Some("1234".into()), remaining_item_count: Some(17), ..Default::default() }
}

fn list(encoding: Encoding, pods: &[Pod]) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Json => {
            out.extend_from_slice(br#"{"kind":"PodList","apiVersion":"v1","unknown":12345,"metadata":"#);
            Writer::new(&mut out).message(&list_metadata());
            out.extend_from_slice(br#","items":["#);
            for (index, pod) in pods.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                Writer::new(&mut out).message(pod);
            }
            out.extend_from_slice(b"]}");
        }
        Encoding::Protobuf => Envelope::encode_with("v1", "PodList", &mut out, |list: &mut Encoder<'_>| {
            list.delimited(1, |inner| inner.message(&list_metadata()));
            pods.iter().for_each(|pod| list.delimited(2, |inner| inner.message(pod)));
        }),
    }
    out
}

fn decode_list<'a, T: Object>(
    encoding: Encoding,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<ObjectList<T>, DecodeError> {
    let mut stream = ListDecoder::new(encoding);
    let (mut decoder, mut items) = (Decoder::new(), Vec::new());
    for piece in pieces {
        stream.push(piece);
        while let Some(item) = stream.next(&mut decoder)? {
            items.push(item);
        }
    }
    Ok(ObjectList { metadata: stream.finish()?, items })
}

fn gone() -> Status {
    Status { code: Some(410), reason: Some("Expired".into()), status: Some("Failure".into()), ..Default::default() }
}

fn watch(encoding: Encoding, pods: &[Pod]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, last) = (&pods[0], pods.last().expect("one at least"));
    for (kind, pod) in [
        ("ADDED", Some(first)),
        ("MODIFIED", Some(last)),
        ("DELETED", Some(first)),
        ("BOOKMARK", Some(last)),
        ("ERROR", None),
    ] {
        match encoding {
            Encoding::Json => {
                out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
                match pod {
                    Some(pod) => Writer::new(&mut out).object(pod),
                    None => Writer::new(&mut out).object(&gone()),
                }
                out.extend_from_slice(b"}\n");
            }
            Encoding::Protobuf => {
                let mut object = Vec::new();
                match pod {
                    Some(pod) => Envelope::encode(pod, &mut object),
                    None => Envelope::encode(&gone(), &mut object),
                }
                let mut frame = Vec::new();
                let mut encoder = Encoder { out: &mut frame };
                encoder.bytes(1, kind.as_bytes());
                encoder.delimited(2, |extension| extension.bytes(1, &object));
                out.extend_from_slice(&(frame.len() as u32).to_be_bytes());
                out.extend_from_slice(&frame);
            }
        }
    }
    out
}

fn decode_watch<'a>(
    encoding: Encoding,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<WatchEvent<Pod>>, DecodeError> {
    let mut stream = WatchDecoder::new(encoding);
    let (mut decoder, mut events) = (Decoder::new(), Vec::new());
    for piece in pieces {
        stream.push(piece);
        while let Some(event) = stream.next(&mut decoder)? {
            events.push(event);
        }
    }
    assert!(!stream.is_mid_event());
    Ok(events)
}

#[test]
fn a_watch_of_another_kind_is_an_error() {
    let service = kubewright_api::core::v1::Service::default();
    let mut object = Vec::new();
    Envelope::encode(&service, &mut object);
    let mut frame = Vec::new();
    let mut encoder = Encoder { out: &mut frame };
    encoder.bytes(1, b"ADDED");
    encoder.delimited(2, |extension| extension.bytes(1, &object));
    let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&frame);
    let error = decode_watch(Encoding::Protobuf, [&bytes[..]]).expect_err("is no pod");
    assert_eq!(error.to_string(), "object: expected v1 Pod, found v1 Service");
}
