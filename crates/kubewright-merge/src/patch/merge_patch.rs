//! JSON merge patch: objects merge, `null` removes, everything else replaces (RFC 7386).

use crate::patch::error::PatchError;
use kubewright_core::{Map, Value};

/// Applies a JSON merge patch to `target`.
///
/// Unlike the standard, but like kube-apiserver, `null` is also dropped from objects in new lists.
///
/// # Errors
/// If the patch is not an object.
///
/// ```
/// use kubewright_core::Value;
/// use kubewright_merge::patch::merge_patch;
/// let target: Value = r#"{"data":{"a":"1","b":"2"}}"#.parse()?;
/// let patch: Value = r#"{"data":{"a":null,"c":"3"}}"#.parse()?;
/// assert_eq!(merge_patch(&target, &patch)?.to_string(), r#"{"data":{"b":"2","c":"3"}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "MergePatch")]
#[inline]
pub fn merge_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(entries) = patch.as_object() else {
        let kind = patch.kind();
        let message = format!(
            "error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        );
        return Err(PatchError::Malformed(message));
    };
    let mut merged = target.as_object().cloned().unwrap_or_default();
    merge(&mut merged, entries);
    Ok(Value::Object(merged))
}

#[inline]
fn merge(target: &mut Map<Value>, patch: &Map<Value>) {
    // Removals and additions are batched: one by one, each would move all following entries.
    if patch.values().any(Value::is_null) {
        target.retain(|key, _| !patch.get(key).is_some_and(Value::is_null));
    }
    let mut added = Vec::new();
    for (key, value) in patch.iter() {
        match (target.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(entries)), Value::Object(patch)) => merge(entries, patch),
            (Some(place @ Value::Object(_)), value) => *place = value.clone(),
            (Some(place), value) => *place = without_nulls(value),
            (None, value) => added.push((key.clone(), without_nulls(value))),
        }
    }
    target.extend(added);
}

/// The value without `null` entries of its objects.
#[inline]
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patches_agree_with_kube_apiserver() {
        for (target, patch, want) in [
            // The table of RFC 7386, for patches that are objects.
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"{"c":null,"d":1}"#, r#"{"d":1}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            // Additional cases.
            (r#"{}"#, r#"{"a":[{"b":null,"c":1},null]}"#, r#"{"a":[{"c":1},null]}"#),
            (r#"{"a":[1]}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{}]}"#),
            (r#"{"a":{"x":1}}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{"b":null}]}"#),
        ] {
            let merged = merge_patch(&target.parse().unwrap(), &patch.parse().unwrap()).unwrap();
            assert_eq!(merged.to_string(), want, "{target} by {patch}");
        }
    }

    #[test]
    fn a_patch_that_is_no_object_is_malformed() {
        let error = merge_patch(&Value::Null, &Value::Array([].into())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }
}
