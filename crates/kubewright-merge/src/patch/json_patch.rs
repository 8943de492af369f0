//! JSON patch: a list of operations, applied atomically (RFC 6902).
//!
//! kube-apiserver deviates from the standard in three ways, and so do we: `replace` of a missing
//! key adds it, `test` and `copy` treat a missing key as `null`, and a negative index counts from
//! the end.

use crate::patch::error::{MAX_JSON_PATCH_OPERATIONS, PatchError};
use crate::patch::node::MutableValue;
use kubewright_core::{Str, Value};

/// Limit on the JSON bytes that `copy` operations may add. Copies of copies would grow
/// exponentially.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Limit on the list items that operations may move. An insertion at the front of a list moves all
/// its items.
const MAX_MOVED_ITEMS: usize = 100_000_000;

/// Maximum depth of the result, so that recursion stays safe.
///
/// The tracked height does not shrink when operations remove the deepest values.
const MAX_DEPTH: usize = 256;

/// Applies a JSON patch to `target`.
///
/// # Errors
/// If the patch is not a list of operations, has too many of them, or one of them does not apply.
///
/// ```
/// use kubewright_core::Value;
/// use kubewright_merge::patch::json_patch;
/// let target: Value = r#"{"args":["a","b"]}"#.parse()?;
/// let patch: Value = r#"[{"op":"test","path":"/args/0","value":"a"},{"op":"add","path":"/args/-","value":"c"}]"#.parse()?;
/// assert_eq!(json_patch(&target, &patch)?.to_string(), r#"{"args":["a","b","c"]}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn json_patch(target: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(list) = patch else {
        return Err(cannot_unmarshal(patch, "[]handlers.jsonPatchOp"));
    };
    let operations: Vec<PatchOperation<'_>> = list.iter().map(PatchOperation::parse).collect::<Result<_, _>>()?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut document = PatchedDocument { root: target.clone().into(), copied: 0, moved: 0 };
    for (index, operation) in operations.iter().enumerate() {
        document.apply(operation).map_err(|message| PatchError::DoesNotApply { operation: index, message })?;
    }
    Ok(document.root.into())
}

struct PatchOperation<'p> {
    op: &'p str,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: Option<&'p Value>,
}

impl<'p> PatchOperation<'p> {
    #[inline]
    fn parse(operation: &'p Value) -> Result<Self, PatchError> {
        let Value::Object(entries) = operation else {
            return Err(cannot_unmarshal(operation, "handlers.jsonPatchOp"));
        };
        let text = |key: &str| match entries.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(cannot_unmarshal(other, "string")),
        };
        Ok(PatchOperation {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value: entries.get("value"),
        })
    }

    #[inline]
    fn path(&self) -> Result<&'p str, String> {
        self.path.ok_or_else(|| format!("{} operation failed to decode path: missing value", self.op))
    }

    #[inline]
    fn from(&self) -> Result<&'p str, String> {
        self.from.ok_or_else(|| format!("{} operation failed to decode from: missing value", self.op))
    }

    fn node(&self) -> MutableValue {
        self.value.cloned().unwrap_or_default().into()
    }
}

#[inline]
fn cannot_unmarshal(value: &Value, target: &str) -> PatchError {
    let kind = value.kind();
    PatchError::Malformed(format!("error decoding patch: json: cannot unmarshal {kind} into Go value of type {target}"))
}

struct PatchedDocument {
    root: MutableValue,
    /// Bytes added by `copy` operations.
    copied: usize,
    /// List items moved by insertions and removals.
    moved: usize,
}

impl PatchedDocument {
    fn apply(&mut self, operation: &PatchOperation<'_>) -> Result<(), String> {
        match operation.op {
            "add" => self.add(operation.op, operation.path()?, operation.node()),
            "remove" => self.remove(operation.op, operation.path()?).map(drop),
            "replace" => self.replace(operation.path()?, operation.node()),
            "move" => {
                let value = self.remove(operation.op, operation.from()?)?;
                self.add(operation.op, operation.path()?, value)
            }
            "copy" => self.copy(operation.from()?, operation.path()?),
            "test" => self.test(operation.path()?, operation.value.unwrap_or(&Value::Null)),
            op => Err(format!("Unexpected kind: {op}")),
        }
    }

