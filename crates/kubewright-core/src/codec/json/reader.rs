//! Reads JSON text token by token, without building a tree.

use std::borrow::Cow;

use super::plain_text::end_of_plain_text;
use crate::Str;
use crate::codec::decoder::{DecodeError, Decoder};

/// A position in JSON text, and the decoder that reads it.
pub struct Reader<'a, 'd> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Options and pool.
    pub(crate) decoder: &'d mut Decoder,
}

impl<'a, 'd> Reader<'a, 'd> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8], decoder: &'d mut Decoder) -> Self {
        Reader { bytes, at: 0, decoder }
    }

    /// The decoder with its options and pool.
    pub fn decoder(&mut self) -> &mut Decoder {
        self.decoder
    }

    /// The unread text, without leading white space.
    #[inline]
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.peek();
        &self.bytes[self.at..]
    }

    /// Skips `length` bytes of [`rest`](Self::rest).
    #[inline]
    pub(crate) fn advance(&mut self, length: usize) {
        self.at += length;
    }

    /// The number of bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space, or 0 at the end.
    #[inline(always)]
    pub fn peek(&mut self) -> u8 {
        match self.bytes.get(self.at) {
            Some(byte) if *byte > b' ' => *byte,
            _ => self.peek_beyond_space(),
        }
    }

    fn peek_beyond_space(&mut self) -> u8 {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return byte,
                None => return 0,
            }
        }
    }

    /// Consumes `byte` if it is next.
    #[inline(always)]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        // A branch, not `self.at += usize::from(found)`: rustc 1.95 miscompiles that sum when
        // optimising.
        if self.peek() != byte {
            return false;
        }
        self.at += 1;
        true
    }

    /// Consumes the opening of a value, or returns an error that names the actual kind.
    #[inline]
    pub(crate) fn open(&mut self, byte: u8, kind: &str) -> Result<(), DecodeError> {
        if self.take(byte) { Ok(()) } else { Err(self.expected(kind)) }
    }

    /// After an item: whether another one follows (`,`) or the value is closed.
    #[inline(always)]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, DecodeError> {
        let byte = self.peek();
        if byte == b',' || byte == close {
            self.at += 1;
            return Ok(byte == b',');
        }
        Err(self.unexpected(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" }))
    }

    /// Reads a key and its colon. `escaped` holds the key in the rare case that it contains
    /// escapes.
    #[inline(always)]
    pub(crate) fn key<'k>(&mut self, escaped: &'k mut Vec<u8>) -> Result<&'k [u8], DecodeError>
    where
        'a: 'k,
    {
        if self.peek() != b'"' {
            return Err(self.unexpected("a key in quotes"));
        }
        let key = match self.plain_string() {
            Some(key) => key,
            None => {
                *escaped = self.escaped_string()?;
                escaped
            }
        };
        if !self.take(b':') {
            return Err(self.unexpected("`:`"));
        }
        Ok(key)
    }

    /// Reads a string.
    pub fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        if self.peek() != b'"' {
            return Err(self.expected("string"));
        }
        match self.plain_string() {
            Some(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(DecodeError::utf8),
            None => {
                let bytes = self.escaped_string()?;
                String::from_utf8(bytes).map(Cow::Owned).map_err(|e| DecodeError::utf8(e.utf8_error()))
            }
        }
    }

    /// Reads a string as `Str`, interned if there is a pool.
    pub fn text(&mut self) -> Result<Str, DecodeError> {
        let mut text = Str::new();
        self.set_text(&mut text, 0)?;
        Ok(text)
    }

    /// Like [`text`](Self::text), in place; `flags` are those of the field.
    #[inline(always)]
    pub(crate) fn set_text(&mut self, place: &mut Str, flags: u16) -> Result<(), DecodeError> {
        if self.peek() != b'"' {
            return Err(self.expected("string"));
        }
        match self.plain_string() {
            Some(bytes) => self.decoder.set_field(place, bytes, flags),
            None => {
                let bytes = self.escaped_string()?;
                self.decoder.set_field(place, &bytes, flags)
            }
        }
    }

    /// Reads an integer.
    #[inline]
    pub fn integer(&mut self) -> Result<i64, DecodeError> {
        let first = self.peek();
        let negative = first == b'-';
        let mut at = self.at + usize::from(negative);
        let start = at;
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(at) {
            let digit = u64::from(digit - b'0');
            value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or_else(|| self.too_large())?;
            at += 1;
        }
        if at == start {
            let is_cut = negative && at == self.bytes.len();
            return Err(if is_cut { DecodeError::truncated() } else { self.expected("integer") });
        }
        if self.bytes[start] == b'0' && at > start + 1 {
            return Err(DecodeError::new("a number must not begin with 0"));
        }
        match self.bytes.get(at) {
            Some(b'.' | b'e' | b'E') => {
                let number = self.number()?;
                return Err(DecodeError::new(format!("expected integer, found number {number}")));
            }
            None => return Err(DecodeError::truncated()),
            _ => {}
        }
        let signed = if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
        let signed = signed.ok_or_else(|| self.too_large())?;
        self.at = at;
        Ok(signed)
    }

    /// Reads a number of any form, as text.
    pub fn number(&mut self) -> Result<&'a str, DecodeError> {
        if !matches!(self.peek(), b'-' | b'0'..=b'9') {
            return Err(self.expected("number"));
        }
        let start = self.at;
        self.skip_number()?;
        Ok(std::str::from_utf8(&self.bytes[start..self.at]).expect("digits, signs and dots are ASCII"))
    }

    /// Reads `true` or `false`.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        match self.peek() {
            b't' => self.literal("true").map(|()| true),
            b'f' => self.literal("false").map(|()| false),
            _ => Err(self.expected("boolean")),
        }
    }

    /// Consumes `null` if it is next.
    #[inline]
    pub fn null(&mut self) -> Result<bool, DecodeError> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.literal("null").map(|()| true)
    }

    /// Whether to skip managed fields, for types with their own decoding.
    pub fn skips_managed_fields(&self) -> bool {
        self.decoder.skips_managed_fields()
    }

    /// Skips a value of any kind and returns its text.
    pub fn raw(&mut self) -> Result<&'a str, DecodeError> {
        self.peek();
        let start = self.at;
        self.skip()?;
        std::str::from_utf8(&self.bytes[start..self.at]).map_err(DecodeError::utf8)
    }

    /// Checks that nothing but white space follows.
    pub fn end(&mut self) -> Result<(), DecodeError> {
        match self.peek() {
            0 if self.at == self.bytes.len() => Ok(()),
            _ => Err(DecodeError::new(format!("unexpected text after the value, at byte {}", self.at))),
        }
    }

    /// The error for a value of the wrong kind.
    #[cold]
    pub fn expected(&mut self, kind: &str) -> DecodeError {
        let found = match self.peek() {
            b'"' => "string",
            b'{' => "object",
            b'[' => "array",
            b't' | b'f' => "boolean",
            b'n' => "null",
            b'-' | b'0'..=b'9' => "number",
            0 if self.at == self.bytes.len() => return DecodeError::truncated(),
            _ => return self.unexpected("a value"),
        };
        DecodeError::new(format!("expected {kind}, found {found}"))
    }

    #[cold]
    pub(super) fn unexpected(&mut self, wanted: &str) -> DecodeError {
        match self.bytes.get(self.at) {
            None => DecodeError::truncated(),
            Some(byte) => {
                let found = char::from(*byte).escape_default();
                DecodeError::new(format!("expected {wanted}, found `{found}` at byte {}", self.at))
            }
        }
    }

    #[cold]
    fn too_large(&self) -> DecodeError {
        DecodeError::new("number is too large for an integer")
    }

    fn literal(&mut self, word: &str) -> Result<(), DecodeError> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else if word.as_bytes().starts_with(rest) {
            Err(DecodeError::truncated())
        } else {
            Err(self.unexpected(word))
        }
    }

    /// Reads a string without escapes. Its bytes are not validated as UTF-8.
    #[inline(always)]
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        let end = end_of_plain_text(self.bytes, start);
        if self.bytes.get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.bytes.get(start..end)
    }

    /// Reads a string with escapes. Its bytes are not validated as UTF-8.
    #[cold]
    fn escaped_string(&mut self) -> Result<Vec<u8>, DecodeError> {
        let mut at = self.at + 1;
        let mut text = Vec::new();
        loop {
            let end = end_of_plain_text(self.bytes, at);
            text.extend_from_slice(&self.bytes[at..end]);
            match self.bytes.get(end) {
                Some(b'"') => {
                    self.at = end + 1;
                    return Ok(text);
                }
                Some(b'\\') => at = self.escape(end + 1, &mut text)?,
                Some(_) => return Err(DecodeError::new(format!("control character in a string at byte {end}"))),
                None => return Err(DecodeError::truncated()),
            }
        }
    }

    /// Appends the character of the escape at `at` and returns the position after it.
    pub(super) fn escape(&self, at: usize, text: &mut Vec<u8>) -> Result<usize, DecodeError> {
        let plain = match self.bytes.get(at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(at + 1, text),
            Some(_) => return Err(DecodeError::new(format!("unknown escape in a string at byte {at}"))),
            None => return Err(DecodeError::truncated()),
        };
        text.push(plain);
        Ok(at + 1)
    }

    fn unicode_escape(&self, at: usize, text: &mut Vec<u8>) -> Result<usize, DecodeError> {
        let lone = || DecodeError::new(format!("lone surrogate in a string at byte {at}"));
        let first = self.hex4(at)?;
        let (code, next) = match first {
            0xd800..0xdc00 => {
                match self.bytes.get(at + 4..at + 6) {
                    Some(br"\u") => {}
                    None => return Err(DecodeError::truncated()),
                    Some(_) => return Err(lone()),
                }
                let second = self.hex4(at + 6)?;
                let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or_else(lone)?;
                (0x10000 + ((first - 0xd800) << 10) + low, at + 10)
            }
            code => (code, at + 4),
        };
        let character = char::from_u32(code).ok_or_else(lone)?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(next)
    }

    fn hex4(&self, at: usize) -> Result<u32, DecodeError> {
        let digits = self.bytes.get(at..at + 4).ok_or_else(DecodeError::truncated)?;
        digits.iter().try_fold(0, |code, digit| {
            let value = char::from(*digit).to_digit(16);
            value.map(|value| code * 16 + value).ok_or_else(|| DecodeError::new("unknown escape in a string"))
        })
    }
}
