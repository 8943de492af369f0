//! Wire forms of the fields that are neither text, numbers, truth values nor messages.

use crate::decode::{DecodeError, Decoder};
use crate::json::{Reader, Writer};
use crate::message::Scalar;
use crate::protobuf::{Encoder, Fields, Wire, entry, varint};
use crate::shared::Sharing;
use crate::value::finite;
use crate::{ByteString, IntOrString, List, Map, MicroTime, Quantity, RawJson, Str, Time};

impl<T: Scalar + Default + PartialEq> Scalar for Option<T> {
    crate::scalar_equality!();
    fn is_absent(&self) -> bool {
        self.is_none()
    }
    fn is_zero(&self) -> bool {
        self.as_ref().is_none_or(Scalar::is_zero)
    }
    fn clear(&mut self) {
        *self = None;
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        self.insert(T::default()).decode_json(reader)
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        match self {
            Some(value) => value.encode_json(writer),
            None => writer.raw("null"),
        }
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        self.insert(T::default()).decode_protobuf(wire, decoder)
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        if let Some(value) = self {
            value.encode_protobuf(number, encoder);
        }
    }
}

/// Repeated fields; packed numbers are taken apart by the reader of numbers.
impl<T: Scalar + Clone + Default + PartialEq + Send + Sync> Scalar for List<T> {
    crate::scalar_equality!();
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn reserve(&mut self, additional: usize) {
        self.reserve_exact(additional);
    }
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
    fn clear(&mut self) {
        List::clear(self);
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        reader.items(|reader, _| {
            let mut item = T::default();
            item.decode_json(reader)?;
            self.push(item);
            Ok(())
        })?;
        self.shrink_to_fit();
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.items(self, |writer, item| item.encode_json(writer));
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let mut item = T::default();
        item.decode_protobuf(wire, decoder)?;
        self.push(item);
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        self.iter().for_each(|item| item.encode_protobuf(number, encoder));
    }
}

impl<T: Scalar + Clone + Default + PartialEq + Send + Sync> Scalar for Map<T> {
    crate::scalar_equality!();
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn reserve(&mut self, additional: usize) {
        self.reserve_exact(additional);
    }
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
    fn clear(&mut self) {
        Map::clear(self);
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        reader.entries(|reader, key| {
            let mut value = T::default();
            if !reader.null()? {
                value.decode_json(reader)?;
            }
            let key = reader.decoder.text(key)?;
            match self.insert(key, value) {
                Some(_) => reader.decoder.duplicate_key(),
                None => Ok(()),
            }
        })?;
        self.shrink_to_fit();
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        let entries = self.iter().map(|(key, value)| (key.as_str(), value));
        writer.entries(entries, |writer, value| value.encode_json(writer));
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let (key, wire) = entry(wire.bytes()?)?;
        let key = decoder.text(key)?;
        let mut value = T::default();
        if let Some(wire) = wire {
            value.decode_protobuf(wire, decoder)?;
        }
        self.insert(key, value);
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        for (key, value) in self.iter() {
            encoder.delimited(number, |entry| {
                entry.bytes(1, key.as_bytes());
                value.encode_protobuf(2, entry);
            });
        }
    }
}

/// Lists of text as values of a map; in protobuf a message with the items as field 1.
impl Scalar for List<Str> {
    crate::scalar_equality!();
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
    fn clear(&mut self) {
        List::clear(self);
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        reader.items(|reader, _| {
            self.push(reader.text()?);
            Ok(())
        })?;
        self.shrink_to_fit();
        Ok(())
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        writer.items(self, |writer, text| writer.string(text));
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        let mut fields = Fields::new(wire.bytes()?);
        while let Some((number, wire)) = fields.next()? {
            if number == 1 {
                self.push(decoder.text(wire.bytes()?)?);
            }
        }
        self.shrink_to_fit();
        Ok(())
    }
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
        encoder.delimited(number, |inner| self.iter().for_each(|text| inner.bytes(1, text.as_bytes())));
    }
}

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
        // Go writes whole numbers without a fraction.
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

