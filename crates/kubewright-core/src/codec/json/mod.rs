//! JSON text: reader and writer. `messages` encodes and decodes objects with them.

mod field;
mod number;
mod plain_text;
mod reader;
mod skip;
mod writer;

pub use field::find_field;
pub(crate) use number::finite;
pub use reader::Reader;
pub(in crate::codec) use writer::JsonStyle;
pub use writer::Writer;