    fn add(&mut self, op: &str, path: &str, value: MutableValue) -> Result<(), String> {
        if path.split('/').count() + value.height() > MAX_DEPTH {
            return Err(format!(
                "{op} operation does not apply: \"{path}\" would be nested deeper than {MAX_DEPTH} values"
            ));
        }
        let mut moved = 0;
        let (parent, key) = self.parent(op, path, value.height())?;
        match parent {
            MutableValue::Object { entries, .. } => {
                entries.insert(key, value);
            }
            MutableValue::Array { items, .. } if key == "-" => items.push(value),
            MutableValue::Array { items, .. } => {
                let index = index(&key, items.len() + 1).map_err(|error| in_path(op, path, error))?;
                moved = items.len() - index;
                items.insert(index, value);
            }
            MutableValue::Scalar(_) => return Err(missing(op, path)),
        }
        self.count_moved(moved)
    }

    fn remove(&mut self, op: &str, path: &str) -> Result<MutableValue, String> {
        let (parent, key) = self.parent(op, path, 0)?;
        match parent {
            MutableValue::Object { entries, .. } => entries
                .remove(&key)
                .ok_or_else(|| in_path(op, path, format!("Unable to remove nonexistent key: {key}: missing value"))),
            MutableValue::Array { items, .. } => {
                let index = index(&key, items.len()).map_err(|error| in_path(op, path, error))?;
                let moved = items.len() - index;
                let removed = items.remove(index);
                self.count_moved(moved).map(|()| removed)
            }
            MutableValue::Scalar(_) => Err(missing(op, path)),
        }
    }

    fn replace(&mut self, path: &str, value: MutableValue) -> Result<(), String> {
        if path.is_empty() {
            return match value {
                MutableValue::Object { .. } | MutableValue::Array { .. } => {
                    self.root = value;
                    Ok(())
                }
                MutableValue::Scalar(_) => Err("replace operation value must be object or array".to_owned()),
            };
        }
        if path.split('/').count() + value.height() > MAX_DEPTH {
            return Err(format!("replace operation does not apply: \"{path}\" would be nested too deep"));
        }
        let (parent, key) = self.parent("replace", path, value.height())?;
        match parent {
            MutableValue::Object { entries, .. } => {
                entries.insert(key, value);
            }
            MutableValue::Array { items, .. } => {
                let index = index(&key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                items[index] = value;
            }
            MutableValue::Scalar(_) => return Err(missing("replace", path)),
        }
        Ok(())
    }

    fn copy(&mut self, from: &str, path: &str) -> Result<(), String> {
        let value = self.get("copy", from)?.cloned().unwrap_or_default();
        self.copied += value.encoded_len();
        if self.copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                self.copied, MAX_COPIED_BYTES
            ));
        }
        self.add("copy", path, value)
    }

    fn test(&mut self, path: &str, want: &Value) -> Result<(), String> {
        let is_equal = match path {
            "" => self.root.equals(want),
            path => self.get("test", path)?.map_or(want.is_null(), |found| found.equals(want)),
        };
        if is_equal { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }

    /// The value at `path`, or `None` if only its last key is missing.
    fn get(&mut self, op: &str, path: &str) -> Result<Option<&MutableValue>, String> {
        let (parent, key) = self.parent(op, path, 0)?;
        match parent {
            MutableValue::Object { entries, .. } => Ok(entries.get(&key)),
            MutableValue::Array { items, .. } => {
                let index = index(&key, items.len()).map_err(|error| in_path(op, path, error))?;
                Ok(Some(&items[index]))
            }
            MutableValue::Scalar(_) => Err(missing(op, path)),
        }
    }

    /// The object or list that contains the last key of `path`, and that key.
    ///
    /// `height` is that of the value to be inserted.
    fn parent(&mut self, op: &str, path: &str, height: usize) -> Result<(&mut MutableValue, Str), String> {
        let (parents, key) = path.rsplit_once('/').ok_or_else(|| missing(op, path))?;
        let mut height = parents.split('/').count() + height;
        let mut node = &mut self.root;
        node.raise(height);
        // The path starts with a slash; text before it is ignored.
        for key in parents.split('/').skip(1).map(unescape) {
            let child = match node {
                MutableValue::Object { entries, .. } => entries.get_mut(&key),
                MutableValue::Array { items, .. } => index(&key, items.len()).ok().map(|index| &mut items[index]),
                MutableValue::Scalar(_) => None,
            };
            node = child.ok_or_else(|| missing(op, path))?;
            height -= 1;
            node.raise(height);
        }
        Ok((node, unescape(key)))
    }

    fn count_moved(&mut self, moved: usize) -> Result<(), String> {
        self.moved += moved;
        if self.moved > MAX_MOVED_ITEMS {
            return Err(format!("the operations move more than {MAX_MOVED_ITEMS} items of lists"));
        }
        Ok(())
    }
}

