//! Decodes protobuf into messages, driven by their type tables.

use super::protobuf_items::{decode_items, run};
use crate::Str;
use crate::codec::decoder::{CacheMiss, DecodeError, Decoder};
use crate::codec::message::{Message, SharedMessage, Slot};
use crate::codec::protobuf::{Wire, WireFields, id, take_bytes, take_varint};
use crate::codec::scheme::{Flags, Number, Numbers, TypeInfo};

/// Decodes a message into `message`; fields that are not mentioned keep their values.
pub fn decode_message(message: &mut dyn Message, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    decoder.enter()?;
    match message.decode_fields(bytes, decoder) {
        Some(done) => done?,
        None => decode_fields(message, bytes, decoder)?,
    }
    decoder.leave();
    Ok(())
}

/// Decodes the fields of a message.
fn decode_fields(message: &mut dyn Message, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    let numbers = message.scheme().numbers;
    decode_numbers(message, numbers, bytes, decoder)
}

/// The hot loop. Values must stay in registers, so rare cases are in separate functions. Passing an
/// enum through memory, written in parts and read as a whole, would stall on store forwarding for
/// longer than the work takes.
fn decode_numbers(
    message: &mut dyn Message,
    numbers: Numbers,
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = rest;
        let tag = take_varint(&mut rest)?;
        let number = match numbers.get((tag >> 3) as usize) {
            Some(number) if number.target < Number::EMBEDDED => number,
            other => {
                let (wire, after) = take_any(start)?;
                rest = after;
                if let Some(table) = other.and_then(Number::table) {
                    let inner = message.scheme().embedded[table];
                    decode_numbers(message, inner, wire.bytes()?, decoder)?;
                }
                continue;
            }
        };
        let done = if tag & 7 == 2 {
            match take_bytes(&mut rest) {
                Ok(value) => decode_value(message, number, value, start, &mut rest, decoder),
                Err(error) => Err(error),
            }
        } else if tag & 7 == 0 {
            match take_varint(&mut rest) {
                Ok(value) => decode_number(message, number, value, decoder),
                Err(error) => Err(error),
            }
        } else {
            let (wire, after) = take_any(start)?;
            rest = after;
            if wire.is_zero() && number.flags & Flags::ABSENT_IF_ZERO != 0 {
                continue;
            }
            decode_fixed(message.slot(usize::from(number.target)), wire, decoder)
        };
        if let Err(error) = done {
            return Err(name_field(error, message.scheme(), number));
        }
    }
    Ok(())
}

/// Decodes one field with the generic loop.
#[doc(hidden)]
#[inline(always)]
pub fn decode_other<'a>(
    message: &mut dyn Message,
    start: &'a [u8],
    rest: &mut &'a [u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    *rest = decode_one(message, start, decoder)?;
    Ok(())
}

/// Decodes one field; for a list, with all consecutive items, so that they are cached and allocated
/// together.
#[cold]
fn decode_one<'a>(message: &mut dyn Message, start: &'a [u8], decoder: &mut Decoder) -> Result<&'a [u8], DecodeError> {
    let after = match take_any(start) {
        Ok((Wire::Bytes(_), after)) => run(start, after).1,
        Ok((_, after)) => after,
        // The generic loop reports the error with the field.
        Err(_) => &[],
    };
    decode_fields(message, &start[..start.len() - after.len()], decoder)?;
    Ok(after)
}

/// Decodes a length-delimited field, and for a list all consecutive items.
#[doc(hidden)]
#[inline(always)]
pub fn decode_value<'a, M: Message + ?Sized>(
    message: &mut M,
    number: &Number,
    value: &[u8],
    start: &'a [u8],
    rest: &mut &'a [u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    if value.is_empty() && number.flags & Flags::ABSENT_IF_ZERO != 0 {
        return Ok(());
    }
    // Before the slot is requested, which would allocate it.
    if number.flags & Flags::MANAGED_FIELDS != 0 && decoder.skips_managed_fields() {
        return Ok(());
    }
    match message.slot(usize::from(number.target)) {
        Slot::OptStr(place) => decoder.set_field(place.insert(Str::new()), value, number.flags),
        Slot::Str(place) => decoder.set_field(place, value, number.flags),
        Slot::Message(inner) => decode_message(inner, value, decoder),
        Slot::Shared(place) => decode_shared(place, number, value, decoder),
        Slot::Scalar(scalar) if number.flags & Flags::REPEATED == 0 => {
            scalar.decode_protobuf(Wire::Bytes(value), decoder)
        }
        Slot::None => Ok(()),
        mut slot => {
            // A copy, because taking the address of `rest` would force it into memory.
            let mut after = *rest;
            let done = decode_items(&mut slot, number, start, &mut after, decoder);
            *rest = after;
            done
        }
    }
}

