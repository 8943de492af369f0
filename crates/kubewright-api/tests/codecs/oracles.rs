//! Other decoders read our output: k8s-pb the protobuf, k8s-openapi the JSON.
//!
//! Our own round trips cannot detect an encoder and a decoder with the same mistake.

use kubewright_core::Decoder;
use kubewright_core::scheme::{Type, TypeInfo};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use crate::kinds;
use crate::model::{self, Choices, Entropy, Everything, assert_same, to_json};
use crate::round_trip::{decode, protobuf};

/// Fields that k8s-pb does not have yet, and skips.
const UNKNOWN_TO_K8S_PB: &[(&str, &[&str])] = &[
    ("io.k8s.api.core.v1.PodSpec", &["schedulingGroup"]),
    ("io.k8s.api.core.v1.PodStatus", &["nodeAllocatableResourceClaimStatuses"]),
    ("io.k8s.api.core.v1.ResourceHealth", &["message"]),
    ("io.k8s.api.core.v1.VolumeMountStatus", &["volumeStatus"]),
    ("io.k8s.api.resource.v1.Device", &["nodeAllocatableResourceMappings"]),
    ("io.k8s.api.resource.v1.DeviceAttribute", &["bools", "ints", "strings", "versions"]),
    ("io.k8s.api.storage.v1.CSIDriverSpec", &["preventPodSchedulingIfMissing"]),
];

/// Removes fields that k8s-pb does not have.
struct KnownToK8sPb<C>(C);

impl<C: Choices> Choices for KnownToK8sPb<C> {
    fn fields(&mut self, info: &TypeInfo, depth: usize) -> Vec<usize> {
        let unknown =
            UNKNOWN_TO_K8S_PB.iter().find(|(name, _)| *name == info.name).map_or(&[][..], |(_, fields)| fields);
        let mut fields = self.0.fields(info, depth);
        fields.retain(|index| !unknown.contains(&info.fields[*index].name));
        fields
    }
    fn count(&mut self) -> usize {
        self.0.count()
    }
    fn scalar(&mut self, ty: &Type) -> Value {
        self.0.scalar(ty)
    }
    fn key(&mut self) -> String {
        self.0.key()
    }
    fn enter(&mut self, field: &'static str) {
        self.0.enter(field);
    }
    fn leave(&mut self) {
        self.0.leave();
    }
}

#[test]
fn k8s_pb_reads_our_bytes_and_we_read_its() {
    for kind in kinds::all() {
        let Some(through_k8s_pb) = kind.k8s_pb else { continue };
        let through_k8s_pb = |value: &Value, print: bool| {
            let object = decode(kind.info, &value.to_string());
            let (bytes, printed) = through_k8s_pb(&protobuf(&*object), print).expect("k8s-pb decodes our bytes");
            let mut again = model::new(kind.info);
            Decoder::new().protobuf_message_into(&mut *again, &bytes).expect("we decode the bytes of k8s-pb");
            assert_same(&parse(&to_json(&*again)), &parse(&to_json(&*object)), kind.info.name);
            printed
        };
        check_names(&through_k8s_pb(&model::message(kind.info, &mut KnownToK8sPb(Everything::default()), 0), true));
        random(|bytes| {
            through_k8s_pb(&model::message(kind.info, &mut KnownToK8sPb(Entropy::new(bytes)), 0), false);
        });
    }
}

/// Checks that k8s-pb decodes each value into the field of its name. The values of [`Everything`]
/// identify their fields, so swapped field numbers are detected.
fn check_names(printed: &str) {
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in printed.lines() {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim().trim_end_matches(','));
        path.retain(|(outer, _)| *outer < indent);
        let mut leaf = text;
        if let Some((name, rest)) = text.split_once(": ").filter(|(name, _)| !name.starts_with('"')) {
            path.push((indent, model::plain(name.trim_start_matches("r#"))));
            leaf = rest;
        } else if let Some((_, value)) = text.split_once("\": ") {
            leaf = value;
        }
        let mut names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
        // Texts of `IntOrString` and `Quantity`.
        if matches!(names.last(), Some(&"strval"))
            || matches!(names.last(), Some(&"string")) && !leaf.contains(".string")
        {
            names.pop();
        }
        let Some(name) = names.last() else { continue };
        if let Some(text) = leaf.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            match text.parse::<i32>() {
                Ok(number) => assert_eq!(number, model::integer_of(name), "quantity {names:?}"),
                // The JSON path is that of k8s-pb without embedded messages, which JSON inlines.
                Err(_) if text.contains('.') || text == *name => {
                    let mut rest = names.iter();
                    let found = text.split('.').all(|step| rest.any(|name| *name == model::plain(step)));
                    assert!(found && rest.all(|name| *name == "items"), "{text} was decoded as {names:?}");
                }
                Err(_) => {}
            }
        } else if let Ok(number) = leaf.parse::<i32>() {
            let outside = matches!(*name, "seconds" | "nanos" | "raw" | "type" | "intval") || number < 3;
            assert!(outside || number == model::integer_of(name), "{number} was decoded as {names:?}");
        } else if let Ok(value) = leaf.parse::<bool>() {
            assert!(value == model::bool_of(name) || *name == "allows", "{value} was decoded as {names:?}");
        }
    }
}

#[test]
fn k8s_openapi_reads_our_json_and_writes_the_same() {
    for kind in kinds::all() {
        let value = model::message(kind.info, &mut Everything::default(), 0);
        let ours = parse(&to_json(&*decode(kind.info, &value.to_string())));
        let theirs = (kind.k8s_openapi)(ours.clone());
        let theirs = theirs.unwrap_or_else(|error| panic!("{}: {error}", kind.info.name));
        assert_same(&theirs, &ours, kind.info.name);
    }
}

#[test]
fn every_kind_supports_clone_eq_and_serde() {
    for kind in kinds::all() {
        (kind.sanity)(&model::message(kind.info, &mut Everything::default(), 0).to_string());
    }
}

fn random(check: impl Fn(&[u8])) {
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..400), |bytes| {
        check(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}
