//! Whether two trees mean the same.

use crate::Value;

/// Whether two trees are equal, numbers by their value and not by how they are written.
#[inline]
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(whole), Value::Float(number)) | (Value::Float(number), Value::Int(whole)) => {
            *whole as f64 == *number
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((a_key, a), (b_key, b))| a_key == b_key && equal(a, b))
        }
        (a, b) => a == b,
    }
}
