//! Protobuf fields: reader and encoder. `messages` encodes and decodes objects with them.

mod encoder;
mod tags;
mod wire;

pub use encoder::Encoder;
pub(crate) use tags::id;
#[doc(hidden)]
pub use tags::{take_bytes, take_varint};
pub use wire::Wire;
pub(crate) use wire::{WireFields, varint};
