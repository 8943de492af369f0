//! Reads recordings and finds values in them.

use std::path::PathBuf;

use kubewright_core::Value;

/// Reads a recorded file, if the recordings are available.
#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
pub fn shared(path: &str) -> Option<Value> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    let Ok(bytes) = std::fs::read(&file) else {
        eprintln!("SKIPPED: there are no recordings at {}", file.display());
        return None;
    };
    Some(Value::from_json(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
}

/// The steps of a scenario. Empty if the recordings are not available.
pub fn steps(name: &str) -> Vec<Value> {
    let Some(scenario) = shared(&format!("conformance/scenarios/{name}.json")) else { return Vec::new() };
    scenario.get("steps").and_then(Value::as_array).expect("a scenario has steps").to_vec()
}

/// The string at a path, or an empty one.
pub fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a JSON pointer. `[key=value]` selects a list item.
pub fn find<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    // A `[key=value]` segment may contain slashes.
    let mut parts: Vec<String> = Vec::new();
    for part in pointer.split('/').skip(1) {
        match parts.last_mut() {
            Some(open) if open.starts_with('[') && !open.ends_with(']') => open.extend(["/", part]),
            _ => parts.push(part.to_owned()),
        }
    }
    parts.iter().try_fold(value, |value, part| {
        let part = part.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(items) => match part.strip_prefix('[').and_then(|part| part.strip_suffix(']')) {
                Some(condition) => {
                    let (key, want) = condition.split_once('=').expect("a condition has two sides");
                    let path: Vec<&str> = key.split('.').collect();
                    items.iter().find(|item| text(item, &path) == want)
                }
                None => items.get(part.parse::<usize>().ok()?),
            },
            value => value.get(&part),
        }
    })
}

/// Asserts that a response equals the recorded one, as far as that was recorded.
pub fn assert_answer(step: &Value, answer: &Value) {
    let name = text(step, &["name"]);
    let body = step.get("expect").and_then(|expect| expect.get("body")).expect("a step expects a body");
    match step.get("compare").and_then(|compare| compare.get("only")) {
        None => assert_eq!(answer, body, "{name}"),
        Some(_) => {
            for (pointer, want) in body.as_object().expect("places and what is there").iter() {
                let found = find(answer, pointer);
                match want.as_str() {
                    Some("<absent>") => assert_eq!(found, None, "{name}: {pointer}"),
                    _ => assert_eq!(found, Some(want), "{name}: {pointer}"),
                }
            }
        }
    }
}
