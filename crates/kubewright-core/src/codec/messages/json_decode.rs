//! Decodes JSON into messages, driven by their type tables.

use crate::codec::decoder::DecodeError;
use crate::codec::json::Reader;
use crate::codec::message::{Message, Slot};
use crate::codec::scheme::{FieldInfo, Flags, TypeInfo};
use crate::{MapBuilder, Str};

impl Reader<'_, '_> {
    /// Reads an object into `message`; fields that are not mentioned keep their values.
    pub fn message(&mut self, message: &mut dyn Message) -> Result<(), DecodeError> {
        self.open(b'{', "object")?;
        if self.take(b'}') {
            return Ok(());
        }
        self.decoder.enter()?;
        let scheme = message.scheme();
        let (mut next, mut seen, mut escaped) = (0, 0u64, Vec::new());
        loop {
            let key = self.key(&mut escaped)?;
            let Some(index) = scheme.field_index(key, next) else {
                self.other_field(scheme, key)?;
                if self.more(b'}')? {
                    continue;
                }
                break;
            };
            next = index + 1;
            let field = &scheme.fields[index];
            if seen & (1 << index) != 0 {
                self.decoder.duplicate_field(field.name)?;
                clear(message.slot(index));
            }
            seen |= 1 << index;
            if self.peek() == b'n' {
                // As in Go, null leaves a field unchanged.
                self.null().map_err(|error| error.within_field(field.name))?;
            } else if field.flags.has(Flags::MANAGED_FIELDS) && self.decoder.skips_managed_fields() {
                self.skip().map_err(|error| error.within_field(field.name))?;
            } else {
                let before = self.decoder.finding_count();
                let done = match message.slot(index) {
                    Slot::OptStr(place) => self.set_text(place.insert(Str::new()), field.flags.0),
                    Slot::Str(place) => self.set_text(place, field.flags.0),
                    Slot::Message(inner) => self.message(inner),
                    slot => self.repeated_value(slot, field),
                };
                if let Err(error) = done {
                    return Err(error.within_field(field.name));
                }
                if self.decoder.finding_count() > before {
                    self.decoder.prefix_findings(before, &|| field.name.to_owned());
                }
            }
            if !self.more(b'}')? {
                break;
            }
        }
        self.decoder.leave();
        Ok(())
    }

    /// Reads a value that may be cached. The text of an object or array delimits itself, so
    /// comparing the upcoming text suffices.
    fn repeated_value(&mut self, mut slot: Slot<'_>, field: &FieldInfo) -> Result<(), DecodeError> {
        let Some(place) = slot.sharing().filter(|place| place.vacant()) else { return self.value(&mut slot, field) };
        let id = std::ptr::from_ref(field).addr();
        let start = self.rest();
        let missed = match self.decoder.recall_start(id, place, start) {
            Ok(length) => {
                self.advance(length as usize);
                return Ok(());
            }
            Err(missed) => missed,
        };
        self.value(&mut slot, field)?;
        let text = &start[..start.len() - self.rest().len()];
        if let Some(place) = slot.sharing() {
            self.decoder.remember(missed, place, text);
        }
        Ok(())
    }

