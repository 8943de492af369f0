//! Invalid and hostile protobuf causes an error with its position, never a panic or unbounded
//! memory.

use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_api::core::v1::{ConfigMap, Pod, Service};
use kubewright_core::message::Message;
use kubewright_core::protobuf::{Encoder, Envelope, encode_message};
use kubewright_core::stream::{Encoding, ListDecoder, WatchDecoder};
use kubewright_core::{DecodeError, Decoder};
use proptest::prelude::*;

use crate::samples::POD_PROTOBUF;

fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut object = T::default();
    Decoder::new().protobuf_message_into(&mut object, bytes).map(|()| object)
}

fn error<T: Message + Default>(bytes: &[u8]) -> String {
    decode::<T>(bytes).err().expect("was decoded").to_string()
}

fn written(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Encoder { out: &mut out });
    out
}

#[test]
fn bytes_that_end_early_are_an_error_wherever_they_end() {
    let envelope = Envelope::decode(POD_PROTOBUF).expect("whole");
    for end in 0..POD_PROTOBUF.len() - 4 {
        let cut = Decoder::new().protobuf::<Pod>(&POD_PROTOBUF[..end]);
        // The bytes after kind and version are optional; Go also treats them as empty.
        match cut {
            Ok(pod) => assert_eq!((pod, end < 20), (Pod::default(), true), "cut at {end}"),
            Err(error) => assert!(error.is_truncated(), "cut at {end}: {error}"),
        }
    }
    // A message is complete only at a field boundary.
    let whole = (0..envelope.raw.len()).filter(|end| decode::<Pod>(&envelope.raw[..*end]).is_ok()).count();
    assert_eq!(whole, 3, "empty, after the metadata, after the specification");
}

#[test]
fn an_error_names_its_position_and_the_expected_type() {
    let port = written(|port| port.bytes(3, b"80"));
    let pod = written(|pod| {
        pod.delimited(2, |spec| {
            spec.delimited(2, |_| {});
            spec.delimited(2, |container| container.bytes(6, &port));
        });
    });
    assert_eq!(
        error::<Pod>(&pod),
        "spec.containers[1].ports[0].containerPort: expected a varint on the wire, found bytes"
    );
    let name = written(|pod| pod.delimited(1, |metadata| metadata.varint(1, 7)));
    assert_eq!(error::<Pod>(&name), "metadata.name: expected bytes on the wire, found a varint");
    let text = written(|pod| pod.delimited(1, |metadata| metadata.bytes(1, b"a\xff")));
    assert_eq!(error::<Pod>(&text), "metadata.name: invalid UTF-8 after 1 bytes of text");
    let label = written(|pod| {
        pod.delimited(1, |metadata| {
            metadata.delimited(11, |entry| {
                entry.bytes(1, b"key");
                entry.bytes(2, b"\xed\xa0\x80");
            });
        });
    });
    assert!(error::<Pod>(&label).starts_with("metadata.labels"), "{}", error::<Pod>(&label));
    let quantity = written(|pod| {
        pod.delimited(2, |spec| {
            spec.delimited(32, |entry| {
                entry.bytes(1, b"cpu");
                entry.delimited(2, |quantity| quantity.bytes(1, b"a lot"));
            });
        });
    });
    assert!(error::<Pod>(&quantity).starts_with("spec.overhead"), "{}", error::<Pod>(&quantity));
    let time = written(|pod| pod.delimited(1, |it| it.delimited(8, |time| time.varint(1, i64::MAX as u64))));
    assert_eq!(error::<Pod>(&time), "metadata.creationTimestamp: time is outside of the years 0 to 9999");
    let raw =
        written(|pod| pod.delimited(1, |it| it.delimited(17, |it| it.delimited(7, |raw| raw.bytes(1, b"{nope")))));
    assert!(error::<Pod>(&raw).starts_with("metadata.managedFields[0].fieldsV1: "), "{}", error::<Pod>(&raw));
}

#[test]
fn another_kind_is_an_error() {
    let error = Decoder::new().protobuf::<Service>(POD_PROTOBUF).expect_err("is a pod");
    assert_eq!(error.to_string(), "expected v1 Service, found v1 Pod");
    let error = Decoder::new().protobuf::<kubewright_api::apps::v1::Deployment>(POD_PROTOBUF).expect_err("is a pod");
    assert_eq!(error.to_string(), "expected apps/v1 Deployment, found v1 Pod");
    assert!(Decoder::new().protobuf::<Pod>(b"{\"kind\":\"Pod\"}").expect_err("JSON").to_string().contains("k8s"));
}

