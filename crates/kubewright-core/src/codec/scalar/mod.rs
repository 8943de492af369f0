//! Wire formats of fields that are neither strings, numbers, booleans nor messages.

mod containers;
mod times;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::finite;
use crate::codec::json::{Reader, Writer};
use crate::codec::message::Scalar;
use crate::codec::protobuf::{Encoder, Wire, WireFields};
use crate::{ByteString, IntOrString, Quantity, Str};

impl Scalar for bool {
    crate::scalar_equality!();
    fn clear(&mut self) {
        *self = false;
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = reader.boolean()?;
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.raw(if *self { "true" } else { "false" });
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
        *self = wire.varint()? != 0;
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.varint(number, (*self).into());
    }
}

impl Scalar for f64 {
    crate::scalar_equality!();
    fn is_zero(&self) -> bool {
        *self == 0.0
    }
    fn clear(&mut self) {
        *self = 0.0;
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = finite(reader.number()?)?;
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        // Go writes integral numbers without a fraction.
        if self.fract() == 0.0 && self.abs() < 1e15 {
            writer.integer(*self as i64);
        } else {
            writer.float(*self);
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
        match wire {
            Wire::Fixed64(bits) => *self = f64::from_bits(bits),
            _ => return Err(DecodeError::new("expected eight bytes on the wire")),
        }
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.fixed64(number, self.to_bits());
    }
}

impl Scalar for ByteString {
    crate::scalar_equality!();
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
    fn clear(&mut self) {
        *self = ByteString::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        if reader.peek() == b'[' {
            *self = byte_array(reader)?.into();
            return Ok(());
        }
        let text = reader.string()?;
        *self = ByteString::from_base64(text.as_bytes()).map_err(|error| DecodeError::new(error.to_string()))?;
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.plain_string(&self.to_base64());
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
        *self = wire.bytes()?.into();
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.bytes(number, self);
    }
}

/// An array of numbers, which Go accepts for bytes as well. It reads `null` as zero.
fn byte_array(reader: &mut Reader<'_, '_>) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    reader.open(b'[', "array")?;
    if reader.take(b']') {
        return Ok(bytes);
    }
    loop {
        let value = if reader.null()? { 0 } else { reader.integer()? };
        bytes.push(u8::try_from(value).map_err(|_| DecodeError::new(format!("{value} does not fit 8 bits")))?);
        if !reader.more(b']')? {
            return Ok(bytes);
        }
    }
}

impl Scalar for Quantity {
    crate::scalar_equality!();
    fn clear(&mut self) {
        *self = Quantity::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        let parsed = match reader.peek() {
            b'"' => reader.string()?.trim().parse(),
            b'-' | b'0'..=b'9' => reader.number()?.parse(),
            _ => return Err(reader.expected("quantity")),
        };
        *self = parsed.map_err(|error: crate::ParseQuantityError| DecodeError::new(error.to_string()))?;
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.plain_string(self.encode(&mut [0; Quantity::TEXT_LENGTH]));
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
        let mut fields = WireFields::new(wire.bytes()?);
        while let Some((number, wire)) = fields.next()? {
            if number == 1 {
                let text = std::str::from_utf8(wire.bytes()?).map_err(DecodeError::utf8)?;
                *self = text.parse().map_err(|error: crate::ParseQuantityError| DecodeError::new(error.to_string()))?;
            }
        }
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| inner.bytes(1, self.encode(&mut [0; Quantity::TEXT_LENGTH]).as_bytes()));
    }
}

impl Scalar for IntOrString {
    crate::scalar_equality!();
    fn clear(&mut self) {
        *self = IntOrString::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = match reader.peek() {
            b'"' => IntOrString::String(reader.text()?),
            b'-' | b'0'..=b'9' => IntOrString::Int(reader.int32()?),
            _ => return Err(reader.expected("integer or string")),
        };
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            IntOrString::Int(value) => writer.integer((*value).into()),
            IntOrString::String(text) => writer.string(text),
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let mut fields = WireFields::new(wire.bytes()?);
        let (mut kind, mut int, mut text) = (0, 0, Str::new());
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => kind = wire.varint()?,
                2 => int = wire.int32()?,
                3 => text = decoder.text(wire.bytes()?)?,
                _ => {}
            }
        }
        *self = if kind == 1 { IntOrString::String(text) } else { IntOrString::Int(int) };
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        let (kind, int, text) = match self {
            IntOrString::Int(value) => (0, *value, ""),
            IntOrString::String(text) => (1, 0, text.as_str()),
        };
        encoder.delimited(number, |inner| {
            inner.varint(1, kind);
            inner.varint(2, i64::from(int) as u64);
            inner.bytes(3, text.as_bytes());
        });
    }
}