    fn value(&mut self, slot: &mut Slot<'_>, field: &FieldInfo) -> Result<(), DecodeError> {
        match slot {
            Slot::None => self.skip()?,
            Slot::Bool(place) => **place = self.boolean()?,
            Slot::OptBool(place) => **place = Some(self.boolean()?),
            Slot::Int32(place) => **place = self.int32()?,
            Slot::OptInt32(place) => **place = Some(self.int32()?),
            Slot::Int64(place) => **place = self.integer()?,
            Slot::OptInt64(place) => **place = Some(self.integer()?),
            Slot::Str(place) => self.set_text(place, field.flags.0)?,
            Slot::OptStr(place) => self.set_text(place.insert(Str::new()), field.flags.0)?,
            Slot::Strs(list) => {
                let length = usize::from(*self.decoder.length_of(field));
                self.items(|reader, index| {
                    if index == 0 {
                        list.reserve_exact(length.max(1));
                    }
                    let text = if reader.null()? { Default::default() } else { reader.text()? };
                    list.push(text);
                    Ok(())
                })?;
                list.shrink_to_fit();
                *self.decoder.length_of(field) = list.len() as u8;
            }
            Slot::StrMap(map) => {
                let length = usize::from(*self.decoder.length_of(field));
                let mut builder = MapBuilder::from(std::mem::take(*map));
                let done = self.entries(|reader, key| {
                    if builder.is_empty() {
                        builder.reserve_exact(length.max(1));
                    }
                    let text = if reader.null()? { Default::default() } else { reader.text()? };
                    let key = reader.decoder.text(key)?;
                    match builder.insert(key, text) {
                        Some(_) => reader.decoder.duplicate_key(),
                        None => Ok(()),
                    }
                });
                **map = builder.finish();
                done?;
                *self.decoder.length_of(field) = map.len() as u8;
            }
            Slot::Message(message) => self.message(*message)?,
            Slot::Shared(place) => self.message(place.message())?,
            Slot::Messages(list) => {
                let length = usize::from(*self.decoder.length_of(field));
                self.items(|reader, index| {
                    if index == 0 {
                        list.reserve(length.max(1));
                    }
                    let item = list.push();
                    if reader.null()? { Ok(()) } else { reader.message(item) }
                })?;
                list.trim();
                *self.decoder.length_of(field) = list.len() as u8;
            }
            Slot::MessageMap(map) => map.fill(&mut |builder| {
                self.entries(|reader, key| {
                    let count = builder.len();
                    let key = reader.decoder.text(key)?;
                    let value = builder.get_or_insert(key);
                    if !reader.null()? {
                        reader.message(value)?;
                    }
                    if builder.len() == count { reader.decoder.duplicate_key() } else { Ok(()) }
                })
            })?,
            Slot::Scalar(scalar) => scalar.decode_json(self)?,
        }
        Ok(())
    }

    /// Reads an array, calling `item` for each value.
    pub fn items(
        &mut self,
        mut item: impl FnMut(&mut Self, usize) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.open(b'[', "array")?;
        if self.take(b']') {
            return Ok(());
        }
        let mut index = 0;
        loop {
            let before = self.decoder.finding_count();
            item(self, index).map_err(|error| error.within_item(index))?;
            if self.decoder.finding_count() > before {
                self.decoder.prefix_findings(before, &|| format!("[{index}]"));
            }
            if !self.more(b']')? {
                return Ok(());
            }
            index += 1;
        }
    }

    /// Reads an object as a map, calling `entry` with each key at its value.
    pub fn entries(
        &mut self,
        mut entry: impl FnMut(&mut Self, &[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.open(b'{', "object")?;
        if self.take(b'}') {
            return Ok(());
        }
        let mut escaped = Vec::new();
        loop {
            let key = self.key(&mut escaped)?;
            let before = self.decoder.finding_count();
            entry(self, key).map_err(|error| error.within_field(&String::from_utf8_lossy(key)))?;
            if self.decoder.finding_count() > before {
                self.decoder.prefix_findings(before, &|| String::from_utf8_lossy(key).into_owned());
            }
            if !self.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads a 32-bit integer.
    #[inline]
    pub fn int32(&mut self) -> Result<i32, DecodeError> {
        let value = self.integer()?;
        i32::try_from(value).map_err(|_| DecodeError::new(format!("{value} does not fit 32 bits")))
    }

    /// Handles a key that is not a field: kind, version, or unknown.
    fn other_field(&mut self, scheme: &TypeInfo, key: &[u8]) -> Result<(), DecodeError> {
        let name = std::str::from_utf8(key).map_err(DecodeError::utf8)?;
        let wanted = match (&scheme.kind, name) {
            (Some(info), "kind") => info.kind,
            (Some(info), "apiVersion") => info.api_version,
            _ => {
                self.decoder.unknown_field(name);
                return self.raw().map(|_| ()).map_err(|error| error.within_field(name));
            }
        };
        if self.null()? {
            return Ok(());
        }
        let found = self.string().map_err(|error| error.within_field(name))?;
        if found.is_empty() || found == wanted {
            return Ok(());
        }
        Err(DecodeError::new(format!("expected {wanted}, found {found}")).within_field(name))
    }
}

fn clear(slot: Slot<'_>) {
    match slot {
        Slot::None | Slot::Bool(_) | Slot::Int32(_) | Slot::Int64(_) | Slot::Str(_) => {}
        Slot::OptBool(_)
        | Slot::OptInt32(_)
        | Slot::OptInt64(_)
        | Slot::OptStr(_)
        | Slot::Message(_)
        | Slot::Shared(_) => {}
        Slot::Strs(list) => list.clear(),
        Slot::StrMap(map) => map.clear(),
        Slot::Messages(list) => list.clear(),
        Slot::MessageMap(map) => map.clear(),
        Slot::Scalar(scalar) => scalar.clear(),
    }
}