#[test]
fn lengths_beyond_the_end_are_an_error_and_take_no_memory() {
    for length in [5, 0x7f, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX] {
        let mut bytes = vec![2 << 3 | 2];
        let mut rest = length;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        bytes.extend_from_slice(b"abcd");
        let measured = allocation_counter::measure(|| assert!(decode::<Pod>(&bytes).is_err()));
        assert!(measured.bytes_max < 2000, "{length}: {measured:?}");

        let enveloped = [b"k8s\0", &bytes[..]].concat();
        let mut list = ListDecoder::<Pod>::new(Encoding::Protobuf);
        let measured = allocation_counter::measure(|| {
            list.push(&enveloped);
            while let Ok(Some(_)) = list.next(&mut Decoder::new()) {}
        });
        assert!(list.finish().is_err());
        assert!(measured.bytes_max < 2000, "{length}: {measured:?}");
    }
    let mut watch = WatchDecoder::<Pod>::new(Encoding::Protobuf);
    let measured = allocation_counter::measure(|| {
        // Just below the limit: the decoder waits for the bytes without allocating for them.
        watch.push(&[0x00, 0xff, 0xff, 0xff, 1, 2, 3]);
        assert_eq!(watch.next(&mut Decoder::new()), Ok(None));
    });
    assert!(watch.is_mid_event() && measured.bytes_max < 2000);
    let mut watch = WatchDecoder::<Pod>::new(Encoding::Protobuf);
    watch.push(&[0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
    let error = watch.next(&mut Decoder::new()).expect_err("the length exceeds the limit");
    assert_eq!(error.to_string(), "an event is longer than 16777216 bytes");
}

#[test]
fn malformed_fields_are_an_error() {
    for (bytes, wanted) in [
        (&[0x00, 0x00][..], "field number out of range"),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00], "field number out of range"),
        (&[0x80; 11], "number longer than ten bytes"),
        (&[0x0b], "unknown wire type 3 of field 1"),
        (&[0x0c], "unknown wire type 4 of field 1"),
        (&[0x0e, 0x00], "unknown wire type 6 of field 1"),
        (&[0x80], "unexpected end of input"),
        (&[0x79, 0x00], "unexpected end of input"),
        (&[0x7d, 0x00], "unexpected end of input"),
    ] {
        assert_eq!(error::<Pod>(bytes), wanted, "{bytes:x?}");
    }
}

#[test]
fn unknown_fields_of_every_form_are_passed_over() {
    let bytes = written(|pod| {
        pod.varint(1000, u64::MAX);
        pod.fixed64(1001, 7);
        pod.bytes(1002, b"\xff\xff");
        pod.out.extend_from_slice(&[0xd5, 0x3e, 1, 2, 3, 4]);
        pod.delimited(1, |metadata| {
            metadata.bytes(536_870_911, b"");
            metadata.bytes(1, b"web");
        });
    });
    assert_eq!(decode::<Pod>(&bytes).expect("decodes").metadata.name.as_deref(), Some("web"));
}

#[test]
fn absurd_nesting_is_an_error() {
    // A schema holds schemas as `not`, which is field 28, and as `items`, field 24, where field 1
    // is one and field 2 a list.
    for numbers in [&[28][..], &[24, 1], &[24, 2]] {
        let mut schema = Vec::new();
        for number in numbers.iter().rev().cycle().take(4000) {
            schema = written(|outer| outer.bytes(*number, &schema));
        }
        let crd = written(|crd| {
            crd.delimited(2, |spec| {
                spec.delimited(7, |version| version.delimited(4, |validation| validation.bytes(1, &schema)));
            })
        });
        let found = error::<CustomResourceDefinition>(&crd);
        assert!(found.ends_with("nested deeper than 100 objects"), "{}", &found[found.len().saturating_sub(200)..]);
    }
}

#[test]
fn the_fields_of_a_message_may_be_split_and_reordered() {
    let pod: Pod = Decoder::new()
        .json(br#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"containers":[{"name":"c"},{"name":"d"}],"nodeName":"n"}}"#)
        .expect("decodes");
    let bytes = written(|it| {
        it.delimited(2, |spec| spec.bytes(10, b"n"));
        it.delimited(1, |metadata| {
            metadata.delimited(11, |entry| {
                entry.bytes(2, b"y");
                entry.bytes(1, b"x");
            })
        });
        it.delimited(2, |spec| spec.delimited(2, |container| container.bytes(1, b"c")));
        it.delimited(1, |metadata| metadata.bytes(1, b"not the last"));
        it.delimited(2, |spec| spec.delimited(2, |container| container.bytes(1, b"d")));
        it.delimited(1, |metadata| metadata.bytes(1, b"a"));
    });
    assert_eq!(decode::<Pod>(&bytes), Ok(pod));
}

#[test]
fn memory_is_in_proportion_to_the_bytes() {
    let largest = crate::model::types().iter().map(|entry| size_of_val(&*(entry.new)())).max().expect("types");
    for (outer, inner) in [(2, 2), (1, 11), (1, 14), (2, 1)] {
        let items = written(|it| (0..20_000).for_each(|_| it.bytes(inner, b"")));
        let bytes = written(|it| it.bytes(outer, &items));
        let measured = allocation_counter::measure(|| drop(decode::<Pod>(&bytes)));
        assert!(measured.bytes_max as usize / bytes.len() <= largest, "{measured:?} for {} bytes", bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_with_damaged_bytes_is_decoded_or_refused(damage in prop::collection::vec((0..POD_PROTOBUF.len(), any::<u8>()), 1..4)) {
        let mut bytes = POD_PROTOBUF.to_vec();
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        if let Ok(pod) = Decoder::new().protobuf::<Pod>(&bytes) {
            let mut again = Vec::new();
            encode_message(&pod, &mut again);
            prop_assert_eq!(decode::<Pod>(&again), Ok(pod));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode::<Pod>(&bytes);
        let _ = decode::<CustomResourceDefinition>(&bytes);
        let _ = decode::<ConfigMap>(&bytes);
        let _ = Envelope::decode(&bytes);
    }
}
