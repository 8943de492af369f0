//! Compressed answers, opened as they arrive.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// So much compressed text is opened at once, which bounds what a chunk can become: a thousand times as much.
const STEP: usize = 512;

/// Opens a compressed body piece by piece.
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    waiting: Bytes,
}

impl Gunzip {
    pub(super) fn new() -> Self {
        Gunzip { decoder: MultiGzDecoder::new(Vec::new()), waiting: Bytes::new() }
    }

    /// Takes the next compressed chunk; the one before has to be used up.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.waiting.is_empty(), "a chunk came before the last was used up");
        self.waiting = chunk;
    }

    /// The next piece of the text, or `None` if more has to be fed first.
    pub(super) fn piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.waiting.is_empty() {
            let step = self.waiting.split_to(self.waiting.len().min(STEP));
            self.decoder.write_all(&step)?;
            self.decoder.flush()?;
            if !self.decoder.get_ref().is_empty() {
                return Ok(Some(std::mem::take(self.decoder.get_mut()).into()));
            }
        }
        Ok(None)
    }

    /// The rest, once all has been fed. An error if the end is missing.
    pub(super) fn finish(&mut self) -> io::Result<Option<Bytes>> {
        self.decoder.try_finish()?;
        let rest = std::mem::take(self.decoder.get_mut());
        Ok((!rest.is_empty()).then(|| rest.into()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

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
        text.extend_from_slice(&gunzip.finish()?.unwrap_or_default());
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
    fn a_body_that_opens_to_much_comes_in_pieces() {
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
}
