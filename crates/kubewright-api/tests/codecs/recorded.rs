//! Objects of a real API server round-trip unchanged.
//!
//! The objects are responses in the scenarios of the conformance kit, in `../shared` next to the
//! workspace or in `KUBEWRIGHT_SHARED`. Only objects with a known kind are used, which excludes
//! custom resources, tables and partially recorded responses.

use std::path::PathBuf;
use std::{env, fs};

use kubewright_core::Decoder;
use kubewright_core::message::TypeEntry;
use kubewright_core::protobuf::Envelope;
use serde_json::Value;

use crate::model::{self, assert_same, to_server_json};

/// The minimum content of the kit, so that the test cannot pass on an empty one.
const FEWEST_OBJECTS: usize = 600;
const FEWEST_PROTOBUF_BODIES: usize = 2;

#[test]
fn recorded_objects_round_trip_byte_for_byte() {
    let Some(scenarios) = scenarios() else { return };
    let mut found = Found::default();
    for (name, scenario) in &scenarios {
        for step in scenario["steps"].as_array().into_iter().flatten() {
            let context = format!("{name}, {}", step["name"]);
            let ignored: Vec<&str> =
                step["compare"]["ignore"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            found.answer(&step["expect"]["body"], &ignored, &context);
            for event in step["expect"]["events"].as_array().into_iter().flatten() {
                found.answer(&event["object"], &[], &context);
            }
            if let Some(base64) = step["base64"].as_str() {
                found.protobuf(base64, &context);
            }
        }
    }
    println!("{} objects and {} protobuf bodies recorded", found.objects, found.protobuf_bodies);
    assert!(found.objects >= FEWEST_OBJECTS, "only {} objects", found.objects);
    assert!(found.protobuf_bodies >= FEWEST_PROTOBUF_BODIES, "only {} bodies", found.protobuf_bodies);
}

#[derive(Default)]
struct Found {
    objects: usize,
    protobuf_bodies: usize,
}

impl Found {
    fn answer(&mut self, answer: &Value, ignored: &[&str], context: &str) {
        let (Some(api_version), Some(kind)) = (answer["apiVersion"].as_str(), answer["kind"].as_str()) else { return };
        if let Some(entry) = entry_of(api_version, kind) {
            self.object(entry, answer, ignored, context);
        }
        if let Some(entry) = kind.strip_suffix("List").and_then(|kind| entry_of(api_version, kind)) {
            for item in answer["items"].as_array().into_iter().flatten() {
                // List items have kind and version only if the list type does not imply them.
                let mut item = item.clone();
                model::with_kind(entry.info, &mut item);
                self.object(entry, &item, &[], context);
            }
        }
    }

    fn object(&mut self, entry: &TypeEntry, recorded: &Value, ignored: &[&str], context: &str) {
        let mut recorded = recorded.clone();
        replace_tokens(&mut recorded);
        let mut object = (entry.new)();
        let decoded = Decoder::new().json_into(&mut *object, recorded.to_string().as_bytes());
        decoded.unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut written = serde_json::from_str(&to_server_json(&*object)).expect("JSON");
        for pointer in ignored {
            let steps: Vec<&str> = pointer.split('/').skip(1).collect();
            remove(&mut written, &steps);
            remove(&mut recorded, &steps);
        }
        assert_same(&written, &recorded, context);
        self.objects += 1;
    }

    fn protobuf(&mut self, base64: &str, context: &str) {
        let bytes = kubewright_core::ByteString::from_base64(base64.as_bytes()).expect("base64");
        let Ok(envelope) = Envelope::decode(&bytes) else { return };
        let Some(entry) = entry_of(&envelope.api_version, &envelope.kind) else { return };
        let mut object = (entry.new)();
        let decoded = Decoder::new().protobuf_into(&mut *object, &bytes);
        decoded.unwrap_or_else(|error| panic!("{context}: {error}"));
        self.protobuf_bodies += 1;
    }
}

fn entry_of(api_version: &str, kind: &str) -> Option<&'static TypeEntry> {
    let is =
        |entry: &&&TypeEntry| entry.info.kind.is_some_and(|info| info.api_version == api_version && info.kind == kind);
    model::TYPES.values().find(is).copied()
}

/// Removes unrecorded fields; `*` matches all items of a list.
fn remove(value: &mut Value, steps: &[&str]) {
    match (value, steps) {
        (Value::Array(items), ["*", rest @ ..]) => items.iter_mut().for_each(|item| remove(item, rest)),
        (Value::Object(entries), [last]) => drop(entries.remove(*last)),
        (Value::Object(entries), [step, rest @ ..]) => {
            entries.get_mut(*step).into_iter().for_each(|it| remove(it, rest))
        }
        _ => {}
    }
}

/// Replaces the kit's placeholders for server-chosen values by valid ones.
fn replace_tokens(value: &mut Value) {
    match value {
        Value::String(text) if text == "<nodePort>" => *value = 30080.into(),
        Value::String(text) if text.contains('<') => {
            *text =
                text.replace("<time>", "2025-10-01T00:00:00Z").replace("<microtime>", "2025-10-01T00:00:00.000001Z");
        }
        Value::Array(items) => items.iter_mut().for_each(replace_tokens),
        Value::Object(entries) => entries.values_mut().for_each(replace_tokens),
        _ => {}
    }
}

fn scenarios() -> Option<Vec<(String, Value)>> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let kit = env::var_os("KUBEWRIGHT_SHARED").map_or(beside, PathBuf::from).join("conformance/scenarios");
    let Ok(entries) = fs::read_dir(&kit) else {
        println!("SKIPPED: there is no conformance kit at {}", kit.display());
        return None;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        (name, serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON"))
    };
    Some(paths.into_iter().map(read).collect())
}
