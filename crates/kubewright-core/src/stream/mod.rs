//! Incremental decoding: lists item by item, watches event by event.
//!
//! A decoder receives bytes and is polled for the next object; it buffers one object at most. Each
//! step is attempted on the available bytes and, if they are incomplete, again when the value is
//! complete. So nothing is decoded more than twice, however the input is chunked.

mod buffer;
mod encoding;
mod list;
mod object_list;
mod slot;
mod undecodable;
mod watch;

pub use encoding::Encoding;
pub use list::ListDecoder;
pub use object_list::ObjectList;
pub use undecodable::{ObjectIdentity, ReportedAs, StreamError, Undecodable};
pub use watch::{Bookmark, WatchDecoder, WatchEvent};
