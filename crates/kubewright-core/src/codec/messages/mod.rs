//! Encodes and decodes messages, driven by their type tables.

mod envelope;
mod json_decode;
mod json_encode;
mod own_loop;
mod protobuf_decode;
mod protobuf_encode;
mod protobuf_items;
mod protobuf_stored;

pub(crate) use envelope::type_meta;
pub use envelope::{Envelope, MAGIC};
pub use protobuf_decode::decode_message;
#[doc(hidden)]
pub use protobuf_decode::{decode_number, decode_other, decode_value, name_number};
pub use protobuf_encode::encode_message;
pub(crate) use protobuf_items::entry;
