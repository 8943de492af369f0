//! How codecs reach the fields of a type: by index, through two functions that the generator writes.
//!
//! The usual way in Rust, code generated for each type and each format, makes a large crate that
//! compiles slowly. Here a type says only where its fields lie ([`Message::get`] and
//! [`Message::slot`]); each codec is one function over the tables of [`scheme`](crate::scheme), compiled
//! once. The hot kinds of fields are variants of an enum, the rest goes through [`Scalar`].

use std::any::Any;

use crate::decode::{DecodeError, Decoder};
use crate::json::{Reader, Writer};
use crate::protobuf::{Encoder, Wire};
pub use crate::rare::{Rare, RareFields};
use crate::scheme::TypeInfo;
use crate::shared::Sharing;
use crate::{List, Map, MapBuilder, Shared, Str};

/// An object type of the API, seen as a list of fields.
pub trait Message: Send + Sync + 'static {
    /// The table of the type; indices below are into its fields.
    fn scheme(&self) -> &'static TypeInfo;

    /// The value of a field.
    fn get(&self, field: usize) -> Ref<'_>;

    /// The place of a field that is about to be set; objects on the way are made.
    fn slot(&mut self, field: usize) -> Slot<'_>;

    /// Takes the fields of a message of protobuf, for types that have a loop of their own; see [`own_loop`](crate::own_loop).
    #[doc(hidden)]
    #[inline]
    fn decode_fields(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Option<Result<(), DecodeError>> {
        let _ = (bytes, decoder);
        None
    }
}

