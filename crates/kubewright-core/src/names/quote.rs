//! Quotes text as Go's `%q` does.

use std::fmt;

/// Displays text in double quotes, escaped as Go's `%q` does.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\x07' => f.write_str("\\a")?,
                '\x08' => f.write_str("\\b")?,
                '\x0b' => f.write_str("\\v")?,
                '\x0c' => f.write_str("\\f")?,
                c if is_printable(c) => f.write_char(c)?,
                c if (c as u32) < 0x80 => write!(f, "\\x{:02x}", c as u32)?,
                c if (c as u32) < 0x1_0000 => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "\\U{:08x}", c as u32)?,
            }
        }
        f.write_char('"')
    }
}

/// Whether a character is printable; the only printable white space is the plain space.
#[inline]
pub(crate) fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_go_does() {
        for (text, want) in [
            ("web", r#""web""#),
            ("say \"hi\"\\", r#""say \"hi\"\\""#),
            ("a\x07b\n\0", r#""a\ab\n\x00""#),
            ("é\u{a0}\u{85}", "\"é\\u00a0\\u0085\""),
        ] {
            assert_eq!(Quoted(text).to_string(), want);
        }
    }
}
