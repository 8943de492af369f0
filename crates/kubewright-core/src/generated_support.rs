//! Imports of generated code. Not part of the API: they may change with the generator.

#[cfg(feature = "schemars")]
pub use schemars;
#[cfg(feature = "serde")]
pub use serde_core;

pub use crate::codec::message::{Message, Rare, Ref, Slot, TypeEntry, refs};
pub use crate::codec::message_impls::{debug, equal};
pub use crate::codec::messages::{decode_number, decode_other, decode_value, name_number};
pub use crate::codec::protobuf::{take_bytes, take_varint};
pub use crate::codec::scheme::{FieldInfo, Flags, KindInfo, ListType, Number, Rules, Type, TypeInfo, Union};
#[cfg(feature = "schemars")]
pub use crate::interop::json_schemas::{name, schema};
#[cfg(feature = "serde")]
pub use crate::interop::serde_impls::{deserialize, serialize};
pub use crate::object::impls::non_empty;
pub use crate::object::{ColumnInfo, ResourceInfo, SubresourceInfo};
pub use crate::{ByteString, IntOrString, List, Map, MicroTime, Quantity, RawJson, Shared, Str, Time};
pub use crate::{kind_impls, message_impls, object_impls, own_loop, rare_fields};
