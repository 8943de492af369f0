//! Decodes protobuf into messages, driven by their tables.

use crate::Str;
use crate::decode::{DecodeError, Decoder};
use crate::message::{Message, SharedMessage, Slot};
use crate::protobuf::wire::{Fields, Wire, varint};
use crate::scheme::{Flags, Number, Numbers};

/// Takes a message over `message`, whose fields keep what the bytes don't mention.
pub fn decode_message(message: &mut dyn Message, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    decoder.enter()?;
    let numbers = message.scheme().numbers;
    decode_numbers(message, numbers, bytes, decoder)?;
    decoder.leave();
    Ok(())
}

/// The loop that all time is spent in. Values stay in registers here: an enum that goes through memory between a
/// writer of its parts and a reader of the whole stalls the processor for longer than the work itself takes.
fn decode_numbers(
    message: &mut dyn Message,
    numbers: Numbers,
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        let tag = take_varint(&mut rest)?;
        let found = numbers.get(tag >> 3);
        if tag & 7 != 2 {
            rest = decode_number(message, found, before, decoder)?;
            continue;
        }
        let length = take_varint(&mut rest)?;
        let Some((bytes, after)) = rest.split_at_checked(length as usize) else { return Err(DecodeError::truncated()) };
        rest = after;
        let Some(entry) = found else {
            if tag >> 3 == 0 {
                return Err(DecodeError::new("field number out of range"));
            }
            continue;
        };
        if entry.flags != 0
            && (bytes.is_empty() && entry.flags & Flags::ABSENT_IF_ZERO != 0
                || entry.flags & Flags::MANAGED_FIELDS != 0 && decoder.skips_managed_fields())
        {
            continue;
        }
        let field = numbers.index.as_ptr().addr() + (tag >> 3) as usize;
        let done = if entry.target >= Number::EMBEDDED {
            let inner = message.scheme().embedded[usize::from(entry.target - Number::EMBEDDED)];
            decode_numbers(message, inner, bytes, decoder)
        } else {
            match message.slot(usize::from(entry.target)) {
                Slot::OptStr(place) => decoder.set_field(place.insert(Str::new()), bytes, entry.flags),
                Slot::Str(place) => decoder.set_field(place, bytes, entry.flags),
                Slot::Message(inner) => decode_message(inner, bytes, decoder),
                Slot::Shared(place) => decode_shared(place, field, bytes, decoder),
                slot if entry.flags & Flags::REPEATED != 0 => {
                    rest = before;
                    decode_items(slot, field, &mut rest, decoder)
                }
                Slot::Scalar(scalar) => scalar.decode_protobuf(Wire::Bytes(bytes), decoder),
                Slot::None => Ok(()),
                _ => Wire::Bytes(bytes).varint().map(|_| ()),
            }
        };
        if let Err(error) = done {
            return Err(name_field(error, message, entry));
        }
    }
    Ok(())
}

#[cold]
fn name_field(error: DecodeError, message: &dyn Message, entry: Number) -> DecodeError {
    match message.scheme().fields.get(usize::from(entry.target)) {
        Some(field) => error.within_field(field.name),
        None => error,
    }
}

/// A number in as few instructions as the usual one or two bytes need.
#[inline(always)]
fn take_varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    match *rest {
        [a @ 0..0x80, after @ ..] => {
            *rest = after;
            Ok(u64::from(*a))
        }
        [a, b @ 0..0x80, after @ ..] => {
            *rest = after;
            Ok(u64::from(*a & 0x7f) | u64::from(*b) << 7)
        }
        _ => {
            let (value, length) = varint(rest)?.ok_or_else(DecodeError::truncated)?;
            *rest = &rest[length..];
            Ok(value)
        }
    }
}

/// Takes a number or a value of fixed size, with its tag, and returns the bytes after it.
fn decode_number<'a>(
    message: &mut dyn Message,
    found: Option<Number>,
    bytes: &'a [u8],
    decoder: &mut Decoder,
) -> Result<&'a [u8], DecodeError> {
    let mut fields = Fields { rest: bytes };
    let (_, wire) = fields.next()?.ok_or_else(DecodeError::truncated)?;
    let Some(entry) = found else { return Ok(fields.rest) };
    if wire.is_zero() && entry.flags & Flags::ABSENT_IF_ZERO != 0 {
        return Ok(fields.rest);
    }
    let mut done = Ok(());
    match (wire, message.slot(usize::from(entry.target))) {
        (Wire::Varint(value), Slot::OptBool(place)) => *place = Some(value != 0),
        (Wire::Varint(value), Slot::Bool(place)) => *place = value != 0,
        // Wider encodings keep the low bits, as everywhere in protobuf.
        (Wire::Varint(value), Slot::OptInt32(place)) => *place = Some(value as i32),
        (Wire::Varint(value), Slot::Int32(place)) => *place = value as i32,
        (Wire::Varint(value), Slot::OptInt64(place)) => *place = Some(value as i64),
        (Wire::Varint(value), Slot::Int64(place)) => *place = value as i64,
        (_, Slot::Scalar(scalar)) => done = scalar.decode_protobuf(wire, decoder),
        (_, Slot::None) => {}
        (Wire::Varint(_), _) => done = wire.bytes().map(|_| ()),
        _ => done = wire.varint().map(|_| ()),
    }
    match done {
        Ok(()) => Ok(fields.rest),
        Err(error) => Err(name_field(error, message, entry)),
    }
}

