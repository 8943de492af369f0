//! The codec engine: the tables of types, and codecs that reach the fields of any type through
//! them.
//!
//! Start at [`message`] for how codecs reach fields, and at [`scheme`] for the tables. `json` and
//! `protobuf` are the formats, `decoder` has the options of decoding and its caches of repeated
//! values, and `scalar` the fields with formats of their own.

pub(crate) mod decoder;
mod decoding;
pub mod json;
pub mod message;
pub(crate) mod message_impls;
pub(crate) mod messages;
pub mod protobuf;
mod scalar;
pub mod scheme;
pub(crate) mod sharing;