/// Adds the field with this tag to the error.
#[doc(hidden)]
#[cold]
pub fn name_number(error: DecodeError, scheme: &TypeInfo, tag: u64) -> DecodeError {
    match scheme.numbers.get((tag >> 3) as usize) {
        Some(number) => name_field(error, scheme, number),
        None => error,
    }
}

#[cold]
fn name_field(error: DecodeError, scheme: &TypeInfo, number: &Number) -> DecodeError {
    match scheme.fields.get(usize::from(number.target)) {
        Some(field) => error.within_field(field.name),
        None => error,
    }
}

/// Decodes a varint field.
#[doc(hidden)]
#[inline(always)]
pub fn decode_number<M: Message + ?Sized>(
    message: &mut M,
    number: &Number,
    value: u64,
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    if value == 0 && number.flags & Flags::ABSENT_IF_ZERO != 0 {
        return Ok(());
    }
    match message.slot(usize::from(number.target)) {
        Slot::OptBool(place) => *place = Some(value != 0),
        Slot::Bool(place) => *place = value != 0,
        // Wider encodings are truncated, as everywhere in protobuf.
        Slot::OptInt32(place) => *place = Some(value as i32),
        Slot::Int32(place) => *place = value as i32,
        Slot::OptInt64(place) => *place = Some(value as i64),
        Slot::Int64(place) => *place = value as i64,
        Slot::Scalar(scalar) => return scalar.decode_protobuf(Wire::Varint(value), decoder),
        Slot::None => {}
        _ => return Wire::Varint(value).bytes().map(|_| ()),
    }
    Ok(())
}

/// The value of the field whose tag is at `start`, of any wire type, and the remaining bytes.
#[inline(never)]
fn take_any(start: &[u8]) -> Result<(Wire<'_>, &[u8]), DecodeError> {
    let mut fields = WireFields::new(start);
    let (_, wire) = fields.next()?.ok_or_else(DecodeError::truncated)?;
    Ok((wire, fields.rest))
}

/// Decodes a value of fixed size, which few fields have.
#[cold]
fn decode_fixed(slot: Slot<'_>, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
    match slot {
        Slot::Scalar(scalar) => scalar.decode_protobuf(wire, decoder),
        Slot::None => Ok(()),
        _ => wire.varint().map(|_| ()),
    }
}

/// Decodes an object that may be in the cache of repeated values.
#[inline(never)]
fn decode_shared(
    place: &mut dyn SharedMessage,
    number: &Number,
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    if !place.vacant() {
        return decode_message(place.message(), bytes, decoder);
    }
    let field = decoder.field(id(number));
    let Err(missed) = decoder.recall(field, place, bytes) else { return Ok(()) };
    decode_message(place.message(), bytes, decoder)?;
    if missed != CacheMiss::IGNORED {
        decoder.remember(missed, place, bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::decode_fields;
    use crate::codec::message::Message;
    use crate::codec::messages::encode_message;
    use crate::meta::v1::{ObjectMeta, OwnerReference};
    use crate::{Decoder, StringPool};

    fn metadata() -> ObjectMeta {
        ObjectMeta {
            name: Some("web-7d9c5b6f4d-x2x4z".into()),
            generation: Some(300),
            labels: [("app", "web".into())].into_iter().collect(),
            finalizers: ["example.com/keep".into()].into_iter().collect(),
            owner_references: [OwnerReference { name: "web".into(), controller: Some(true), ..Default::default() }]
                .into_iter()
                .collect(),
            ..Default::default()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_specialised_loop_agrees_with_the_generic_loop(damage in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4)) {
            let mut bytes = Vec::new();
            encode_message(&metadata(), &mut bytes);
            for (at, byte) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            for pooled in [false, true] {
                let [mut one, mut two] =
                    [(); 2].map(|()| if pooled { Decoder::new().pool(StringPool::default()) } else { Decoder::new() });
                for _ in 0..3 {
                    let [mut own, mut general] = [ObjectMeta::default(), ObjectMeta::default()];
                    let first = own.decode_fields(&bytes, &mut one).expect("it has a loop of its own");
                    let second = decode_fields(&mut general, &bytes, &mut two);
                    prop_assert_eq!(first.map_err(|error| error.to_string()), second.map_err(|error| error.to_string()));
                    prop_assert_eq!(own, general);
                }
            }
        }
    }
}