#[inline]
fn missing(op: &str, path: &str) -> String {
    format!("{op} operation does not apply: doc is missing path: \"{path}\": missing value")
}

#[inline]
fn in_path(op: &str, path: &str, error: String) -> String {
    format!("error in {op} for path: '{path}': {error}")
}

#[inline]
fn unescape(key: &str) -> Str {
    if key.contains('~') { key.replace("~1", "/").replace("~0", "~").into() } else { key.into() }
}

/// The index for a key in a list with `length` valid indices; negative ones count from the end.
#[inline]
fn index(key: &str, length: usize) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let index = if number < 0 { number.checked_add_unsigned(length as u64) } else { Some(number) };
    index
        .and_then(|index| usize::try_from(index).ok())
        .filter(|index| *index < length)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_operation_is_too_strange(op in "add|remove|replace|move|copy|test", path in "(/(a|l|n|-|-?[0-9]|~[01]|~|é)?){0,4}", from in "(/(a|b|l|[0-4]))?") {
            let target = r#"{"a":{"b":1},"l":[1,[2],3],"n":null}"#.parse().unwrap();
            let operation: Value = format!(r#"{{"op":"{op}","path":"{path}","from":"{from}","value":{{"x":[]}}}}"#).parse().unwrap();
            let _ = json_patch(&target, &Value::Array(vec![operation.clone(), operation].into()));
        }
    }

    fn patched(target: &str, patch: &str) -> Result<String, String> {
        let (target, patch) = (target.parse().unwrap(), patch.parse().unwrap());
        json_patch(&target, &patch).map(|value| value.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn json_patch_operations_agree_with_kube_apiserver() {
        let target = r#"{"a":{"b":1},"l":[1,2,3],"n":null}"#;
        for (patch, want) in [
            (r#"[]"#, r#"{"a":{"b":1},"l":[1,2,3],"n":null}"#),
            (r#"[{"op":"add","path":"/l/1","value":9}]"#, r#"{"a":{"b":1},"l":[1,9,2,3],"n":null}"#),
            (r#"[{"op":"add","path":"/l/3","value":9}]"#, r#"{"a":{"b":1},"l":[1,2,3,9],"n":null}"#),
            (r#"[{"op":"add","path":"/l/-","value":9}]"#, r#"{"a":{"b":1},"l":[1,2,3,9],"n":null}"#),
            (r#"[{"op":"add","path":"/l/-1","value":9}]"#, r#"{"a":{"b":1},"l":[1,2,3,9],"n":null}"#),
            (r#"[{"op":"add","path":"/x"}]"#, r#"{"a":{"b":1},"l":[1,2,3],"n":null,"x":null}"#),
            (r#"[{"op":"remove","path":"/l/-1"}]"#, r#"{"a":{"b":1},"l":[1,2],"n":null}"#),
            (r#"[{"op":"remove","path":"/n"}]"#, r#"{"a":{"b":1},"l":[1,2,3]}"#),
            (r#"[{"op":"replace","path":"/a/c","value":2}]"#, r#"{"a":{"b":1,"c":2},"l":[1,2,3],"n":null}"#),
            (r#"[{"op":"replace","path":"","value":{}}]"#, "{}"),
            (r#"[{"op":"move","from":"/l/0","path":"/l/2"}]"#, r#"{"a":{"b":1},"l":[2,3,1],"n":null}"#),
            (r#"[{"op":"move","from":"/a","path":"/n"}]"#, r#"{"l":[1,2,3],"n":{"b":1}}"#),
            (r#"[{"op":"copy","from":"/a","path":"/a/a"}]"#, r#"{"a":{"a":{"b":1},"b":1},"l":[1,2,3],"n":null}"#),
            (r#"[{"op":"test","path":"/none"},{"op":"remove","path":"/a"}]"#, r#"{"l":[1,2,3],"n":null}"#),
            (
                r#"[{"op":"test","path":"/a","value":{"b":1.0}},{"op":"remove","path":"/a"}]"#,
                r#"{"l":[1,2,3],"n":null}"#,
            ),
            (r#"[{"op":"add","path":"/a~1b~0c","value":1}]"#, r#"{"a":{"b":1},"a/b~c":1,"l":[1,2,3],"n":null}"#),
        ] {
            assert_eq!(patched(target, patch).as_deref(), Ok(want), "{patch}");
        }
    }

    #[test]
    fn an_operation_that_does_not_apply_is_named() {
        let target = r#"{"a":{"b":1},"l":[1]}"#;
        for (patch, want) in [
            (r#"[{"op":"remove","path":"/a/x"}]"#, "Unable to remove nonexistent key: x"),
            (r#"[{"op":"add","path":"/x/y","value":1}]"#, "doc is missing path: \"/x/y\""),
            (r#"[{"op":"add","path":"/a/b/c","value":1}]"#, "doc is missing path: \"/a/b/c\""),
            (r#"[{"op":"add","path":"","value":1}]"#, "doc is missing path: \"\""),
            (r#"[{"op":"add","path":"/l/2","value":1}]"#, "Unable to access invalid index: 2"),
            (r#"[{"op":"add","path":"/l/x","value":1}]"#, "not a proper array index: 'x'"),
            (r#"[{"op":"replace","path":"/l/1","value":1}]"#, "doc is missing key: /l/1"),
            (r#"[{"op":"remove","path":"/l/-2"}]"#, "Unable to access invalid index: -2"),
            (r#"[{"op":"test","path":"/a/b","value":2}]"#, "testing value /a/b failed"),
            (r#"[{"op":"move","from":"/x","path":"/y"}]"#, "nonexistent key: x"),
            (r#"[{"op":"move","from":"/a","path":"/a/b"}]"#, "doc is missing path: \"/a/b\""),
            (r#"[{"op":"spin","path":"/a"}]"#, "Unexpected kind: spin"),
            (r#"[{"path":"/a"}]"#, "Unexpected kind: "),
            (r#"[{"op":"add","value":1}]"#, "failed to decode path"),
            (r#"[{"op":"copy","path":"/a"}]"#, "failed to decode from"),
            (r#"[{"op":"replace","path":"","value":1}]"#, "must be object or array"),
        ] {
            let error = patched(target, patch).unwrap_err();
            assert!(error.starts_with("operation 0: ") && error.contains(want), "{patch}: {error}");
        }
        let second = r#"[{"op":"test","path":"/l/0","value":1},{"op":"remove","path":"/x"}]"#;
        assert!(patched(target, second).unwrap_err().starts_with("operation 1: "));
    }

    #[test]
    fn a_json_patch_must_be_a_list_of_operations() {
        for patch in ["{}", "[1]", r#"[{"op":1}]"#, r#"[{"op":"add","path":[]}]"#, "null"] {
            let error = json_patch(&Value::default(), &patch.parse().unwrap()).unwrap_err();
            assert!(matches!(error, PatchError::Malformed(_)), "{patch}: {error}");
        }
    }

    #[test]
    fn patches_cannot_fill_memory_or_stack() {
        let many = Value::Array(vec![r#"{"op":"test","path":"/x"}"#.parse().unwrap(); 10_001].into());
        let target = r#"{"a":{"text":"0123456789012345678901234567890123456789"}}"#.parse().unwrap();
        assert_eq!(json_patch(&target, &many), Err(PatchError::TooManyOperations(10_001)));
        let wider = r#"{"op":"copy","from":"/a","path":"/a/b"}"#.parse().unwrap();
        assert!(json_patch(&target, &Value::Array(vec![wider; 9].into())).is_ok());
        let copy = |n: usize| format!(r#"{{"op":"copy","from":"","path":"/a/{n}"}}"#);
        assert!(patched("{}", &format!("[{}]", copy(1))).is_err());
        let doubling: Vec<String> =
            (0..40).map(|n| format!(r#"{{"op":"copy","from":"/a","path":"/a/x{n}"}}"#)).collect();
        let error = patched(r#"{"a":{"t":"0123456789"}}"#, &format!("[{}]", doubling.join(","))).unwrap_err();
        assert!(error.contains("exceeding the limit") || error.contains("nested deeper"), "{error}");
    }
}
