//! Equality of trees by value, and the difference of two trees.

use super::Value;
use crate::Map;

impl Value {
    /// Whether two trees are equal; numbers compare by value, not by notation.
    #[inline]
    pub fn is_equivalent(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int(whole), Value::Float(number)) | (Value::Float(number), Value::Int(whole)) => {
                *whole as f64 == *number
            }
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_equivalent(b))
            }
            (Value::Object(a), Value::Object(b)) => {
                let mut pairs = a.iter().zip(b.iter());
                a.len() == b.len() && pairs.all(|((a_key, a), (b_key, b))| a_key == b_key && a.is_equivalent(b))
            }
            (a, b) => a == b,
        }
    }

    /// The JSON merge patch from this tree to `modified`.
    ///
    /// A changed list is included as a whole. A merge patch cannot set a value to `null`.
    ///
    /// ```
    /// use kubewright_core::Value;
    /// let original: Value = r#"{"data":{"a":"1","b":"2"},"kind":"ConfigMap"}"#.parse()?;
    /// let modified: Value = r#"{"data":{"a":"1","c":"3"},"kind":"ConfigMap"}"#.parse()?;
    /// assert_eq!(original.merge_patch_to(&modified).to_string(), r#"{"data":{"b":null,"c":"3"}}"#);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn merge_patch_to(&self, modified: &Value) -> Value {
        let (Value::Object(original), Value::Object(modified)) = (self, modified) else { return modified.clone() };
        let mut patch = Map::new();
        for (key, value) in modified.iter() {
            match original.get(key) {
                Some(before) if before.is_equivalent(value) => {}
                Some(before @ Value::Object(_)) if value.as_object().is_some() => {
                    patch.insert(key.clone(), before.merge_patch_to(value));
                }
                _ => {
                    patch.insert(key.clone(), value.clone());
                }
            }
        }
        for key in original.keys().filter(|key| !modified.contains_key(key)) {
            patch.insert(key.clone(), Value::Null);
        }
        Value::Object(patch)
    }
}
