//! Writes JSON values to a buffer.

use super::plain_text::end_of_plain_text;

/// Appends JSON to a buffer.
///
/// By default optional fields are written if they are set, and required fields always, as create
/// and update requests need. [`as_server`](Self::as_server) writes what kube-apiserver responds: Go
/// also writes empty structs (`"status":{}`), unset times (`"eventTime":null`) and some empty
/// lists, and omits zero values that were set. [`as_apply`](Self::as_apply) also omits required
/// fields that were not set.
pub struct Writer<'w> {
    pub(in crate::codec) out: &'w mut Vec<u8>,
    pub(in crate::codec) style: JsonStyle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::codec) enum JsonStyle {
    Request,
    Server,
    Apply,
}

impl<'w> Writer<'w> {
    /// Appends to `out`.
    pub fn new(out: &'w mut Vec<u8>) -> Self {
        Writer { out, style: JsonStyle::Request }
    }

    /// Writes as kube-apiserver does.
    #[must_use]
    pub fn as_server(mut self) -> Self {
        self.style = JsonStyle::Server;
        self
    }

    /// Writes a configuration for server-side apply, which owns every field that it contains.
    ///
    /// A struct that Go or our type holds by value is omitted if nothing in it is set. A required
    /// number, boolean or string that is zero is written only if a sibling field is set: our types
    /// hold it by value, so `value: 0` may be intended. Optional fields are written if they are
    /// set, even to zero, and so are empty structs that Go holds by pointer, such as `emptyDir:
    /// {}`.
    #[must_use]
    pub fn as_apply(mut self) -> Self {
        self.style = JsonStyle::Apply;
        self
    }

    /// Writes JSON text verbatim.
    pub fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        use std::io::Write;
        write!(self.out, "{value}").expect("writing to memory does not fail");
    }

    /// Writes a string that needs no escapes.
    pub fn plain_string(&mut self, text: &str) {
        self.out.push(b'"');
        self.raw(text);
        self.out.push(b'"');
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.out.push(b'"');
        let bytes = text.as_bytes();
        let mut from = 0;
        loop {
            let end = end_of_plain_text(bytes, from);
            self.out.extend_from_slice(&bytes[from..end]);
            let Some(byte) = bytes.get(end) else { break };
            match byte {
                b'"' => self.out.extend_from_slice(br#"\""#),
                b'\\' => self.out.extend_from_slice(br"\\"),
                b'\n' => self.out.extend_from_slice(br"\n"),
                b'\r' => self.out.extend_from_slice(br"\r"),
                b'\t' => self.out.extend_from_slice(br"\t"),
                byte => self.display(format_args!("\\u{byte:04x}")),
            }
            from = end + 1;
        }
        self.out.push(b'"');
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        let mut digits = [0; 20];
        let (mut at, mut rest) = (digits.len(), value.unsigned_abs());
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            digits[at] = b'-';
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    /// Writes a floating-point number that parses as one again.
    pub fn float(&mut self, value: f64) {
        if value.is_finite() {
            self.display(format_args!("{value:?}"));
        } else {
            // JSON cannot represent it; Go returns an error.
            self.raw("null");
        }
    }

    /// Writes an array.
    pub fn items<T>(&mut self, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        self.out.push(b'[');
        for (index, value) in items.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            item(self, value);
        }
        self.out.push(b']');
    }

    /// Writes an object from keys and values.
    pub fn entries<'k, T>(
        &mut self,
        entries: impl IntoIterator<Item = (&'k str, T)>,
        mut value: impl FnMut(&mut Self, T),
    ) {
        let mut separator = b'{';
        for (key, item) in entries {
            self.key(&mut separator, key);
            value(self, item);
        }
        self.close(separator);
    }

    /// Writes the separator and the key of an entry; `separator` is `{` before the first.
    pub fn key(&mut self, separator: &mut u8, key: &str) {
        self.out.push(*separator);
        *separator = b',';
        self.string(key);
        self.out.push(b':');
    }

    /// Ends an object written with [`key`](Self::key).
    pub fn close(&mut self, separator: u8) {
        self.out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
    }
}