/// Takes an object that may have come before.
fn decode_shared(
    place: &mut dyn SharedMessage,
    field: usize,
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    if !place.vacant() {
        return decode_message(place.message(), bytes, decoder);
    }
    if decoder.recall(field, place, bytes) {
        return Ok(());
    }
    decode_message(place.message(), bytes, decoder)?;
    decoder.remember(field, place, bytes);
    Ok(())
}

/// Takes all items of a list or map that stand together, which mostly is all there are; `rest` begins with the first.
fn decode_items(mut slot: Slot<'_>, field: usize, rest: &mut &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    let (count, after) = run(rest);
    let bytes = &rest[..rest.len() - after.len()];
    let fresh = slot.sharing().is_some_and(|place| place.vacant());
    if fresh && slot.sharing().is_some_and(|place| decoder.recall(field, place, bytes)) {
        *rest = after;
        return Ok(());
    }
    match &mut slot {
        Slot::Messages(list) if fresh => list.reserve(count),
        Slot::Strs(list) if fresh => list.reserve_exact(count),
        Slot::StrMap(map) if fresh => map.reserve_exact(count),
        Slot::Scalar(scalar) if fresh => scalar.reserve(count),
        _ => {}
    }
    while rest.len() > after.len() {
        take_varint(rest)?;
        let length = take_varint(rest)?;
        let Some((item, next)) = rest.split_at_checked(length as usize) else { return Err(DecodeError::truncated()) };
        *rest = next;
        decode_item(&mut slot, item, decoder)?;
    }
    if fresh && let Some(place) = slot.sharing() {
        decoder.remember(field, place, bytes);
    }
    Ok(())
}

fn decode_item(slot: &mut Slot<'_>, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    match slot {
        Slot::Messages(list) => {
            let index = list.len();
            decode_message(list.push(), bytes, decoder).map_err(|error| error.within_item(index))
        }
        Slot::Scalar(scalar) => scalar.decode_protobuf(Wire::Bytes(bytes), decoder),
        Slot::StrMap(map) => {
            let (key, value) = entry(bytes, decoder)?;
            let value = match value {
                Some(wire) => decoder.text(wire.bytes()?)?,
                None => Str::new(),
            };
            map.insert(key, value);
            Ok(())
        }
        Slot::Strs(list) => {
            let index = list.len();
            list.push(decoder.text(bytes).map_err(|error| error.within_item(index))?);
            Ok(())
        }
        Slot::MessageMap(map) => {
            let (key, value) = entry(bytes, decoder)?;
            let message = map.get_or_insert(key.clone());
            match value {
                Some(wire) => decode_message(message, wire.bytes()?, decoder).map_err(|error| error.within_field(&key)),
                None => Ok(()),
            }
        }
        Slot::None => Ok(()),
        _ => Wire::Bytes(bytes).varint().map(|_| ()),
    }
}

/// How many fields stand together that have the tag of the first, and what follows them. A list is made at its right size
/// by it, and known again by the bytes of all its items.
fn run(bytes: &[u8]) -> (usize, &[u8]) {
    let (mut rest, mut after, mut count, mut tag) = (bytes, bytes, 0, None);
    while !rest.is_empty() && take_varint(&mut rest).is_ok_and(|next| *tag.get_or_insert(next) == next) {
        let Ok(length) = take_varint(&mut rest) else { break };
        let Some((_, next)) = rest.split_at_checked(length as usize) else { break };
        (rest, after, count) = (next, next, count + 1);
    }
    (count, after)
}

/// Key and value of an entry of a map.
pub(crate) fn entry<'a>(bytes: &'a [u8], decoder: &mut Decoder) -> Result<(Str, Option<Wire<'a>>), DecodeError> {
    let mut fields = Fields::new(bytes);
    let (mut key, mut value) = (Str::new(), None);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => key = decoder.text(wire.bytes()?)?,
            2 => value = Some(wire),
            _ => {}
        }
    }
    Ok((key, value))
}