macro_rules! integer_lists {
    ($($int:ty => $read:ident),*) => { $(
        impl Scalar for List<$int> {
            crate::scalar_equality!();
            fn is_absent(&self) -> bool {
                self.is_empty()
            }
            fn clear(&mut self) {
                List::clear(self);
            }
            fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
                reader.items(|reader, _| {
                    self.push(reader.$read()?);
                    Ok(())
                })?;
                self.shrink_to_fit();
                Ok(())
            }
            fn encode_json(&self, writer: &mut Writer<'_>) {
                writer.items(self, |writer, value| writer.integer((*value).into()));
            }
            fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
                match wire {
                    Wire::Bytes(mut packed) => {
                        while !packed.is_empty() {
                            let (value, length) = varint(packed)?.ok_or_else(DecodeError::truncated)?;
                            self.push(value as $int);
                            packed = &packed[length..];
                        }
                    }
                    wire => self.push(wire.varint()? as $int),
                }
                Ok(())
            }
            fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
                self.iter().for_each(|value| encoder.varint(number, i64::from(*value) as u64));
            }
        }
    )* };
}

integer_lists!(i32 => int32, i64 => integer);

impl Scalar for ByteString {
    crate::scalar_equality!();
    fn is_zero(&self) -> bool {
        self.is_empty()
    }
    fn clear(&mut self) {
        *self = ByteString::default();
    }
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
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
        let mut fields = Fields::new(wire.bytes()?);
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
        let mut fields = Fields::new(wire.bytes()?);
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

/// Seconds since 1970 where a time is written as most are: whole seconds, which take five bytes from 1978 to 3058.
#[inline]
fn whole_seconds(bytes: &[u8]) -> Option<i64> {
    let [0x08, a, b, c, d, e @ 0..0x80, 0x10, 0] = *bytes else { return None };
    let groups = [a, b, c, d].map(|group| i64::from(group & 0x7f));
    let seconds = groups[0] | groups[1] << 7 | groups[2] << 14 | groups[3] << 21 | i64::from(e) << 28;
    (a & b & c & d >= 0x80).then_some(seconds)
}

/// Seconds and nanoseconds of a time.
fn time_parts(bytes: &[u8]) -> Result<(i64, i32), DecodeError> {
    let (mut fields, mut seconds, mut nanos) = (Fields::new(bytes), 0, 0);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => seconds = wire.varint()? as i64,
            2 => nanos = wire.int32()?,
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

/// Times; Go's zero time stands for none: `null` in JSON, an empty message in protobuf.
macro_rules! times {
    ($($time:ty => $from_parts:expr, $to_parts:expr);*) => { $(
        impl Scalar for $time {
            crate::scalar_equality!();
            fn is_zero(&self) -> bool {
                *self == <$time>::default()
            }
            fn clear(&mut self) {
                *self = <$time>::default();
            }
            fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
                let text = reader.string()?;
                *self = <$time>::parse(text.as_bytes()).map_err(|error| DecodeError::new(error.to_string()))?;
                Ok(())
            }
            fn encode_json(&self, writer: &mut Writer<'_>) {
                if Scalar::is_zero(self) {
                    writer.raw("null");
                } else {
                    writer.plain_string(self.encode(&mut [0; <$time>::TEXT_LENGTH]));
                }
            }
            fn decode_protobuf(&mut self, wire: Wire<'_>, _: &mut Decoder) -> Result<(), DecodeError> {
                let bytes = wire.bytes()?;
                let (seconds, nanos) = match whole_seconds(bytes) {
                    Some(seconds) => (seconds, 0),
                    None => time_parts(bytes)?,
                };
                let time: Option<$time> = if bytes.is_empty() { Some(Default::default()) } else { $from_parts(seconds, nanos) };
                *self = time.ok_or_else(|| DecodeError::new("time is outside of the years 0 to 9999"))?;
                Ok(())
            }
            fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>) {
                encoder.delimited(number, |inner| {
                    if !Scalar::is_zero(self) {
                        let (seconds, nanos): (i64, i32) = $to_parts(self);
                        inner.varint(1, seconds as u64);
                        inner.varint(2, nanos as u64);
                    }
                });
            }
        }
    )* };
}

times!(
    Time => |seconds, _| Time::from_unix(seconds), |time: &Time| (time.as_unix(), 0);
    MicroTime => |seconds: i64, nanos: i32| {
        seconds.checked_mul(1_000_000)?.checked_add(i64::from(nanos / 1000)).and_then(MicroTime::from_unix_micros)
    }, |time: &MicroTime| {
        let micros = time.as_unix_micros();
        (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as i32 * 1000)
    }
);

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
        let mut fields = Fields::new(wire.bytes()?);
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
