//! The JSON codec: messages from text and back.

mod decode;
mod encode;
mod reader;
mod skip;

pub use encode::Writer;
pub use reader::Reader;
