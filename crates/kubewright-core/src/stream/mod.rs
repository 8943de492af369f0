//! Objects out of bytes that arrive in pieces of any size: lists item by item, watches event by event.
//!
//! A decoder is pushed bytes and asked for the next object; it holds the bytes of one object at
//! the most. Each step is tried on what is there and, if the bytes end too early, tried again when
//! the value is complete, so that nothing is decoded more than twice however the pieces fall.

mod buffer;
mod list;
mod slot;
mod undecodable;
mod watch;

pub use list::ListDecoder;
pub use undecodable::{ObjectIdentity, StreamError, Undecodable, Verb};
pub use watch::{Bookmark, WatchDecoder, WatchEvent};

/// How objects are written on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON text.
    Json,
    /// Protobuf in Kubernetes' envelope.
    Protobuf,
}

impl Encoding {
    /// The media type.
    #[inline]
    pub const fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}
