//! Skips JSON values, checking only that they are well formed.

use super::Reader;
use super::plain_text::end_of_plain_text;
use crate::codec::decoder::DecodeError;

/// Maximum nesting of a value that is skipped or kept as text.
const MAX_NESTING: usize = 512;

impl Reader<'_, '_> {
    /// Skips a value, checking its syntax but not its UTF-8.
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        let mut nesting = Nesting::default();
        loop {
            let opened = match self.peek() {
                b'"' => {
                    self.skip_string()?;
                    false
                }
                byte @ (b'{' | b'[') => {
                    self.at += 1;
                    let object = byte == b'{';
                    if self.take(if object { b'}' } else { b']' }) {
                        false
                    } else {
                        nesting.push(object)?;
                        true
                    }
                }
                b't' | b'f' => self.boolean().map(|_| false)?,
                b'n' => self.null().map(|_| false)?,
                b'-' | b'0'..=b'9' => self.skip_number().map(|()| false)?,
                _ => return Err(self.expected("a value")),
            };
            if !opened {
                loop {
                    let Some(object) = nesting.top() else { return Ok(()) };
                    if self.more(if object { b'}' } else { b']' })? {
                        break;
                    }
                    nesting.pop();
                }
            }
            if nesting.top() == Some(true) {
                if self.peek() != b'"' {
                    return Err(self.unexpected("a key in quotes"));
                }
                self.skip_string()?;
                if !self.take(b':') {
                    return Err(self.unexpected("`:`"));
                }
            }
        }
    }

    fn skip_string(&mut self) -> Result<(), DecodeError> {
        let mut at = self.at + 1;
        loop {
            at = end_of_plain_text(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    let mut scrap = Vec::new();
                    at = match self.bytes.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at + 2,
                        _ => self.escape(at + 1, &mut scrap)?,
                    };
                }
                Some(_) => return Err(DecodeError::new(format!("control character in a string at byte {at}"))),
                None => return Err(DecodeError::truncated()),
            }
        }
    }

    pub(super) fn skip_number(&mut self) -> Result<(), DecodeError> {
        let digits = |mut at: usize| {
            while let Some(b'0'..=b'9') = self.bytes.get(at) {
                at += 1;
            }
            at
        };
        let start = self.at + usize::from(self.bytes.get(self.at) == Some(&b'-'));
        let mut at = digits(start);
        if self.bytes.get(start) == Some(&b'0') && at > start + 1 {
            return Err(DecodeError::new("a number must not begin with 0"));
        }
        let mut complete = at > start;
        if self.bytes.get(at) == Some(&b'.') {
            let from = at + 1;
            at = digits(from);
            complete &= at > from;
        }
        if let Some(b'e' | b'E') = self.bytes.get(at) {
            let from = at + 1 + usize::from(matches!(self.bytes.get(at + 1), Some(b'+' | b'-')));
            at = digits(from);
            complete &= at > from;
        }
        if !complete && at >= self.bytes.len() {
            return Err(DecodeError::truncated());
        }
        if !complete {
            return Err(DecodeError::new(format!("malformed number at byte {}", self.at)));
        }
        self.at = at;
        Ok(())
    }
}

/// Bit set of the open values that are objects.
#[derive(Default)]
struct Nesting {
    objects: [u64; MAX_NESTING / 64],
    depth: usize,
}

impl Nesting {
    fn push(&mut self, object: bool) -> Result<(), DecodeError> {
        if self.depth == MAX_NESTING {
            return Err(DecodeError::new(format!("nested deeper than {MAX_NESTING} values")));
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        self.objects[word] = if object { self.objects[word] | bit } else { self.objects[word] & !bit };
        self.depth += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    fn top(&self) -> Option<bool> {
        let depth = self.depth.checked_sub(1)?;
        Some(self.objects[depth / 64] & (1 << (depth % 64)) != 0)
    }
}
