//! Applies recorded patches, and compares the results with the real server's.

use kubewright_core::meta::v1::Status;
use kubewright_core::scheme::TypeInfo;
use kubewright_core::{Map, Value};
use kubewright_merge::patch::{PatchError, json_patch, merge_patch, strategic_merge};

use crate::scenario::{find, steps, text};

/// Fields with defaults, which a patch alone does not set.
const DEFAULTS: [&str; 6] =
    ["resources", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "protocol", "defaultMode"];

fn type_of(name: &str) -> &'static TypeInfo {
    kubewright_api::types().into_iter().map(|entry| entry.info).find(|info| info.name == name).unwrap()
}

fn status(step: &Value) -> i64 {
    find(step, "/expect/status").and_then(Value::as_i64).unwrap()
}

/// Asserts that a failed patch has the recorded error.
fn assert_failure(step: &Value, error: PatchError) {
    let name = text(step, &["name"]).to_owned();
    let answer = Status::from(error);
    assert_eq!(answer.code.map(i64::from), Some(status(step)), "{name}: {answer}");
    assert_eq!(answer.reason.as_deref().unwrap_or_default(), text(step, &["expect", "body", "reason"]), "{name}");
    let details = find(step, "/expect/body/details").is_some();
    assert_eq!(answer.details.is_some(), details, "{name}");
    let message = text(step, &["expect", "body", "message"]);
    if !message.is_empty() {
        assert_eq!(answer.message.as_deref(), Some(message), "{name}");
    }
}

/// The object without fields that change with every write.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.as_object_mut().and_then(|object| object.get_mut("metadata")) {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
    }
    object
}

fn replay(scenario: &str) -> usize {
    let mut before = Value::Null;
    let mut compared = 0;
    for step in steps(scenario) {
        let after = find(&step, "/expect/body").cloned().unwrap_or_default();
        let body = match step.get("body") {
            Some(Value::String(text)) => text.parse().ok(),
            other => other.cloned(),
        };
        let patched = match (text(&step, &["headers", "Content-Type"]), body) {
            ("application/json-patch+json", Some(patch)) => json_patch(&before, &patch),
            ("application/merge-patch+json", Some(patch)) => merge_patch(&before, &patch),
            _ => {
                if status(&step) == 201 {
                    before = after;
                }
                continue;
            }
        };
        let missing = status(&step) == 404 || text(&step, &["name"]).contains("creationTimestamp is kept");
        match patched {
            _ if missing => continue,
            Err(error) => assert_failure(&step, error),
            Ok(patched) if status(&step) == 200 => {
                // Unknown fields of custom resources are pruned after the patch.
                if !text(&step, &["name"]).contains("pruned") {
                    assert_eq!(without_version(&patched), without_version(&after), "{}", text(&step, &["name"]));
                }
                before = after;
            }
            Ok(_) => {
                let message = text(&step, &["expect", "body", "message"]);
                assert!(!message.starts_with("the server rejected"), "{} should fail", text(&step, &["name"]));
            }
        }
        compared += 1;
    }
    compared
}

#[test]
fn json_and_merge_patches_end_as_recorded() {
    for (scenario, at_least) in [("patch-json", 14), ("patch-merge", 12), ("patch-custom-resource", 6)] {
        let compared = replay(scenario);
        assert!(compared == 0 || compared >= at_least, "{scenario}: {compared} patches compared");
    }
}

/// Asserts that `theirs` equals `ours` plus defaults.
fn assert_same_but_defaults(name: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours.iter() {
                let other = theirs.get(key).unwrap_or_else(|| panic!("{name}: they have no {key}"));
                assert_same_but_defaults(&format!("{name}/{key}"), value, other);
            }
            let more = theirs.keys().find(|key| !ours.contains_key(key) && !DEFAULTS.contains(&key.as_str()));
            assert_eq!(more, None, "{name}");
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{name}: {ours:?} and {theirs:?}");
            for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                assert_same_but_defaults(&format!("{name}/{index}"), ours, theirs);
            }
        }
        (ours, theirs) => assert_eq!(ours, theirs, "{name}"),
    }
}

fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parents, key) = pointer[1..].rsplit_once('/').unwrap();
    let mut parent = object;
    for part in parents.split('/') {
        parent = parent.as_object_mut().unwrap().get_or_insert_with(part, || Map::new().into());
    }
    let parent = parent.as_object_mut().unwrap();
    match value.as_str() {
        Some("<absent>") => parent.remove(key),
        _ => parent.insert(key, value.clone()),
    };
}

#[test]
fn strategic_merge_patches_end_as_recorded() {
    let deployment = type_of("io.k8s.api.apps.v1.Deployment");
    let mut object = Value::Null;
    let mut compared = 0;
    let steps = steps("patch-strategic");
    for step in &steps {
        let name = text(step, &["name"]);
        let body = step.get("body").cloned().unwrap_or_default();
        if status(step) == 201 {
            object = body;
        } else if text(step, &["headers", "Content-Type"]) != "application/strategic-merge-patch+json" {
            continue;
        } else {
            match strategic_merge(&object, &body, deployment) {
                Ok(patched) => object = patched,
                Err(error) => {
                    assert_failure(step, error);
                    compared += 1;
                    continue;
                }
            }
            assert_eq!(status(step), 200, "{name}");
        }
        let expected = find(step, "/expect/body").and_then(Value::as_object).unwrap();
        for (pointer, want) in expected.iter().filter(|(pointer, _)| {
            pointer.starts_with("/spec") || pointer.ends_with("labels") || pointer.ends_with("finalizers")
        }) {
            if status(step) != 201 {
                match (find(&object, pointer), want.as_str()) {
                    (found, Some("<absent>")) => assert_eq!(found, None, "{name}: {pointer}"),
                    (Some(found), _) => assert_same_but_defaults(&format!("{name}: {pointer}"), found, want),
                    (None, _) => panic!("{name}: there is no {pointer}"),
                }
            }
            put(&mut object, pointer, want);
        }
        compared += 1;
    }
    assert!(steps.is_empty() || compared > 15, "{compared} patches compared");
}
