//! Header blocks: names and values, compressed in one stream per direction.
//!
//! The compression of SPDY starts with a dictionary, which flate2 supports only with a C library.
//! A stored block with the dictionary at the start of the stream has the same effect: it fills the
//! window, and its output is dropped.

use bytes::{Buf, Bytes};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::frame::FrameError;

/// The dictionary of SPDY/3: the frequent names and values of HTTP headers.
const DICTIONARY: &[u8; 1423] = include_bytes!("dictionary.bin");
/// Maximum size of a header block.
const BLOCK_MAX: usize = 64 << 10;

/// Reads the header blocks of the peer.
pub(super) struct HeaderDecoder {
    inflate: Decompress,
    /// Whether the zlib header has been read.
    has_started: bool,
}

/// The headers of a stream, with lower-case names.
pub(super) type Headers = Vec<(String, String)>;

impl HeaderDecoder {
    pub(super) fn new() -> Self {
        HeaderDecoder { inflate: Decompress::new(false), has_started: false }
    }

    pub(super) fn decode(&mut self, mut block: Bytes) -> Result<Headers, FrameError> {
        let malformed = || FrameError::new("headers of SPDY are malformed");
        if !self.has_started {
            let [_, flags] = *block.first_chunk::<2>().ok_or_else(malformed)?;
            block.advance(2);
            if flags & 0x20 != 0 {
                // The checksum of the dictionary.
                if block.len() < 4 {
                    return Err(malformed());
                }
                block.advance(4);
                self.preset().ok_or_else(malformed)?;
            }
            self.has_started = true;
        }
        let mut plain = Vec::with_capacity(BLOCK_MAX);
        let before = self.inflate.total_in();
        self.inflate.decompress_vec(&block, &mut plain, FlushDecompress::Sync).map_err(|_| malformed())?;
        if self.inflate.total_in() - before < block.len() as u64 {
            return Err(FrameError::new("headers of SPDY are too long"));
        }
        parse(&plain).ok_or_else(malformed)
    }

    /// Fills the window with the dictionary.
    fn preset(&mut self) -> Option<()> {
        let length = DICTIONARY.len() as u16;
        let mut stored = vec![0];
        stored.extend(length.to_le_bytes());
        stored.extend((!length).to_le_bytes());
        stored.extend(DICTIONARY);
        let mut dropped = Vec::with_capacity(DICTIONARY.len());
        self.inflate.decompress_vec(&stored, &mut dropped, FlushDecompress::Sync).ok()?;
        (dropped == DICTIONARY).then_some(())
    }
}

fn parse(mut plain: &[u8]) -> Option<Headers> {
    let text = |plain: &mut &[u8]| {
        let length = plain.try_get_u32().ok()? as usize;
        let (text, rest) = plain.split_at_checked(length)?;
        *plain = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let count = plain.try_get_u32().ok()?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = text(&mut plain)?.to_ascii_lowercase();
        headers.push((name, text(&mut plain)?));
    }
    Some(headers)
}

/// Writes header blocks, without the dictionary: the zlib header tells the reader.
pub(super) struct HeaderEncoder(Compress);

impl HeaderEncoder {
    pub(super) fn new() -> Self {
        HeaderEncoder(Compress::new(Compression::fast(), true))
    }

    pub(super) fn encode(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text.as_bytes());
        }
        // The output exceeds the input by a few bytes per 64 KiB at most.
        let mut block = Vec::with_capacity(plain.len() + 128);
        self.0.compress_vec(&plain, &mut block, FlushCompress::Sync).expect("only a wrong state fails");
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Bytes {
        (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect::<Vec<_>>()
            .into()
    }

    #[test]
    fn headers_are_read_with_and_without_the_dictionary() {
        let (mut encoder, mut decoder) = (HeaderEncoder::new(), HeaderDecoder::new());
        for headers in [[("streamtype", "error"), ("port", "80")], [("streamtype", "data"), ("port", "80")]] {
            let decoded = decoder.decode(encoder.encode(&headers).into()).unwrap();
            assert_eq!(decoded, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        // Two blocks of zlib with the dictionary: "streamtype: stdin", then "streamtype: error".
        let mut decoder = HeaderDecoder::new();
        for (block, value) in [(FIRST, "stdin"), (SECOND, "error")] {
            let want = [("streamtype".to_owned(), value.to_owned()), ("accept-encoding".to_owned(), "gzip".to_owned())];
            assert_eq!(decoder.decode(bytes(block)).unwrap(), want);
        }
    }

    #[test]
    fn malformed_and_long_headers_are_errors() {
        assert!(HeaderDecoder::new().decode(Bytes::from_static(b"x")).is_err());
        assert!(HeaderDecoder::new().decode(Bytes::from_static(&[0x78, 0xbb, 1])).is_err());
        assert!(HeaderDecoder::new().decode(Bytes::from_static(&[0x78, 0x9c, 0xff, 0xff])).is_err());
        let bomb = HeaderEncoder::new().encode(&[("a", &"b".repeat(1 << 20))]);
        assert!(HeaderDecoder::new().decode(bomb.into()).is_err());
        assert_eq!(parse(&[0, 0, 0, 9, 0, 0]), None);
        assert_eq!(parse(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }

    const FIRST: &str = "78f9e3c6a7c202e50e703a2b294a4dcc851625acc525c03c81bd606501d907000000ffff";
    const SECOND: &str = "c2ae2b15143d787401000000ffff";
}
