//! Optional and repeated fields.

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::message::Scalar;
use crate::codec::messages::entry;
use crate::codec::protobuf::{Encoder, Wire, WireFields, varint};
use crate::codec::sharing::Sharing;
use crate::{List, Map, MapBuilder, Str};

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

/// Repeated fields; the reader of numbers splits packed numbers.
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
        let mut builder = MapBuilder::from(std::mem::take(self));
        let done = reader.entries(|reader, key| {
            let mut value = T::default();
            if !reader.null()? {
                value.decode_json(reader)?;
            }
            let key = reader.decoder.text(key)?;
            match builder.insert(key, value) {
                Some(_) => reader.decoder.duplicate_key(),
                None => Ok(()),
            }
        });
        *self = builder.finish();
        done
    }
    fn encode_json(&self, writer: &mut Writer<'_>) {
        let entries = self.iter().map(|(key, value)| (key.as_str(), value));
        writer.entries(entries, |writer, value| value.encode_json(writer));
    }
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
        self.decode_protobuf_items(&mut std::iter::once(Ok(wire)), decoder)
    }
    fn decode_protobuf_items(
        &mut self,
        items: &mut dyn Iterator<Item = Result<Wire<'_>, DecodeError>>,
        decoder: &mut Decoder,
    ) -> Result<(), DecodeError> {
        let mut builder = MapBuilder::from(std::mem::take(self));
        let decode = || {
            for item in items {
                let (key, wire) = entry(item?.bytes()?)?;
                let key = decoder.text(key)?;
                let mut value = T::default();
                if let Some(wire) = wire {
                    value.decode_protobuf(wire, decoder)?;
                }
                builder.insert(key, value);
            }
            Ok(())
        };
        let done = decode();
        *self = builder.finish();
        done
    }
    fn map_len(&self) -> usize {
        self.len()
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

/// Lists of strings as map values; in protobuf a message with the items as field 1.
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
        let mut fields = WireFields::new(wire.bytes()?);
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
