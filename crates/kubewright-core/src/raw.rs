//! JSON that nobody here looks into, kept as text.

use std::fmt;
use std::str::FromStr;

use crate::decode::{DecodeError, Decoder};
use crate::json::Reader;
use crate::{Str, Value};

/// Any JSON value, kept as the text that came: managed fields, embedded objects, schema defaults.
#[doc(alias = "RawExtension")]
#[doc(alias = "FieldsV1")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Str);

impl RawJson {
    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value as a tree.
    ///
    /// Fails where the text is JSON but no tree: nested deeper than trees may be, with a key that occurs twice, or a
    /// number that is too large.
    #[inline]
    pub fn to_value(&self) -> Result<Value, DecodeError> {
        self.0.parse()
    }

    #[inline]
    pub(crate) fn from_checked(json: &str) -> Self {
        RawJson(json.into())
    }
}

impl Default for RawJson {
    #[inline]
    fn default() -> Self {
        RawJson(Str::from_static("null"))
    }
}

impl FromStr for RawJson {
    type Err = DecodeError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new();
        let mut reader = Reader::new(text.as_bytes(), &mut decoder);
        let json = reader.raw()?;
        reader.end()?;
        Ok(RawJson(json.into()))
    }
}

impl From<&Value> for RawJson {
    #[inline]
    fn from(value: &Value) -> Self {
        RawJson(value.to_string().into())
    }
}

impl fmt::Debug for RawJson {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RawJson {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
