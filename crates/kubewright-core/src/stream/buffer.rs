//! Buffers received bytes, and finds the end of JSON values in them.

use std::ops::Range;

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::Reader;

/// Limit on a key or on space between values. These are parsed again with each chunk, so longer
/// ones would be quadratic.
const TOKEN_MAX: usize = 64 << 10;

/// Bytes that are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    /// Set while a value is known to be incomplete: the scan position.
    scan: Option<Scan>,
    /// Why the current value is undecodable; it is skipped once it is complete.
    failure: Option<DecodeError>,
    /// The range of the undecodable object, if reading can continue after it. Valid until the next
    /// push.
    skipped: Option<Range<usize>>,
    /// Whether the last value ended its line, as those of kube-apiserver do.
    in_lines: bool,
    /// How far the bytes were searched for a line end.
    line: usize,
}

/// How much input a parse step consumes at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Extent {
    /// A few bytes, parsed again whenever more arrive.
    Token,
    /// A whole value, parsed again when it is complete.
    Value,
}

impl Buffer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.bytes.len() || self.start >= self.bytes.len() / 2) {
            self.bytes.drain(..self.start);
            self.line = self.line.saturating_sub(self.start);
            self.start = 0;
        }
        self.skipped = None;
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Whether a value may be complete. If each value so far was on its own line, a value without a
    /// line end is incomplete, and attempting to decode it would cost as much as decoding it. Input
    /// that ends like an object is attempted anyway, in case its line never ends.
    pub(super) fn may_hold_value(&mut self) -> bool {
        if !self.in_lines || self.scan.is_some() {
            return true;
        }
        let bytes = &self.bytes[self.start..];
        let space = bytes.iter().take_while(|byte| is_space(byte)).count();
        self.start += space;
        let bytes = &bytes[space..];
        let from = self.line.saturating_sub(self.start).min(bytes.len());
        // Servers send each event immediately, so its line usually ends with the chunk.
        let found = matches!(bytes.last(), Some(b'}' | b'\n')) || bytes[from..].contains(&b'\n');
        self.line = if found { self.start } else { self.bytes.len() };
        found
    }

    /// Runs one JSON parse step; consumes nothing if the input is incomplete.
    pub(super) fn read<R>(
        &mut self,
        decoder: &mut Decoder,
        extent: Extent,
        read: impl FnOnce(&mut Reader<'_, '_>) -> Result<R, DecodeError>,
    ) -> Result<Option<R>, DecodeError> {
        let bytes = &self.bytes[self.start..];
        if let Some(scan) = &mut self.scan {
            if !scan.is_complete(bytes) {
                return Ok(None);
            }
            let end = scan.at;
            self.scan = None;
            if let Some(error) = self.failure.take() {
                self.skip_object(0..end);
                return Err(error);
            }
        }
        self.skipped = None;
        let findings = decoder.finding_count();
        // The decoder may come from a stream that failed inside an object.
        decoder.forget(findings);
        let mut reader = Reader::new(bytes, decoder);
        match read(&mut reader) {
            Ok(result) => {
                self.start += reader.position();
                self.in_lines = self.bytes.get(self.start) == Some(&b'\n');
                Ok(Some(result))
            }
            Err(error) if error.is_truncated() => {
                decoder.forget(findings);
                if extent == Extent::Value {
                    let mut scan = Scan::default();
                    scan.is_complete(bytes);
                    self.scan = Some(scan);
                } else if bytes.len() > TOKEN_MAX {
                    return Err(DecodeError::new(format!("nothing but space, or part of a key, in {TOKEN_MAX} bytes")));
                }
                Ok(None)
            }
            Err(error) if extent == Extent::Value && is_object(bytes) => {
                let mut scan = Scan::default();
                if scan.is_complete(bytes) {
                    self.skip_object(0..scan.at);
                    return Err(error);
                }
                (self.scan, self.failure) = (Some(scan), Some(error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The bytes of the undecodable object, if reading can continue after it.
    pub(super) fn skipped(&self) -> Option<&[u8]> {
        self.bytes.get(self.skipped.clone()?)
    }

    /// Records that reading cannot continue.
    pub(super) fn forget_skipped(&mut self) {
        self.skipped = None;
    }

    /// Consumes the bytes up to the end of an undecodable object. The range is relative to the
    /// unread bytes.
    pub(super) fn skip_object(&mut self, object: Range<usize>) {
        self.skipped = Some(self.start + object.start..self.start + object.end);
        self.start += object.end;
    }
}

/// JSON white space, which excludes the form feed.
pub(super) fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Whether an object starts here: the end of other values is ambiguous.
fn is_object(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !is_space(byte)) == Some(&b'{')
}

/// Finds the end of a JSON value without decoding it.
#[derive(Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Anything other than white space, commas and colons was seen.
    begun: bool,
}

impl Scan {
    /// Whether `bytes`, which only grow, contain a whole array or object and the byte after it.
    fn is_complete(&mut self, bytes: &[u8]) -> bool {
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => {
                    if self.depth == 0 && self.begun && *byte != b':' {
                        return true;
                    }
                    continue;
                }
                _ => {}
            }
            self.begun = true;
            if self.depth == 0 && matches!(byte, b'}' | b']') {
                return true;
            }
        }
        false
    }
}
