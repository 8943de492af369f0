//! Opaque JSON, kept as text.

use std::fmt;
use std::str::FromStr;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::message::Scalar;
use crate::codec::protobuf::{Encoder, Wire, WireFields};
use crate::{Str, Value};

/// Any JSON value, kept as received: managed fields, embedded objects, schema defaults.
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
    /// Fails if the text is JSON but not a valid tree: nested too deeply, with a duplicate key, or
    /// with a number out of range.
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

impl Scalar for RawJson {
    crate::scalar_equality!();
    fn clear(&mut self) {
        *self = RawJson::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = RawJson::from_checked(reader.raw()?);
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.raw(self.as_str());
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
        let mut fields = WireFields::new(wire.bytes()?);
        while let Some((number, wire)) = fields.next()? {
            if number == 1 {
                let text = std::str::from_utf8(wire.bytes()?).map_err(DecodeError::utf8)?;
                *self = text.parse()?;
            }
        }
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| inner.bytes(1, self.as_str().as_bytes()));
    }
}
