//! Decodes protobuf into messages, driven by their tables.

use crate::Str;
use crate::decode::{DecodeError, Decoder};
use crate::message::{Message, Slot};
use crate::protobuf::wire::{Fields, Wire};
use crate::scheme::{Flags, Number, Target};

/// Takes a message over `message`, whose fields keep what the bytes don't mention.
pub fn decode_message(message: &mut dyn Message, bytes: &[u8], decoder: &mut Decoder) -> Result<(), DecodeError> {
    let numbers = message.scheme().numbers;
    decode_numbers(message, numbers, bytes, decoder)
}

fn decode_numbers(
    message: &mut dyn Message,
    numbers: &[Number],
    bytes: &[u8],
    decoder: &mut Decoder,
) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Ok(());
    }
    decoder.enter()?;
    let fields_info = message.scheme().fields;
    let mut fields = Fields::new(bytes);
    let mut last = 0;
    while let Some((number, wire)) = fields.next()? {
        let Some(at) = position(numbers, number, last) else { continue };
        last = at;
        match numbers[at].target {
            Target::Embedded(inner) => decode_numbers(message, inner, wire.bytes()?, decoder)?,
            Target::Field(index) => {
                let index = usize::from(index);
                let info = &fields_info[index];
                if info.flags.has(Flags::MANAGED_FIELDS) && decoder.skips_managed_fields() {
                    continue;
                }
                let pointer = info.flags.has(Flags::POINTER);
                decode_slot(message.slot(index), wire, pointer, decoder, || fields.repeats(number))
                    .map_err(|error| error.within_field(info.name))?;
            }
        }
    }
    decoder.leave();
    Ok(())
}

/// Where `number` stands in the table; sources write in ascending order, so it is mostly near `last`.
#[inline]
fn position(numbers: &[Number], number: u32, last: usize) -> Option<usize> {
    let mut at = last;
    while let Some(entry) = numbers.get(at) {
        if entry.number == number {
            return Some(at);
        }
        if entry.number > number {
            break;
        }
        at += 1;
    }
    numbers.binary_search_by_key(&number, |entry| entry.number).ok()
}

/// Takes one occurrence of a field. Go writes zero values of fields that it holds by value, where JSON
/// has nothing; without a `pointer` they are taken as absent, so that both forms give the same object.
fn decode_slot(
    slot: Slot<'_>,
    wire: Wire<'_>,
    pointer: bool,
    decoder: &mut Decoder,
    repeats: impl FnOnce() -> usize,
) -> Result<(), DecodeError> {
    match slot {
        Slot::None => {}
        Slot::Bool(place) => *place = wire.varint()? != 0,
        Slot::OptBool(place) => *place = Some(wire.varint()? != 0).filter(|value| pointer || *value),
        Slot::Int32(place) => *place = wire.int32()?,
        Slot::OptInt32(place) => *place = Some(wire.int32()?).filter(|value| pointer || *value != 0),
        Slot::Int64(place) => *place = wire.varint()? as i64,
        Slot::OptInt64(place) => *place = Some(wire.varint()? as i64).filter(|value| pointer || *value != 0),
        Slot::Str(place) => *place = decoder.text(wire.bytes()?)?,
        Slot::OptStr(place) => {
            let bytes = wire.bytes()?;
            *place = if bytes.is_empty() && !pointer { None } else { Some(decoder.text(bytes)?) };
        }
        Slot::Strs(list) => {
            let text = decoder.text(wire.bytes()?)?;
            if list.is_empty() {
                list.reserve_exact(1 + repeats());
            }
            list.push(text);
        }
        Slot::StrMap(map) => {
            let (key, value) = entry(wire, decoder)?;
            let value = match value {
                Some(wire) => decoder.text(wire.bytes()?)?,
                None => Str::new(),
            };
            if map.is_empty() {
                map.reserve_exact(1 + repeats());
            }
            map.insert(key, value);
        }
        Slot::Message(message) => decode_message(message, wire.bytes()?, decoder)?,
        Slot::Messages(list) => {
            let (bytes, index) = (wire.bytes()?, list.len());
            if index == 0 {
                list.reserve(1 + repeats());
            }
            decode_message(list.push(), bytes, decoder).map_err(|error| error.within_item(index))?;
        }
        Slot::MessageMap(map) => {
            let (key, value) = entry(wire, decoder)?;
            let message = map.get_or_insert(key.clone());
            if let Some(wire) = value {
                decode_message(message, wire.bytes()?, decoder).map_err(|error| error.within_field(&key))?;
            }
        }
        Slot::Scalar(scalar) => {
            scalar.decode_protobuf(wire, decoder)?;
            if !pointer && scalar.is_zero() {
                scalar.clear();
            }
        }
    }
    Ok(())
}

/// Key and value of an entry of a map.
pub(crate) fn entry<'a>(wire: Wire<'a>, decoder: &mut Decoder) -> Result<(Str, Option<Wire<'a>>), DecodeError> {
    let mut fields = Fields::new(wire.bytes()?);
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
