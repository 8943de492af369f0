//! Streaming gzip decompression.
//!
//! The gzip framing (RFC 1952) is parsed here, which is less code than a crate for all formats.

use std::io;

use bytes::Bytes;
use crc32fast::Hasher;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Compressed bytes processed per step, to bound the output of a chunk to a thousand times as much.
const STEP: usize = 512;
/// Growth of the output buffer.
const ROOM: usize = 8 << 10;
/// Limit on the header size.
const HEADER_MAX: usize = 128 << 10;

/// Decompresses a body incrementally.
pub(super) struct Gunzip {
    waiting: Bytes,
    part: GzipPart,
}

/// The part of a member being read.
enum GzipPart {
    /// The bytes of an incomplete header.
    Header(Vec<u8>),
    /// The compressed data, with checksum and length of the output so far.
    Text(Box<InflateState>, Hasher, u32),
    /// The bytes of an incomplete trailer, and the expected trailer.
    Trailer(Vec<u8>, [u8; 8]),
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Gunzip { waiting: Bytes::new(), part: GzipPart::Header(Vec::new()) }
    }

    /// Adds the next compressed chunk; the previous one must be consumed.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.waiting.is_empty(), "a chunk came before the last was used up");
        self.waiting = chunk;
    }

    /// The next chunk of output, or `None` if more input is needed.
    pub(super) fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.waiting.is_empty() {
            let step = self.waiting.split_to(self.waiting.len().min(STEP));
            let text = self.open(&step)?;
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }

    /// Checks completeness after all input was fed. Empty input is complete, because a response
    /// without a body may state an encoding.
    pub(super) fn finish(&self) -> io::Result<()> {
        match &self.part {
            GzipPart::Header(header) if header.is_empty() => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the compressed text has no end")),
        }
    }

    /// Decompresses all of `input`.
    fn open(&mut self, mut input: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        while !input.is_empty() {
            match &mut self.part {
                GzipPart::Header(header) => {
                    header.extend_from_slice(input);
                    let Some(length) = header_length(header)? else { break };
                    // The header was incomplete before, so its end is in this input.
                    input = &input[input.len() - (header.len() - length)..];
                    self.part = GzipPart::Text(Box::new(InflateState::new(DataFormat::Raw)), Hasher::new(), 0);
                }
                GzipPart::Text(state, checksum, length) => {
                    let start = text.len();
                    let has_ended = read_text(state, &mut input, &mut text)?;
                    checksum.update(&text[start..]);
                    // The length is modulo 2^32, as the format defines.
                    *length = length.wrapping_add((text.len() - start) as u32);
                    if has_ended {
                        let mut expected = [0; 8];
                        expected[..4].copy_from_slice(&checksum.clone().finalize().to_le_bytes());
                        expected[4..].copy_from_slice(&length.to_le_bytes());
                        self.part = GzipPart::Trailer(Vec::new(), expected);
                    }
                }
                GzipPart::Trailer(known, expected) => {
                    let (more, rest) = input.split_at(input.len().min(expected.len() - known.len()));
                    known.extend_from_slice(more);
                    input = rest;
                    if known.len() == expected.len() {
                        if known != expected {
                            return Err(garbled("the checksum of compressed text is wrong"));
                        }
                        // Another member may follow.
                        self.part = GzipPart::Header(Vec::new());
                    }
                }
            }
        }
        Ok(text)
    }
}

/// Decompresses `input` up to the end of the data. Returns whether the end was reached.
fn read_text(state: &mut InflateState, input: &mut &[u8], text: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let start = text.len();
        text.resize(start + ROOM, 0);
        let read = inflate(state, input, &mut text[start..], MZFlush::None);
        text.truncate(start + read.bytes_written);
        *input = &input[read.bytes_consumed..];
        match read.status {
            Ok(MZStatus::StreamEnd) => return Ok(true),
            Ok(_) if input.is_empty() && read.bytes_written < ROOM => return Ok(false),
            Ok(_) => {}
            // More input is needed.
            Err(MZError::Buf) if input.is_empty() => return Ok(false),
            Err(_) => return Err(garbled("corrupt gzip data")),
        }
    }
}

/// The length of the header at the start of `bytes`, or `None` if it is incomplete.
fn header_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    const HAS_CHECKSUM: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    const RESERVED: u8 = 0xe0;
    let magic = [0x1f, 0x8b, 8];
    if bytes.iter().zip(magic).any(|(byte, expected)| *byte != expected) || bytes.len() > HEADER_MAX {
        return Err(garbled("the text is not compressed as it should be"));
    }
    let Some(&flags) = bytes.get(3) else { return Ok(None) };
    if flags & RESERVED != 0 {
        return Err(garbled("the compressed text has flags that mean nothing"));
    }
    let mut length = 10;
    if flags & HAS_EXTRA != 0 {
        let Some(&[low, high]) = bytes.get(length..length + 2) else { return Ok(None) };
        length += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            let Some(end) = bytes.get(length..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) else {
                return Ok(None);
            };
            length += end + 1;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        let Some(&[low, high]) = bytes.get(length..length + 2) else { return Ok(None) };
        if crc32fast::hash(&bytes[..length]) as u16 != u16::from_le_bytes([low, high]) {
            return Err(garbled("the checksum of a compressed text's header is wrong"));
        }
        length += 2;
    }
    Ok((bytes.len() >= length).then_some(length))
}

