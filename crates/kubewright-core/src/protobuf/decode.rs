//! Decodes protobuf into messages, driven by their tables.

use crate::Str;
use crate::decode::{DecodeError, Decoder};
use crate::message::{Message, Slot};
use crate::protobuf::wire::{Fields, Wire, varint};
use crate::scheme::{Flags, Number};

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
    numbers: &[Number],
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let (mut rest, mut last) = (bytes, 0);
    while !rest.is_empty() {
        let before = rest;
        let tag = take_varint(&mut rest)?;
        let found = position(numbers, tag >> 3, last);
        if tag & 7 != 2 {
            rest = decode_number(message, found, before, decoder)?;
            continue;
        }
        let length = take_varint(&mut rest)?;
        let Some((bytes, after)) = rest.split_at_checked(length as usize) else { return Err(DecodeError::truncated()) };
        rest = after;
        let Some((at, entry)) = found else {
            if tag >> 3 == 0 {
                return Err(DecodeError::new("field number out of range"));
            }
            continue;
        };
        last = at;
        if entry.flags != 0
            && (bytes.is_empty() && entry.flags & Flags::ABSENT_IF_ZERO != 0
                || entry.flags & Flags::MANAGED_FIELDS != 0 && decoder.skips_managed_fields())
        {
            continue;
        }
        let done = if entry.target >= Number::EMBEDDED {
            let inner = message.scheme().embedded[usize::from(entry.target - Number::EMBEDDED)];
            decode_numbers(message, inner, bytes, decoder)
        } else {
            match message.slot(usize::from(entry.target)) {
                Slot::OptStr(place) => decoder.set_field(place.insert(Str::new()), bytes, entry.flags),
                Slot::Str(place) => decoder.set_field(place, bytes, entry.flags),
                Slot::Message(inner) => decode_message(inner, bytes, decoder),
                slot => decode_bytes(slot, bytes, decoder, rest, tag),
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

/// Where `number` stands in the table; sources write in ascending order, so it is mostly near `last`.
#[inline(always)]
fn position(numbers: &[Number], number: u64, last: usize) -> Option<(usize, Number)> {
    let mut at = last;
    while let Some(entry) = numbers.get(at) {
        if u64::from(entry.number) >= number {
            if u64::from(entry.number) == number {
                return Some((at, *entry));
            }
            break;
        }
        at += 1;
    }
    let at = numbers.binary_search_by_key(&number, |entry| u64::from(entry.number)).ok()?;
    Some((at, numbers[at]))
}

/// Takes a number or a value of fixed size, with its tag, and returns the bytes after it.
fn decode_number<'a>(
    message: &mut dyn Message,
    found: Option<(usize, Number)>,
    bytes: &'a [u8],
    decoder: &mut Decoder,
) -> Result<&'a [u8], DecodeError> {
    let mut fields = Fields { rest: bytes };
    let (_, wire) = fields.next()?.ok_or_else(DecodeError::truncated)?;
    let Some((_, entry)) = found else { return Ok(fields.rest) };
    if wire.is_zero() && entry.flags & Flags::ABSENT_IF_ZERO != 0 {
        return Ok(fields.rest);
    }
    let done = match (wire, message.slot(usize::from(entry.target))) {
        (Wire::Varint(value), Slot::OptBool(place)) => Ok(*place = Some(value != 0)),
        (Wire::Varint(value), Slot::Bool(place)) => Ok(*place = value != 0),
        // Wider encodings keep the low bits, as everywhere in protobuf.
        (Wire::Varint(value), Slot::OptInt32(place)) => Ok(*place = Some(value as i32)),
        (Wire::Varint(value), Slot::Int32(place)) => Ok(*place = value as i32),
        (Wire::Varint(value), Slot::OptInt64(place)) => Ok(*place = Some(value as i64)),
        (Wire::Varint(value), Slot::Int64(place)) => Ok(*place = value as i64),
        (_, Slot::Scalar(scalar)) => scalar.decode_protobuf(wire, decoder),
        (_, Slot::None) => Ok(()),
        (Wire::Varint(_), _) => wire.bytes().map(|_| ()),
        _ => wire.varint().map(|_| ()),
    };
    match done {
        Ok(()) => Ok(fields.rest),
        Err(error) => Err(name_field(error, message, entry)),
    }
}

/// Takes one item of a list or map, or one of the rarer values. `rest` and `tag` tell how many items follow.
fn decode_bytes(slot: Slot<'_>, bytes: &[u8], decoder: &mut Decoder, rest: &[u8], tag: u64) -> Result<(), DecodeError> {
    match slot {
        Slot::Messages(list) => {
            let index = list.len();
            if index == 0 {
                list.reserve(1 + repeats(rest, tag));
            }
            decode_message(list.push(), bytes, decoder).map_err(|error| error.within_item(index))
        }
        Slot::Scalar(scalar) => scalar.decode_protobuf(Wire::Bytes(bytes), decoder),
        Slot::StrMap(map) => {
            let (key, value) = entry(bytes, decoder)?;
            let value = match value {
                Some(wire) => decoder.text(wire.bytes()?)?,
                None => Str::new(),
            };
            if map.is_empty() {
                map.reserve_exact(1 + repeats(rest, tag));
            }
            map.insert(key, value);
            Ok(())
        }
        Slot::Strs(list) => {
            let index = list.len();
            if index == 0 {
                list.reserve_exact(1 + repeats(rest, tag));
            }
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

/// How many fields follow that have the same tag: the items of one list stand together, so that it is made at its
/// right size.
fn repeats(mut rest: &[u8], tag: u64) -> usize {
    let mut count = 0;
    while !rest.is_empty() && take_varint(&mut rest).is_ok_and(|next| next == tag) {
        let Ok(length) = take_varint(&mut rest) else { break };
        let Some((_, after)) = rest.split_at_checked(length as usize) else { break };
        rest = after;
        count += 1;
    }
    count
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
