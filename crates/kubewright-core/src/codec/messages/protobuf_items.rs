//! Decodes lists and maps: consecutive fields of one number.

use crate::codec::decoder::{CacheMiss, DecodeError, Decoder};
use crate::codec::message::{MessageMap, Messages, Scalar, Slot};
use crate::codec::protobuf::{Wire, WireFields, id, take_bytes, take_varint};
use crate::codec::scheme::Number;
use crate::{List, Map, MapBuilder, Str};

/// Up to this many map entries may be scattered.
const MAX_SCATTERED: usize = 256;

/// Decodes all consecutive items of a list or map, usually all items. The first one starts at
/// `start`; `after` is what follows it, and is advanced past the last item.
#[inline(never)]
pub(super) fn decode_items<'a>(
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
    check_scattering(slot, count)?;
    // Only an empty list is allocated at its exact size: many short runs must not each grow it by a
    // little.
    let (mut room, mut missed) = (0, CacheMiss::IGNORED);
    if let Some(place) = slot.sharing()
        && place.vacant()
    {
        match decoder.recall(field, place, bytes) {
            Ok(_) => return Ok(()),
            Err(value) => (room, missed) = (count, value),
        }
    }
    decode_run(slot, room, bytes, decoder)?;
    if missed != CacheMiss::IGNORED
        && let Some(place) = slot.sharing()
    {
        decoder.remember(missed, place, bytes);
    }
    Ok(())
}

/// Decodes consecutive objects of a list without knowing their total size. The next tag is read
/// only when needed: reading ahead would stall on bytes that are not in the CPU cache.
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
        if let Err(error) = decoder.nested_message(list.push(), item) {
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

/// The bytes of the next field, if it has the same `tag` as the one at `start`.
#[inline(always)]
fn next_of<'a>(tag: u64, start: &[u8], rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    // Most other fields already differ in the first byte.
    let same = rest.first() == start.first() && take_varint(rest).is_ok_and(|next| next == tag);
    if same { take_bytes(rest).ok() } else { None }
}

/// Rejects a large map whose entries are in many short runs.
///
/// Each run is merged into the previous entries, which would be quadratic. Encoders write all
/// entries of a map together.
fn check_scattering(slot: &Slot<'_>, count: usize) -> Result<(), DecodeError> {
    let present = match slot {
        Slot::StrMap(map) => map.len(),
        Slot::MessageMap(map) => map.len(),
        Slot::Scalar(scalar) => scalar.map_len(),
        _ => return Ok(()),
    };
    if present > MAX_SCATTERED && count < present / 4 {
        return Err(DecodeError::new("the entries of a map are scattered over the message"));
    }
    Ok(())
}

/// The number of consecutive fields with the tag of the first, and the remaining bytes. Used to
/// allocate a list at its exact size, and to look it up by the bytes of all its items.
#[inline(always)]
pub(super) fn run<'a>(start: &[u8], mut after: &'a [u8]) -> (usize, &'a [u8]) {
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

/// Decodes the items of a run, with capacity for `room` of them.
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
        if let Err(error) = decoder.nested_message(list.push(), item) {
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
    let mut builder = MapBuilder::from(std::mem::take(map));
    builder.reserve_exact(room);
    let mut decode = || {
        while !run.is_empty() {
            let (mut key, mut text) = (Str::new(), Str::new());
            let item = next_item(&mut run)?;
            let (name, value) = match plain_entry(item) {
                Some(entry) => entry,
                None => any_str_entry(item)?,
            };
            decoder.set_text(&mut key, name)?;
            decoder.set_text(&mut text, value)?;
            builder.insert(key, text);
        }
        Ok(())
    };
    let done = decode();
    *map = builder.finish();
    done
}

fn decode_message_map(map: &mut dyn MessageMap, mut run: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    map.fill(&mut |builder| {
        while !run.is_empty() {
            let (key, value) = entry(next_item(&mut run)?)?;
            let key = decoder.text(key)?;
            let message = builder.get_or_insert(key.clone());
            if let Some(value) = value {
                decoder.nested_message(message, value.bytes()?).map_err(|error| error.within_field(&key))?;
            }
        }
        Ok(())
    })
}

fn decode_scalars(
    scalar: &mut dyn Scalar,
    room: usize,
    mut run: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    scalar.reserve(room);
    let mut items = std::iter::from_fn(|| (!run.is_empty()).then(|| next_item(&mut run).map(Wire::Bytes)));
    scalar.decode_protobuf_items(&mut items, decoder)
}

/// Key and value of a map entry.
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
    let mut fields = WireFields::new(bytes);
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

/// An entry in the usual form: a key, then a length-delimited value.
#[inline(always)]
fn plain_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes.strip_prefix(&[0x0a])?;
    let key = take_bytes(&mut rest).ok()?;
    let mut rest = rest.strip_prefix(&[0x12])?;
    let value = take_bytes(&mut rest).ok()?;
    rest.is_empty().then_some((key, value))
}
