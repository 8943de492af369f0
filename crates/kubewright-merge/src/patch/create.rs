//! Creates patches from two objects.

use kubewright_core::{List, Map, Str, Value};

/// The JSON merge patch from `original` to `modified`.
///
/// A changed list is included as a whole. A merge patch cannot set a value to `null`.
///
/// ```
/// use kubewright_core::Value;
/// use kubewright_merge::patch::{create_merge_patch, merge_patch};
/// let original: Value = r#"{"data":{"a":"1","b":"2"},"kind":"ConfigMap"}"#.parse()?;
/// let modified: Value = r#"{"data":{"a":"1","c":"3"},"kind":"ConfigMap"}"#.parse()?;
/// let patch = create_merge_patch(&original, &modified);
/// assert_eq!(patch.to_string(), r#"{"data":{"b":null,"c":"3"}}"#);
/// assert_eq!(merge_patch(&original, &patch)?, modified);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "CreateMergePatch")]
pub fn create_merge_patch(original: &Value, modified: &Value) -> Value {
    original.merge_patch_to(modified)
}

/// The JSON patch from `original` to `modified`: additions, removals and replacements.
///
/// Lists are compared by index, so an insertion at the front replaces all following items.
///
/// ```
/// use kubewright_core::Value;
/// use kubewright_merge::patch::{create_json_patch, json_patch};
/// let original: Value = r#"{"spec":{"replicas":1,"paused":true}}"#.parse()?;
/// let modified: Value = r#"{"spec":{"replicas":2}}"#.parse()?;
/// let patch = create_json_patch(&original, &modified);
/// assert_eq!(json_patch(&original, &patch)?, modified);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn create_json_patch(original: &Value, modified: &Value) -> Value {
    let mut operations = List::new();
    compare(&mut operations, "", original, modified);
    Value::Array(operations)
}

#[inline]
fn compare(operations: &mut List<Value>, path: &str, original: &Value, modified: &Value) {
    match (original, modified) {
        (Value::Object(original), Value::Object(modified)) => {
            let below = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            for key in original.keys().filter(|key| !modified.contains_key(key)) {
                operations.push(operation("remove", &below(key), None));
            }
            for (key, value) in modified.iter() {
                match original.get(key) {
                    Some(before) => compare(operations, &below(key), before, value),
                    None => operations.push(operation("add", &below(key), Some(value))),
                }
            }
        }
        (Value::Array(original), Value::Array(modified)) => {
            for (index, (before, value)) in original.iter().zip(modified).enumerate() {
                compare(operations, &format!("{path}/{index}"), before, value);
            }
            for index in (modified.len()..original.len()).rev() {
                operations.push(operation("remove", &format!("{path}/{index}"), None));
            }
            for value in modified.iter().skip(original.len()) {
                operations.push(operation("add", &format!("{path}/-"), Some(value)));
            }
        }
        (original, modified) if original.is_equivalent(modified) => {}
        (_, modified) => operations.push(operation("replace", path, Some(modified))),
    }
}

#[inline]
fn operation(op: &'static str, path: &str, value: Option<&Value>) -> Value {
    let mut entries: Map<Value> = [("op", Value::String(Str::from_static(op))), ("path", path.into())].into();
    if let Some(value) = value {
        entries.insert("value", value.clone());
    }
    Value::Object(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::patch::{json_patch, merge_patch};

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..4i64).prop_map(Value::from),
            "[a~/]{0,2}".prop_map(Value::from)
        ]
    }

    fn object() -> impl Strategy<Value = Value> {
        let tree = scalar().prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c~/]{1,2}", inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        });
        prop::collection::vec(("[a-c~/]{1,2}", tree), 0..4)
            .prop_map(|entries| Value::Object(entries.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn applying_a_created_patch_yields_the_target(original in object(), modified in object()) {
            let patch = create_json_patch(&original, &modified);
            prop_assert_eq!(json_patch(&original, &patch), Ok(modified.clone()));
            let patch = create_merge_patch(&original, &modified);
            prop_assert_eq!(merge_patch(&original, &patch), Ok(modified.clone()));
            prop_assert_eq!(create_merge_patch(&modified, &modified).to_string(), "{}");
        }
    }
}
