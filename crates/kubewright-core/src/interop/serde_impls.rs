//! serde for generated types, over the type tables.

use serde_core::Serialize;
use serde_core::ser::{Error, SerializeMap};

use crate::Value;
use crate::codec::decoder::Decoder;
use crate::codec::json::Writer;
use crate::codec::message::{Message, Ref};
use crate::codec::scheme::Flags;

/// Serialises the fields that are set, with kind and version for object types.
pub fn serialize<S: serde_core::Serializer>(message: &dyn Message, serializer: S) -> Result<S::Ok, S::Error> {
    MessageFields { message, with_kind: true }.serialize(serializer)
}

struct MessageFields<'a> {
    message: &'a dyn Message,
    with_kind: bool,
}

impl Serialize for MessageFields<'_> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let scheme = self.message.scheme();
        let mut map = serializer.serialize_map(None)?;
        if let Some(info) = scheme.kind.as_ref().filter(|_| self.with_kind) {
            map.serialize_entry("kind", info.kind)?;
            map.serialize_entry("apiVersion", info.api_version)?;
        }
        for (index, field) in scheme.fields.iter().enumerate() {
            let value = self.message.get(index);
            if !matches!(value, Ref::Absent) {
                map.serialize_entry(field.name, &MessageField { value, with_kind: field.flags.has(Flags::TYPED) })?;
            }
        }
        map.end()
    }
}

struct MessageField<'a> {
    value: Ref<'a>,
    with_kind: bool,
}

impl Serialize for MessageField<'_> {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let with_kind = self.with_kind;
        match self.value {
            Ref::Absent => serializer.serialize_unit(),
            Ref::Bool(value) => serializer.serialize_bool(value),
            Ref::Int(value) => serializer.serialize_i64(value),
            Ref::Str(text) => serializer.serialize_str(text),
            Ref::Strs(list) => serializer.collect_seq(list),
            Ref::StrMap(map) => serializer.collect_map(map.iter()),
            Ref::Message(message) => MessageFields { message, with_kind }.serialize(serializer),
            Ref::Messages(list) => serializer
                .collect_seq((0..list.len()).map(|index| MessageFields { message: list.get(index), with_kind })),
            Ref::MessageMap(map) => {
                let entries = (0..map.len()).map(|index| map.get(index));
                serializer.collect_map(entries.map(|(key, message)| (key, MessageFields { message, with_kind })))
            }
            Ref::Scalar(scalar) => {
                let mut out = Vec::new();
                scalar.encode_json(&mut Writer::new(&mut out));
                Value::from_json(&out).map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}

/// Deserialises through a tree and our own decoder, so the same rules and errors apply.
pub fn deserialize<'de, T: Message + Default, D: serde_core::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    use serde_core::de::{Deserialize, Error};
    let value = Value::deserialize(deserializer)?;
    Decoder::new().json(value.to_string().as_bytes()).map_err(D::Error::custom)
}

/// serde for a generated type.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_impls {
    ($type:ty) => {
        impl $crate::generated_support::serde_core::Serialize for $type {
            fn serialize<S: $crate::generated_support::serde_core::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                $crate::generated_support::serialize(self, serializer)
            }
        }
        impl<'de> $crate::generated_support::serde_core::Deserialize<'de> for $type {
            fn deserialize<D: $crate::generated_support::serde_core::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                $crate::generated_support::deserialize(deserializer)
            }
        }
    };
}
