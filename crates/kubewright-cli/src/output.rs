//! Standard output.

use std::io::{self, Write};

/// Prints a text. A closed pipe is an error here, where `print!` would panic.
pub fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.flush()
}
