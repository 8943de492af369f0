//! Finds one field in the text of an object, without a tree.

use super::Reader;
use crate::codec::decoder::{DecodeError, Decoder};

/// The text of the value at a path of keys, or `None` if the object has no such field.
///
/// Reading stops at the field: what follows it is not checked. Of a key that occurs twice the
/// first value counts.
///
/// ```
/// use kubewright_core::json::find_field;
/// let pod = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}}"#;
/// assert_eq!(find_field(pod, &["spec", "nodeName"])?, Some("\"n1\""));
/// assert_eq!(find_field(pod, &["spec", "hostname"])?, None);
/// # Ok::<(), kubewright_core::DecodeError>(())
/// ```
///
/// # Errors
/// If the text up to the field is not well formed, or a value on the way is not an object.
pub fn find_field<'a>(json: &'a [u8], path: &[&str]) -> Result<Option<&'a str>, DecodeError> {
    let mut decoder = Decoder::new();
    let mut reader = Reader::new(json, &mut decoder);
    for name in path {
        if !reader.enter_field(name)? {
            return Ok(None);
        }
    }
    reader.raw().map(Some)
}

impl Reader<'_, '_> {
    /// Moves to the value of a field of the object that comes next. False if there is none.
    fn enter_field(&mut self, name: &str) -> Result<bool, DecodeError> {
        self.open(b'{', "object")?;
        if self.take(b'}') {
            return Ok(false);
        }
        let mut escaped = Vec::new();
        loop {
            if self.key(&mut escaped)? == name.as_bytes() {
                return Ok(true);
            }
            self.skip()?;
            if !self.more(b'}')? {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_path() {
        let json = br#" {"a":{"b":[1,{"c":2}],"\u0063":{"d":"x"}}, "e" : null, "b":3} "#;
        for (path, found) in [
            (&["a", "b"][..], Some(r#"[1,{"c":2}]"#)),
            (&["a", "c", "d"], Some(r#""x""#)),
            (&["b"], Some("3")),
            (&["e"], Some("null")),
            (&["d"], None),
            (&["a", "d"], None),
        ] {
            assert_eq!(find_field(json, path).expect("well formed"), found, "{path:?}");
        }
        assert!(find_field(json, &["a", "b", "c"]).is_err(), "a list has no fields");
        assert!(find_field(br#"{"a":"#, &["b"]).is_err(), "the text breaks off");
    }
}
