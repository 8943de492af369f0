//! Decodes protobuf into messages, driven by their tables.

use crate::decode::{DecodeError, Decoder, Missed};
use crate::message::{Message, MessageMap, Messages, Scalar, SharedMessage, Slot};
use crate::protobuf::wire::{Fields, Wire, varint};
use crate::scheme::{Flags, Number, Numbers, TypeInfo};
use crate::{List, Map, Str};

/// Takes a message over `message`, whose fields keep what the bytes don't mention.
pub fn decode_message(message: &mut dyn Message, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    decoder.enter()?;
    match message.decode_fields(bytes, decoder) {
        Some(done) => done?,
        None => decode_fields(message, bytes, decoder)?,
    }
    decoder.leave();
    Ok(())
}

/// Takes the fields of a message. Where the type is known here, where its fields lie becomes part of the loop, which saves a call and
/// a second choice by the kind of each field, for 2 kB of code.
pub fn decode_fields<M: Message + ?Sized>(
    message: &mut M,
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let numbers = message.scheme().numbers;
    decode_numbers(message, numbers, bytes, decoder)
}

/// The loop that all time is spent in. Values stay in registers here, for which there must be few of them: what most
/// fields do without is in functions of its own. An enum that goes through memory between a writer of its parts and a
/// reader of the whole stalls the processor for longer than the work itself takes.
fn decode_numbers<M: Message + ?Sized>(
    message: &mut M,
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
            let value = take_bytes(&mut rest)?;
            if value.is_empty() && number.flags & Flags::ABSENT_IF_ZERO != 0 {
                continue;
            }
            // Before its place is asked for, which would make room for it.
            if number.flags & Flags::MANAGED_FIELDS != 0 && decoder.skips_managed_fields() {
                continue;
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
                    // A copy, because the address of `rest` would keep it in memory.
                    let mut after = rest;
                    let done = decode_items(&mut slot, number, start, &mut after, decoder);
                    rest = after;
                    done
                }
            }
        } else if tag & 7 == 0 {
            let value = take_varint(&mut rest)?;
            if value == 0 && number.flags & Flags::ABSENT_IF_ZERO != 0 {
                continue;
            }
            decode_number(message.slot(usize::from(number.target)), value, decoder)
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

#[cold]
fn name_field(error: DecodeError, scheme: &TypeInfo, number: &Number) -> DecodeError {
    match scheme.fields.get(usize::from(number.target)) {
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
            let (value, after) = long_varint(rest)?;
            *rest = after;
            Ok(value)
        }
    }
}

#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let (value, length) = varint(bytes)?.ok_or_else(DecodeError::truncated)?;
    Ok((value, &bytes[length..]))
}

/// The bytes that a length stands before.
#[inline(always)]
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let length = take_varint(rest)?;
    let Some((bytes, after)) = rest.split_at_checked(length as usize) else { return Err(DecodeError::truncated()) };
    *rest = after;
    Ok(bytes)
}

#[inline(always)]
fn decode_number(slot: Slot<'_>, value: u64, decoder: &mut Decoder) -> Result<(), DecodeError> {
    match slot {
        Slot::OptBool(place) => *place = Some(value != 0),
        Slot::Bool(place) => *place = value != 0,
        // Wider encodings keep the low bits, as everywhere in protobuf.
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

/// The value of the field that begins with its tag at `start`, whatever its form, and the bytes after it.
#[inline(never)]
fn take_any(start: &[u8]) -> Result<(Wire<'_>, &[u8]), DecodeError> {
    let mut fields = Fields::new(start);
    let (_, wire) = fields.next()?.ok_or_else(DecodeError::truncated)?;
    Ok((wire, fields.rest))
}

/// Takes a value of fixed size, which few fields have.
#[cold]
fn decode_fixed(slot: Slot<'_>, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError> {
    match slot {
        Slot::Scalar(scalar) => scalar.decode_protobuf(wire, decoder),
        Slot::None => Ok(()),
        _ => wire.varint().map(|_| ()),
    }
}

/// Takes an object that may have come before.
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
    if missed != Missed::IGNORED {
        decoder.remember(missed, place, bytes);
    }
    Ok(())
}

/// What tells a field from all others: there is one table of numbers for each type.
fn id(number: &Number) -> usize {
    std::ptr::from_ref(number).addr()
}

/// Takes all items of a list or map that stand together, which mostly is all there are. The first one begins at `start`; what
/// follows it is in `after`, and what follows them all is left there.
#[inline(never)]
fn decode_items<'a>(
    slot: &mut Slot<'_>,
    number: &Number,
    start: &'a [u8],
    after: &mut &'a [u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let field = decoder.field(id(number));
    if let Slot::Messages(list) = slot
        && list.is_empty()
        && let Some(room) = decoder.passes(field)
    {
        return decode_in_turn(*list, field, room, start, after, decoder);
    }
    let count;
    (count, *after) = run(start, after);
    let bytes = &start[..start.len() - after.len()];
    // Only a list that was empty is made at its right size: what comes in many runs must not grow by so little each time.
    let (mut room, mut missed) = (0, Missed::IGNORED);
    if let Some(place) = slot.sharing()
        && place.vacant()
    {
        match decoder.recall(field, place, bytes) {
            Ok(_) => return Ok(()),
            Err(value) => (room, missed) = (count, value),
        }
    }
    decode_run(slot, room, bytes, decoder)?;
    if missed != Missed::IGNORED
        && let Some(place) = slot.sharing()
    {
        decoder.remember(missed, place, bytes);
    }
    Ok(())
}

