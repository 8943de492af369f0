//! Shared implementations for generated types: `Debug`, equality and the object traits.

use std::fmt;

use crate::codec::json::Writer;
use crate::codec::message::{Message, Ref};
use crate::codec::scheme::Flags;

/// Prints the fields that are set. Secrets are redacted.
pub fn debug(message: &dyn Message, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let scheme = message.scheme();
    let mut out = f.debug_struct(scheme.name.rsplit('.').next().unwrap_or_default());
    for (index, field) in scheme.fields.iter().enumerate() {
        match message.get(index) {
            Ref::Absent => {}
            _ if field.flags.has(Flags::SECRET) => {
                out.field(field.name, &format_args!("<redacted>"));
            }
            value => {
                out.field(field.name, &value);
            }
        }
    }
    out.finish()
}

/// Whether two messages of one type are equal, field by field. One function for all types: derived
/// implementations were a tenth of the compile time of the types.
pub fn equal(a: &dyn Message, b: &dyn Message) -> bool {
    (0..a.scheme().fields.len()).all(|field| match (a.get(field), b.get(field)) {
        (Ref::Absent, Ref::Absent) => true,
        (Ref::Bool(a), Ref::Bool(b)) => a == b,
        (Ref::Int(a), Ref::Int(b)) => a == b,
        (Ref::Str(a), Ref::Str(b)) => a == b,
        (Ref::Strs(a), Ref::Strs(b)) => a == b,
        (Ref::StrMap(a), Ref::StrMap(b)) => a == b,
        (Ref::Message(a), Ref::Message(b)) => equal(a, b),
        (Ref::Messages(a), Ref::Messages(b)) => {
            a.len() == b.len() && (0..a.len()).all(|index| equal(a.get(index), b.get(index)))
        }
        (Ref::MessageMap(a), Ref::MessageMap(b)) => {
            let same = |index| {
                let ((key, a), (other, b)) = (a.get(index), b.get(index));
                key == other && equal(a, b)
            };
            a.len() == b.len() && (0..a.len()).all(same)
        }
        (Ref::Scalar(a), Ref::Scalar(b)) => a.equals(b),
        _ => false,
    })
}

impl fmt::Debug for Ref<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ref::Absent => f.write_str("absent"),
            Ref::Bool(value) => value.fmt(f),
            Ref::Int(value) => value.fmt(f),
            Ref::Str(text) => text.fmt(f),
            Ref::Strs(list) => list.fmt(f),
            Ref::StrMap(map) => map.fmt(f),
            Ref::Message(message) => debug(*message, f),
            Ref::Messages(list) => {
                f.debug_list().entries((0..list.len()).map(|index| Ref::Message(list.get(index)))).finish()
            }
            Ref::MessageMap(map) => {
                let entries = (0..map.len()).map(|index| map.get(index));
                f.debug_map().entries(entries.map(|(key, message)| (key, Ref::Message(message)))).finish()
            }
            Ref::Scalar(scalar) => {
                let mut out = Vec::new();
                scalar.encode_json(&mut Writer::new(&mut out));
                f.write_str(&String::from_utf8_lossy(&out))
            }
        }
    }
}

/// `Debug`, equality, serde and schemars for a generated type.
#[doc(hidden)]
#[macro_export]
macro_rules! message_impls {
    ($type:ty) => {
        impl ::std::fmt::Debug for $type {
            #[inline]
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::generated_support::debug(self, f)
            }
        }
        impl PartialEq for $type {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                $crate::generated_support::equal(self, other)
            }
        }
        $crate::serde_impls!($type);
        $crate::schema_impls!($type);
    };
}

/// Makes a generated type dereference to its rare fields; unset ones read as defaults.
#[doc(hidden)]
#[macro_export]
macro_rules! rare_fields {
    ($type:ty, $rare:ident { $($field:ident: $unset:expr),* $(,)? }) => {
        impl ::std::ops::Deref for $type {
            type Target = $rare;
            #[inline]
            fn deref(&self) -> &$rare {
                &self.rare
            }
        }
        impl ::std::ops::DerefMut for $type {
            #[inline]
            fn deref_mut(&mut self) -> &mut $rare {
                &mut self.rare
            }
        }
        impl $crate::message::RareFields for $rare {
            #[inline]
            fn unset() -> &'static Self {
                // A constant, because rustc compiles drop glue for a static.
                const UNSET: &$rare = &$rare { $($field: $unset),* };
                UNSET
            }
        }
    };
}
