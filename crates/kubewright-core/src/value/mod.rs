//! JSON trees, for objects whose type is not known.

mod difference;
mod interop;
mod literal;
mod raw;

pub use raw::RawJson;

use std::fmt;
use std::str::FromStr;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer, finite};
use crate::{List, Map, MapBuilder, Str};

/// Maximum depth of a tree; deeper text is rejected, so that recursion is safe.
const MAX_DEPTH: usize = 256;

/// A JSON value. Integers and floating-point numbers stay distinct.
#[derive(Clone, PartialEq, Default)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(Str),
    /// An array.
    Array(List<Value>),
    /// An object with sorted keys.
    Object(Map<Value>),
}

impl Value {
    /// Whether this is `null`.
    #[inline]
    pub fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// The boolean.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The number.
    #[inline]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The string.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array.
    #[inline]
    pub fn as_array(&self) -> Option<&List<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of an object.
    #[inline]
    pub fn as_object(&self) -> Option<&Map<Value>> {
        match self {
            Value::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entries of an object, mutable.
    #[inline]
    pub fn as_object_mut(&mut self) -> Option<&mut Map<Value>> {
        match self {
            Value::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key, if this is an object that contains it.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The kind of value, for messages.
    #[inline]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Decodes JSON, followed by nothing but white space.
    #[inline]
    pub fn from_json(bytes: &[u8]) -> Result<Value, DecodeError> {
        let mut decoder = Decoder::new();
        let mut reader = Reader::new(bytes, &mut decoder);
        let value = reader.value_tree(MAX_DEPTH)?;
        reader.end()?;
        Ok(value)
    }

    /// Writes the value as JSON.
    #[inline]
    pub fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            Value::Null => writer.raw("null"),
            Value::Bool(value) => writer.raw(if *value { "true" } else { "false" }),
            Value::Int(value) => writer.integer(*value),
            Value::Float(value) => writer.float(*value),
            Value::String(text) => writer.string(text),
            Value::Array(items) => writer.items(items, |writer, item| item.encode_json(writer)),
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.as_str(), value));
                writer.entries(entries, |writer, value| value.encode_json(writer));
            }
        }
    }
}

impl Reader<'_, '_> {
    /// Reads a value of any kind as a tree.
    #[inline]
    pub fn tree(&mut self) -> Result<Value, DecodeError> {
        self.value_tree(MAX_DEPTH)
    }

    #[inline]
    fn value_tree(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let deeper =
            || depth.checked_sub(1).ok_or_else(|| DecodeError::new(format!("nested deeper than {MAX_DEPTH} values")));
        Ok(match self.peek() {
            b'"' => Value::String(self.text()?),
            b'{' => {
                let (depth, mut map) = (deeper()?, MapBuilder::new());
                self.entries(|reader, key| {
                    let value = reader.value_tree(depth)?;
                    let key = reader.decoder.text(key)?;
                    match map.insert(key, value) {
                        Some(_) => reader.decoder.duplicate_key(),
                        None => Ok(()),
                    }
                })?;
                Value::Object(map.finish())
            }
            b'[' => {
                let (depth, mut list) = (deeper()?, List::new());
                self.items(|reader, _| {
                    list.push(reader.value_tree(depth)?);
                    Ok(())
                })?;
                list.shrink_to_fit();
                Value::Array(list)
            }
            b't' | b'f' => Value::Bool(self.boolean()?),
            b'n' => self.null().map(|_| Value::Null)?,
            _ => {
                let number = self.number()?;
                match number.parse() {
                    Ok(whole) => Value::Int(whole),
                    Err(_) => Value::Float(finite(number)?),
                }
            }
        })
    }
}

impl FromStr for Value {
    type Err = DecodeError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        Value::from_json(text.as_bytes())
    }
}

impl fmt::Display for Value {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.encode_json(&mut Writer::new(&mut out));
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

impl fmt::Debug for Value {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),*) => { $(
        impl From<$from> for Value {
            #[inline]
            fn from(value: $from) -> Self {
                Value::$variant(value.into())
            }
        }
    )* };
}

from!(bool => Bool, i64 => Int, i32 => Int, i16 => Int, i8 => Int, u32 => Int, u16 => Int, u8 => Int, f64 => Float, f32 => Float,
    &str => String, String => String, &String => String, Str => String, &Str => String,
    List<Value> => Array, Map<Value> => Object);

/// Values that exceed a signed 64-bit integer become floating-point.
impl From<u64> for Value {
    #[inline]
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Value::Float(value as f64), Value::Int)
    }
}

/// Values that exceed a signed 64-bit integer become floating-point.
impl From<usize> for Value {
    #[inline]
    fn from(value: usize) -> Self {
        Value::from(value as u64)
    }
}

/// `None` becomes `null`.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, T::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Value::Array(items.into_iter().map(T::into).collect())
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Value::Array(items.into_iter().map(T::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_stay_distinct() {
        let value: Value = r#"{"a": 9223372036854775807, "b": 1.5, "c": 1e3, "d": 1.0}"#.parse().unwrap();
        assert_eq!(value.get("a"), Some(&Value::Int(i64::MAX)));
        assert_eq!(value.to_string(), r#"{"a":9223372036854775807,"b":1.5,"c":1000.0,"d":1.0}"#);
    }

    #[test]
    fn absurd_nesting_is_an_error() {
        let text = "[".repeat(100_000);
        assert!(text.parse::<Value>().unwrap_err().to_string().contains("nested deeper"));
    }
}
