//! The JSON codec: messages from text and back.

mod decode;
mod encode;
mod plain_text;
mod reader;
mod skip;

pub use encode::Writer;
pub use reader::Reader;
