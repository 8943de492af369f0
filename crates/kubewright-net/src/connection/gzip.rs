//! Streaming gzip decompression.

use std::io::{self, Write};
use std::mem;

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;

/// Decompresses a body incrementally.
pub(super) struct Gunzip {
    waiting: Bytes,
    has_input: bool,
    decoder: MultiGzDecoder<Vec<u8>>,
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Gunzip { waiting: Bytes::new(), has_input: false, decoder: MultiGzDecoder::new(Vec::new()) }
    }

    /// Adds the next compressed chunk; the previous one must be consumed.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.waiting.is_empty(), "a chunk came before the last was used up");
        self.has_input |= !chunk.is_empty();
        self.waiting = chunk;
    }

    /// The next chunk of output, or `None` if more input is needed.
    pub(super) fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.waiting.is_empty() {
            // Each write decompresses at most 32 KiB, which bounds the output of a small chunk.
            let read = self.decoder.write(&self.waiting)?;
            self.waiting.advance(read);
            if self.waiting.is_empty() {
                // The decoder withholds output until it is flushed.
                self.decoder.flush()?;
            }
            let text = mem::take(self.decoder.get_mut());
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }

    /// Checks completeness after all input was fed. Empty input is complete, because a response
    /// without a body may state an encoding.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.has_input { self.decoder.try_finish() } else { Ok(()) }
    }
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
        let checksum = {
            let mut crc = flate2::Crc::new();
            crc.update(&second[..10]);
            crc.sum() as u16
        };
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