/// Takes all objects of a list that stand together, where nobody asks for the bytes of them all. Where the next one is, is looked at when its
/// turn has come: before, the processor would wait for bytes far ahead.
#[inline(never)]
fn decode_in_turn<'a>(
    list: &mut dyn Messages,
    field: Option<usize>,
    room: u8,
    start: &'a [u8],
    after: &mut &'a [u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    let mut rest = start;
    let tag = take_varint(&mut rest)?;
    let mut item = take_bytes(&mut rest)?;
    list.reserve(usize::from(room));
    loop {
        if let Err(error) = decode_message(list.push(), item, decoder) {
            return Err(error.within_item(list.len() - 1));
        }
        *after = rest;
        match next_of(tag, start, &mut rest) {
            Some(next) => item = next,
            None => break,
        }
    }
    let length = list.len();
    if length != usize::from(room) {
        list.trim();
        decoder.note_length(field, length);
    }
    Ok(())
}

/// The bytes of the next field, if it has the `tag` that is at `start` as well.
#[inline(always)]
fn next_of<'a>(tag: u64, start: &[u8], rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    // Most of what follows differs in the first byte.
    let same = rest.first() == start.first() && take_varint(rest).is_ok_and(|next| next == tag);
    if same { take_bytes(rest).ok() } else { None }
}

/// How many fields stand together that have the tag of the first, and what follows them. A list is made at its right size
/// by it, and known again by the bytes of all its items.
#[inline(always)]
fn run<'a>(start: &[u8], mut after: &'a [u8]) -> (usize, &'a [u8]) {
    let (mut rest, mut count) = (start, 1);
    let Ok(tag) = take_varint(&mut rest) else { return (count, after) };
    let mut rest = after;
    while next_of(tag, start, &mut rest).is_some() {
        (after, count) = (rest, count + 1);
    }
    (count, after)
}

/// The next item of a run.
#[inline(always)]
fn next_item<'a>(run: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    take_varint(run)?;
    take_bytes(run)
}

/// Takes the items of a run, for which there shall be room.
#[inline(never)]
fn decode_run(slot: &mut Slot<'_>, room: usize, run: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    match slot {
        Slot::Messages(list) => decode_messages(*list, room, run, decoder),
        Slot::Strs(list) => decode_strs(list, room, run, decoder),
        Slot::StrMap(map) => decode_str_map(map, room, run, decoder),
        Slot::MessageMap(map) => decode_message_map(*map, run, decoder),
        Slot::Scalar(scalar) => decode_scalars(*scalar, room, run, decoder),
        Slot::None => Ok(()),
        _ => Wire::Bytes(run).varint().map(|_| ()),
    }
}

fn decode_messages(
    list: &mut dyn Messages,
    room: usize,
    mut run: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    list.reserve(room);
    while !run.is_empty() {
        let item = next_item(&mut run)?;
        if let Err(error) = decode_message(list.push(), item, decoder) {
            return Err(error.within_item(list.len() - 1));
        }
    }
    Ok(())
}

fn decode_strs(list: &mut List<Str>, room: usize, mut run: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    list.reserve_exact(room);
    while !run.is_empty() {
        let item = next_item(&mut run)?;
        if let Err(error) = decoder.set_text(list.push_default(), item) {
            return Err(error.within_item(list.len() - 1));
        }
    }
    Ok(())
}

fn decode_str_map(map: &mut Map<Str>, room: usize, mut run: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    map.reserve_exact(room);
    while !run.is_empty() {
        let (mut key, mut text) = (Str::new(), Str::new());
        let item = next_item(&mut run)?;
        let (name, value) = match plain_entry(item) {
            Some(entry) => entry,
            None => any_str_entry(item)?,
        };
        decoder.set_text(&mut key, name)?;
        decoder.set_text(&mut text, value)?;
        map.insert(key, text);
    }
    Ok(())
}

fn decode_message_map(map: &mut dyn MessageMap, mut run: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    while !run.is_empty() {
        let (key, value) = entry(next_item(&mut run)?)?;
        let key = decoder.text(key)?;
        let message = map.get_or_insert(key.clone());
        if let Some(value) = value {
            decode_message(message, value.bytes()?, decoder).map_err(|error| error.within_field(&key))?;
        }
    }
    Ok(())
}

fn decode_scalars(
    scalar: &mut dyn Scalar,
    room: usize,
    mut run: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    scalar.reserve(room);
    while !run.is_empty() {
        scalar.decode_protobuf(Wire::Bytes(next_item(&mut run)?), decoder)?;
    }
    Ok(())
}

/// Key and value of an entry of a map.
#[inline]
pub(crate) fn entry(bytes: &[u8]) -> Result<(&[u8], Option<Wire<'_>>), DecodeError> {
    if let Some((key, value)) = plain_entry(bytes) {
        return Ok((key, Some(Wire::Bytes(value))));
    }
    any_entry(bytes)
}

#[cold]
fn any_str_entry(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (key, value) = any_entry(bytes)?;
    Ok((key, value.map_or(Ok(&[][..]), Wire::bytes)?))
}

#[cold]
fn any_entry(bytes: &[u8]) -> Result<(&[u8], Option<Wire<'_>>), DecodeError> {
    let mut fields = Fields::new(bytes);
    let (mut key, mut value) = (&[][..], None);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => key = wire.bytes()?,
            2 => value = Some(wire),
            _ => {}
        }
    }
    Ok((key, value))
}

/// An entry as all are written: a key, and then a value of bytes.
#[inline(always)]
fn plain_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(&[0x0a])?;
    let key = take_bytes(&mut rest).ok()?;
    let mut rest = rest.strip_prefix(&[0x12])?;
    let value = take_bytes(&mut rest).ok()?;
    rest.is_empty().then_some((key, value))
}
