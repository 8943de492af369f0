//! Access to the fields of a type by index, through two generated functions.
//!
//! Generating code for each type and each format, as is usual in Rust, makes a large crate that
//! compiles slowly. Here a type only locates its fields ([`Message::get`] and [`Message::slot`]);
//! each codec is one function over the tables of [`scheme`](crate::scheme), compiled once. Frequent
//! kinds of fields are variants of an enum, the others go through [`Scalar`].

use std::any::Any;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::{Reader, Writer};
use crate::codec::protobuf::{Encoder, Wire};
use crate::codec::scheme::TypeInfo;
use crate::codec::sharing::Sharing;
pub use crate::containers::{Rare, RareFields};
use crate::{List, Map, MapBuilder, Shared, Str};

/// An API type as a list of fields.
pub trait Message: Send + Sync + 'static {
    /// The table of the type; field indices refer to it.
    fn scheme(&self) -> &'static TypeInfo;

    /// The value of a field.
    fn get(&self, field: usize) -> Ref<'_>;

    /// The slot of a field that is about to be set; parent objects are created.
    fn slot(&mut self, field: usize) -> Slot<'_>;

    /// Decodes the fields of a protobuf message, for types with a specialised loop; see
    /// [`own_loop`](crate::own_loop).
    #[doc(hidden)]
    #[inline]
    fn decode_fields(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Option<Result<(), DecodeError>> {
        let _ = (bytes, decoder);
        None
    }
}

/// A type with its constructor and its documentation.
pub struct TypeEntry {
    /// The table of the type.
    pub info: &'static TypeInfo,
    /// Creates a default object.
    pub new: fn() -> Box<dyn Message>,
    /// The purpose of the type, in a sentence.
    pub doc: &'static str,
    /// The purpose of each field of `info`. Kept here and not in [`TypeInfo`], so that only
    /// programs that publish descriptions hold them.
    pub field_docs: &'static [&'static str],
}

/// The value of a field.
#[derive(Clone, Copy)]
pub enum Ref<'a> {
    /// Nothing to write.
    Absent,
    /// A boolean.
    Bool(bool),
    /// A 32- or 64-bit integer.
    Int(i64),
    /// A string.
    Str(&'a str),
    /// A non-empty list of strings.
    Strs(&'a [Str]),
    /// A non-empty map of strings.
    StrMap(&'a Map<Str>),
    /// An object.
    Message(&'a dyn Message),
    /// A non-empty list of objects.
    Messages(&'a dyn Messages),
    /// A non-empty map of objects.
    MessageMap(&'a dyn MessageMap),
    /// Anything else.
    Scalar(&'a dyn Scalar),
}

/// The slot of a field.
pub enum Slot<'a> {
    /// No such field.
    None,
    /// A required boolean.
    Bool(&'a mut bool),
    /// An optional boolean.
    OptBool(&'a mut Option<bool>),
    /// A required 32-bit integer.
    Int32(&'a mut i32),
    /// An optional 32-bit integer.
    OptInt32(&'a mut Option<i32>),
    /// A required 64-bit integer.
    Int64(&'a mut i64),
    /// An optional 64-bit integer.
    OptInt64(&'a mut Option<i64>),
    /// A required string.
    Str(&'a mut Str),
    /// An optional string.
    OptStr(&'a mut Option<Str>),
    /// A list of strings.
    Strs(&'a mut List<Str>),
    /// A map of strings.
    StrMap(&'a mut Map<Str>),
    /// An object, created by requesting its slot.
    Message(&'a mut dyn Message),
    /// A shareable object.
    Shared(&'a mut dyn SharedMessage),
    /// A list of objects.
    Messages(&'a mut dyn Messages),
    /// A map of objects.
    MessageMap(&'a mut dyn MessageMap),
    /// Anything else.
    Scalar(&'a mut dyn Scalar),
}

impl Slot<'_> {
    /// The slot, if its value can be shared.
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

/// The slot of a shareable object.
pub trait SharedMessage: Sharing {
    /// The object for modification, created if absent.
    fn message(&mut self) -> &mut dyn Message;
}

impl<T: Message + Clone + Default> SharedMessage for Option<Shared<T>> {
    fn message(&mut self) -> &mut dyn Message {
        // Spelt out, because the combinator would be compiled for each object type.
        if self.is_none() {
            *self = Some(Shared::default());
        }
        match self {
            Some(message) => &mut **message,
            None => unreachable!("made above"),
        }
    }
}

/// A list of objects of one type.
pub trait Messages: Sharing {
    /// Number of objects.
    fn len(&self) -> usize;
    /// Whether the list is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The object at `index`, which must be below `len`.
    fn get(&self, index: usize) -> &dyn Message;
    /// Reserves capacity for exactly `additional` more.
    fn reserve(&mut self, additional: usize);
    /// Appends a default object.
    fn push(&mut self) -> &mut dyn Message;
    /// Releases unused capacity.
    fn trim(&mut self);
    /// Removes all objects.
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
    /// Number of entries.
    fn len(&self) -> usize;
    /// Whether the map is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Key and object at `index`, which must be below `len`, in key order.
    fn get(&self, index: usize) -> (&Str, &dyn Message);
    /// Adds entries in any order, through a builder.
    ///
    /// # Errors
    /// The error of `fill`; the entries that it added before stay.
    fn fill(&mut self, fill: &mut Fill<'_>) -> Result<(), DecodeError>;
    /// Removes all entries.
    fn clear(&mut self);
}

/// Adds entries to a map of objects.
pub type Fill<'f> = dyn FnMut(&mut dyn MessageMapBuilder) -> Result<(), DecodeError> + 'f;

/// A [`MapBuilder`] of objects of one type.
pub trait MessageMapBuilder {
    /// Number of entries.
    fn len(&self) -> usize;
    /// Whether the builder is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The object of `key`, created if absent.
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

/// A field with its own wire formats.
pub trait Scalar: 'static {
    /// Whether there is nothing to write.
    fn is_absent(&self) -> bool {
        false
    }
    /// Whether this is Go's zero value, which protobuf writes for fields held by value.
    fn is_zero(&self) -> bool {
        false
    }
    /// For comparisons.
    fn as_any(&self) -> &dyn Any;
    /// Whether `other` is of the same type and equal.
    fn equals(&self, other: &dyn Scalar) -> bool;
    /// Reserves capacity for `additional` more items, if it is repeated.
    fn reserve(&mut self, additional: usize) {
        let _ = additional;
    }
    /// The slot, if its value can be shared.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }
    /// Makes the field absent, or zero if it cannot be absent.
    fn clear(&mut self);
    /// Reads the value, which is not `null`.
    fn decode_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError>;
    /// Writes the value.
    fn encode_json(&self, writer: &mut Writer<'_>);
    /// Reads one occurrence of the field.
    fn decode_protobuf(&mut self, wire: Wire<'_>, decoder: &mut Decoder) -> Result<(), DecodeError>;
    /// Reads consecutive occurrences of a repeated field.
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
    /// Number of entries, if the field is a map.
    fn map_len(&self) -> usize {
        0
    }
    /// Writes the field with `number`, once or, if repeated, once per item.
    fn encode_protobuf(&self, number: u32, encoder: &mut Encoder<'_>);
}

/// Equality of a [`Scalar`] that is `PartialEq`.
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

/// Conversions to [`Ref`] for generated code.
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
