//! Keys and values as a kube-apiserver 1.36.4 wrote them into an etcd.
//!
//! `recorded.txt` has a key and its value in base64 per line. The objects were created with
//! kubectl, or by the server itself.

use kubewright_core::ByteString;
use kubewright_core::protobuf::{Envelope, MAGIC, Wire};
use kubewright_resources::catalog::Catalog;

use super::layout::Layout;
use super::value;
use crate::object::{ObjectDraft, StoredObject};

const RECORDED: &str = include_str!("recorded.txt");

fn recorded() -> impl Iterator<Item = (&'static str, ByteString)> {
    RECORDED.lines().map(|line| {
        let (key, value) = line.split_once(' ').expect("a line has a key and a value");
        (key, ByteString::from_base64(value.as_bytes()).expect("it is base64"))
    })
}

/// The fields of a protobuf message with their paths, for a comparison that people can read.
fn fields(bytes: &[u8], path: &str, out: &mut Vec<String>) -> bool {
    let Ok(found) = Wire::Bytes(bytes).fields().map(|fields| fields.collect::<Result<Vec<_>, _>>()) else {
        return false;
    };
    let Ok(found) = found else { return false };
    for (number, wire) in found {
        let path = format!("{path}.{number}");
        match wire {
            Wire::Bytes(inner) if inner.is_ascii() && !inner.iter().any(u8::is_ascii_control) => {
                out.push(format!("{path}={}", String::from_utf8_lossy(inner)));
            }
            Wire::Bytes(inner) => {
                let mut nested = Vec::new();
                if fields(inner, &path, &mut nested) {
                    out.extend(nested);
                } else {
                    out.push(format!("{path}={inner:?}"));
                }
            }
            other => out.push(format!("{path}={other:?}")),
        }
    }
    true
}

fn shown(bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    match bytes.strip_prefix(&MAGIC) {
        Some(message) => drop(fields(message, "", &mut out)),
        None => out.push(String::from_utf8_lossy(bytes).into_owned()),
    }
    out
}

#[test]
fn stored_objects_are_encoded_byte_for_byte() {
    let (layout, catalog) = (Layout::new("/registry"), Catalog::new([]));
    let mut different = Vec::new();
    for (path, stored) in recorded() {
        let key = layout.decode(path.as_bytes()).unwrap_or_else(|| panic!("{path} is the key of an object"));
        assert_eq!(layout.encode(&key), path);
        let decoded = value::decode(&stored, &catalog).unwrap_or_else(|why| panic!("{path}: {why}"));
        let object = ObjectDraft::new(decoded).stamp(41);
        let encoded = value::encode(&object, layout.is_custom(key.resource())).expect("it was decoded");
        if encoded != *stored {
            let (ours, theirs) = (shown(&encoded), shown(&stored));
            let missing: Vec<_> = theirs.iter().filter(|field| !ours.contains(field)).collect();
            let added: Vec<_> = ours.iter().filter(|field| !theirs.contains(field)).collect();
            different.push(format!("{path}\n  missing {missing:#?}\n  added {added:#?}"));
        }
    }
    assert!(different.is_empty(), "{} of {}:\n{}", different.len(), recorded().count(), different.join("\n"));
}

#[test]
fn damaged_values_are_errors() {
    let catalog = Catalog::new([]);
    for (path, stored) in recorded() {
        for end in [0, 1, 4, 5, stored.len() / 2] {
            assert!(value::decode(&stored[..end], &catalog).is_err(), "{path} cut at {end}");
        }
    }
    let mut unknown = Vec::new();
    Envelope::encode_with("example.com/v1", "Foo", &mut unknown, |_| {});
    let why = value::decode(&unknown, &catalog).err().unwrap_or_default();
    assert_eq!(why, "unknown kind example.com/v1 Foo");
}

#[test]
fn a_custom_object_is_escaped_as_in_go() {
    let json = br#"{"kind":"Foo","apiVersion":"example.com/v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"t":"<&>"}}"#;
    let object = StoredObject::restored(json[..].into(), 7).expect("it is valid");
    let encoded = value::encode(&object, true).expect("it is an object");
    let text =
        r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"t":"\u003c\u0026\u003e"}}"#;
    assert_eq!(String::from_utf8_lossy(&encoded), format!("{text}\n"));
}