fn garbled(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use flate2::{Compression, GzBuilder};

    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("a vector takes all");
        encoder.finish().expect("a vector takes all")
    }

    fn open(gunzip: &mut Gunzip, chunks: &[&[u8]]) -> io::Result<(Vec<u8>, usize)> {
        let (mut text, mut longest) = (Vec::new(), 0);
        for chunk in chunks {
            gunzip.feed(Bytes::copy_from_slice(chunk));
            while let Some(piece) = gunzip.piece()? {
                longest = longest.max(piece.len());
                text.extend_from_slice(&piece);
            }
        }
        gunzip.finish()?;
        Ok((text, longest))
    }

    // TR-1
    #[test]
    fn a_body_split_at_any_byte_opens_to_the_same_text() {
        let text = b"{\"kind\":\"PodList\"}".repeat(20);
        let body = compressed(&text);
        for at in 0..body.len() {
            let opened = open(&mut Gunzip::new(), &[&body[..at], &body[at..]]).expect("a whole body");
            assert_eq!(opened.0, text);
        }
    }

    #[test]
    fn a_highly_compressed_body_is_decompressed_in_chunks() {
        let text = vec![b'a'; 64 << 20];
        let (opened, longest) = open(&mut Gunzip::new(), &[&compressed(&text)]).expect("a whole body");
        assert_eq!(opened.len(), text.len());
        assert!(longest <= 1 << 20, "{longest} bytes at once");
    }

    #[test]
    fn a_body_without_its_end_is_an_error() {
        let body = compressed(b"some text");
        assert!(open(&mut Gunzip::new(), &[&body[..body.len() - 1]]).is_err());
        assert!(open(&mut Gunzip::new(), &[b"no gzip at all, but text"]).is_err());
    }

    #[test]
    fn an_empty_compressed_body_is_empty() {
        assert_eq!(open(&mut Gunzip::new(), &[]).expect("nothing is missing").0, b"");
        assert_eq!(open(&mut Gunzip::new(), &[b""]).expect("nothing is missing").0, b"");
        assert!(open(&mut Gunzip::new(), &[&[0x1f]]).is_err());
    }

    #[test]
    fn headers_with_all_that_they_can_have_are_passed_over() {
        let builder = GzBuilder::new().extra(vec![1, 0, 2]).filename("list.json").comment("of pods");
        let mut encoder = builder.write(Vec::new(), Compression::fast());
        encoder.write_all(b"text").expect("a vector takes all");
        let mut body = encoder.finish().expect("a vector takes all");
        // A second member follows, with a header checksum.
        let mut second = compressed(b" and more");
        second[3] |= 2;
        let checksum = crc32fast::hash(&second[..10]) as u16;
        second.splice(10..10, checksum.to_le_bytes());
        body.extend_from_slice(&second);
        for at in 0..body.len() {
            let opened = open(&mut Gunzip::new(), &[&body[..at], &body[at..]]).expect("a whole body");
            assert_eq!(opened.0, b"text and more");
        }
    }

    #[test]
    fn flushed_data_is_readable_before_the_end() {
        let (mut encoder, mut gunzip, mut fed) = (GzEncoder::new(Vec::new(), Compression::default()), Gunzip::new(), 0);
        for event in 0..100 {
            let event = format!("{{\"type\":\"ADDED\",\"object\":{event}}}\n").repeat(event * 10);
            encoder.write_all(event.as_bytes()).expect("a vector takes all");
            encoder.flush().expect("a vector takes all");
            gunzip.feed(Bytes::copy_from_slice(&encoder.get_ref()[fed..]));
            fed = encoder.get_ref().len();
            let mut text = Vec::new();
            while let Some(piece) = gunzip.piece().expect("a whole event") {
                text.extend_from_slice(&piece);
            }
            assert_eq!(text, event.as_bytes());
        }
    }

    #[test]
    fn a_body_with_a_wrong_byte_is_an_error() {
        let text = b"some text, and some more".repeat(50);
        let body = compressed(&text);
        for at in (0..body.len()).filter(|at| !(4..10).contains(at)) {
            let mut wrong = body.clone();
            wrong[at] ^= 0x20;
            // The padding bits of the last byte are arbitrary.
            let opened = open(&mut Gunzip::new(), &[&wrong]);
            assert!(opened.is_err() || opened.is_ok_and(|(opened, _)| opened == text), "byte {at}");
        }
    }
}
