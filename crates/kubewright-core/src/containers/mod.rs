//! The containers that API types are made of: compact, shared between clones, copied on write.

mod bytes;
mod list;
mod map;
mod rare;
mod shared;
mod str;

pub use bytes::{Base64Error, ByteString};
pub use list::List;
pub use map::{Map, MapBuilder};
pub use rare::{Rare, RareFields};
pub use shared::Shared;
pub use str::Str;
