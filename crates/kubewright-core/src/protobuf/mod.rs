//! The protobuf codec: messages from bytes and back, and the envelope around objects.

mod decode;
mod encode;
mod envelope;
mod wire;

pub(crate) use decode::entry;
pub use decode::{decode_fields, decode_message};
pub use encode::{Encoder, encode_message};
pub(crate) use envelope::type_meta;
pub use envelope::{Envelope, MAGIC};
pub use wire::Wire;
pub(crate) use wire::{Fields, varint};
