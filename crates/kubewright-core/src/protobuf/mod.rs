//! The protobuf codec: messages from bytes and back, and the envelope around objects.

mod decode;
mod encode;
mod envelope;
mod items;
mod wire;

pub use decode::decode_message;
#[doc(hidden)]
pub use decode::{decode_number, decode_other, decode_value, name_number, take_bytes, take_varint};
pub use encode::{Encoder, encode_message};
pub(crate) use envelope::type_meta;
pub use envelope::{Envelope, MAGIC};
pub(crate) use items::entry;
pub use wire::Wire;
pub(crate) use wire::{Fields, varint};