/// Gives a type a loop of its own over the fields of protobuf: its table, the numbers of its fields that have a length and of those that
/// are numbers, and of either those that few objects set and Go writes nevertheless, as zero. Where a field lies, what it is and which flags it has is known when the loop is compiled, and nothing that the processor
/// is asked; whatever is not listed, or is written in another way, is left to the loop of all types. For the few types that most of what
/// a cluster sends consists of.
#[doc(hidden)]
#[macro_export]
macro_rules! own_loop {
    ($table:ident, [$($value:literal),*], [$($number:literal),*], [$($empty:literal),*], [$($zero:literal),*]) => {
        #[inline]
        fn decode_fields(
            &mut self,
            bytes: &[u8],
            decoder: &mut $crate::Decoder,
        ) -> Option<Result<(), $crate::DecodeError>> {
            use $crate::protobuf::{decode_number, decode_other, decode_value, name_number, take_bytes, take_varint};
            let mut decode = || {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let start = rest;
                    let tag = take_varint(&mut rest)?;
                    let done = if tag & 7 == 2 {
                        match (take_bytes(&mut rest), tag >> 3) {
                            $((Ok(value), $value) => {
                                decode_value(self, &$table.numbers[$value], value, start, &mut rest, decoder)
                            })*
                            $((Ok([]), $empty) => Ok(()),)*
                            _ => Ok(decode_other(self, start, &mut rest, decoder)?),
                        }
                    } else if tag & 7 == 0 {
                        match (take_varint(&mut rest), tag >> 3) {
                            $((Ok(value), $number) => decode_number(self, &$table.numbers[$number], value, decoder),)*
                            $((Ok(0), $zero) => Ok(()),)*
                            _ => Ok(decode_other(self, start, &mut rest, decoder)?),
                        }
                    } else {
                        Ok(decode_other(self, start, &mut rest, decoder)?)
                    };
                    if let Err(error) = done {
                        return Err(name_number(error, self.scheme(), tag));
                    }
                }
                Ok(())
            };
            Some(decode())
        }
    };
}

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Ref<'a> {
    /// Nothing to write.
    Absent,
    /// A truth value.
    Bool(bool),
    /// An integer of either size.
    Int(i64),
    /// Text.
    Str(&'a str),
    /// A list of texts, not empty.
    Strs(&'a [Str]),
    /// A map of texts, not empty.
    StrMap(&'a Map<Str>),
    /// An object.
    Message(&'a dyn Message),
    /// A list of objects, not empty.
    Messages(&'a dyn Messages),
    /// A map of objects, not empty.
    MessageMap(&'a dyn MessageMap),
    /// Anything else.
    Scalar(&'a dyn Scalar),
}

/// The place of a field.
pub enum Slot<'a> {
    /// No such field.
    None,
    /// A required truth value.
    Bool(&'a mut bool),
    /// An optional truth value.
    OptBool(&'a mut Option<bool>),
    /// A required 32-bit integer.
    Int32(&'a mut i32),
    /// An optional 32-bit integer.
    OptInt32(&'a mut Option<i32>),
    /// A required 64-bit integer.
    Int64(&'a mut i64),
    /// An optional 64-bit integer.
    OptInt64(&'a mut Option<i64>),
    /// A required text.
    Str(&'a mut Str),
    /// An optional text.
    OptStr(&'a mut Option<Str>),
    /// A list of texts.
    Strs(&'a mut List<Str>),
    /// A map of texts.
    StrMap(&'a mut Map<Str>),
    /// An object, made by asking for its place where there was none.
    Message(&'a mut dyn Message),
    /// An object that others may share.
    Shared(&'a mut dyn SharedMessage),
    /// A list of objects.
    Messages(&'a mut dyn Messages),
    /// A map of objects.
    MessageMap(&'a mut dyn MessageMap),
    /// Anything else.
    Scalar(&'a mut dyn Scalar),
}

impl Slot<'_> {
    /// The place, where its value can be shared.
    pub(crate) fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        match self {
            Slot::Strs(list) => Some(*list),
            Slot::StrMap(map) => Some(*map),
            Slot::Shared(place) => Some(*place),
            Slot::Messages(list) => Some(*list),
            Slot::MessageMap(map) => Some(*map),
            Slot::Scalar(scalar) => scalar.sharing(),
            _ => None,
        }
    }
}

/// The place of an object that others may share.
pub trait SharedMessage: Sharing {
    /// The object to be written to, made where there was none.
    fn message(&mut self) -> &mut dyn Message;
}

/// A list of objects of one type.
pub trait Messages: Sharing {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The one at `index`, which is below `len`.
    fn get(&self, index: usize) -> &dyn Message;
    /// Makes room for exactly `additional` more.
    fn reserve(&mut self, additional: usize);
    /// Appends an empty one.
    fn push(&mut self) -> &mut dyn Message;
    /// Gives back spare memory.
    fn trim(&mut self);
    /// Removes all.
    fn clear(&mut self);
}

impl<T: Message + Clone + Default> Messages for List<T> {
    fn len(&self) -> usize {
        self[..].len()
    }
    fn get(&self, index: usize) -> &dyn Message {
        &self[index]
    }
    fn reserve(&mut self, additional: usize) {
        self.reserve_exact(additional);
    }
    fn push(&mut self) -> &mut dyn Message {
        self.push_default()
    }
    fn trim(&mut self) {
        self.shrink_to_fit();
    }
    fn clear(&mut self) {
        List::clear(self);
    }
}

/// A map of objects of one type.
pub trait MessageMap: Sharing {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Key and object at `index`, which is below `len`, in key order.
    fn get(&self, index: usize) -> (&Str, &dyn Message);
    /// Adds entries through a builder, which takes them in any order.
    ///
    /// # Errors
    /// The error of `fill`; the entries that it added before stay.
    fn fill(&mut self, fill: &mut Fill<'_>) -> Result<(), DecodeError>;
    /// Removes all.
    fn clear(&mut self);
}

/// Adds entries to a map of objects.
pub type Fill<'f> = dyn FnMut(&mut dyn MessageMapBuilder) -> Result<(), DecodeError> + 'f;

/// A [`MapBuilder`] of objects of one type.
pub trait MessageMapBuilder {
    /// How many entries there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The object of `key`, made where there was none.
    fn get_or_insert(&mut self, key: Str) -> &mut dyn Message;
}

impl<T: Message + Clone + Default> MessageMapBuilder for MapBuilder<T> {
    fn len(&self) -> usize {
        MapBuilder::len(self)
    }
    fn get_or_insert(&mut self, key: Str) -> &mut dyn Message {
        self.get_or_insert_with(key, T::default)
    }
}

impl<T: Message + Clone + Default> MessageMap for Map<T> {
    fn len(&self) -> usize {
        Map::len(self)
    }
    fn get(&self, index: usize) -> (&Str, &dyn Message) {
        let (key, value) = self.at(index);
        (key, value)
    }
    fn fill(&mut self, fill: &mut Fill<'_>) -> Result<(), DecodeError> {
        let mut builder = MapBuilder::from(std::mem::take(self));
        let done = fill(&mut builder);
        *self = builder.finish();
        done
    }
    fn clear(&mut self) {
        Map::clear(self);
    }
}

/// A field that knows its own wire forms.
pub trait Scalar: 'static {
    /// Whether there is nothing to write.
    fn is_absent(&self) -> bool {
        false
    }
    /// Whether this is the zero value of Go, which protobuf writes for fields held by value.
    fn is_zero(&self) -> bool {
        false
    }
    /// For comparison.
    fn as_any(&self) -> &dyn Any;
    /// Whether `other` is of the same type and equal.
    fn equals(&self, other: &dyn Scalar) -> bool;
    /// Makes room for `additional` more items, where there can be many.
    fn reserve(&mut self, additional: usize) {
        let _ = additional;
    }
    /// The place, where its value can be shared.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }
    /// Becomes absent, or zero where absence cannot be said.
    fn clear(&mut self);
    /// Takes the value at the reader, which is not `null`.
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError>;
    /// Writes the value.
    fn encode_json(&self, writer: &mut Writer<'_>);
    /// Takes one occurrence of the field.
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError>;
    /// Takes occurrences of a repeated field that follow each other.
    fn decode_protobuf_items(
        &mut self,
        items: &mut dyn Iterator<Item = Result<Wire<'_>, DecodeError>>,
        decoder: &mut Decoder,
    ) -> Result<(), DecodeError> {
        for item in items {
            self.decode_protobuf(item?, decoder)?;
        }
        Ok(())
    }
    /// How many entries there are, where the field is a map.
    fn map_len(&self) -> usize {
        0
    }
    /// Writes the field with `number`, once or, if repeated, many times.
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>);
}

/// The comparison of a [`Scalar`] that is `PartialEq`.
#[doc(hidden)]
#[macro_export]
macro_rules! scalar_equality {
    () => {
        fn as_any(&self) -> &dyn ::std::any::Any {
            self
        }
        fn equals(&self, other: &dyn $crate::message::Scalar) -> bool {
            other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
        }
    };
}

/// What generated code calls to make a [`Ref`] of a field.
#[doc(hidden)]
pub mod refs {
    use super::*;

    pub fn opt_bool(value: Option<bool>) -> Ref<'static> {
        value.map_or(Ref::Absent, Ref::Bool)
    }
    pub fn opt_int32(value: Option<i32>) -> Ref<'static> {
        value.map_or(Ref::Absent, |value| Ref::Int(value.into()))
    }
    pub fn opt_int64(value: Option<i64>) -> Ref<'static> {
        value.map_or(Ref::Absent, Ref::Int)
    }
    pub fn opt_str(value: &Option<Str>) -> Ref<'_> {
        value.as_ref().map_or(Ref::Absent, |text| Ref::Str(text))
    }
    pub fn strs(value: &List<Str>) -> Ref<'_> {
        if value.is_empty() { Ref::Absent } else { Ref::Strs(value) }
    }
    pub fn str_map(value: &Map<Str>) -> Ref<'_> {
        if value.is_empty() { Ref::Absent } else { Ref::StrMap(value) }
    }
    pub fn opt_message<T: Message>(value: &Option<T>) -> Ref<'_> {
        match value {
            Some(message) => Ref::Message(message),
            None => Ref::Absent,
        }
    }
    pub fn opt_shared<T: Message>(value: &Option<Shared<T>>) -> Ref<'_> {
        match value {
            Some(message) => Ref::Message(&**message),
            None => Ref::Absent,
        }
    }
    pub fn messages(value: &dyn Messages) -> Ref<'_> {
        if value.is_empty() { Ref::Absent } else { Ref::Messages(value) }
    }
    pub fn message_map(value: &dyn MessageMap) -> Ref<'_> {
        if value.is_empty() { Ref::Absent } else { Ref::MessageMap(value) }
    }
    pub fn scalar(value: &dyn Scalar) -> Ref<'_> {
        if value.is_absent() { Ref::Absent } else { Ref::Scalar(value) }
    }
}
