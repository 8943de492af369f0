//! What generated code uses.

pub use crate::message::{Message, Rare, Ref, Slot, refs};
pub use crate::resource::{ColumnInfo, ResourceInfo, SubresourceInfo};
pub use crate::scheme::{FieldInfo, Flags, KindInfo, ListType, Number, Rules, Type, TypeEntry, TypeInfo, Union};
pub use crate::{ByteString, IntOrString, List, Map, MicroTime, Quantity, RawJson, Shared, Str, Time};
pub use crate::{kind_impls, message_impls, object_impls, own_loop, rare_fields};
