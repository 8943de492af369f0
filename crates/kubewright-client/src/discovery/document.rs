//! A large discovery document with its ETag.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};

use crate::rest::Response;

/// A document as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiscoveryDocument {
    pub(super) media_type: String,
    pub(super) body: Bytes,
    /// Its ETag; empty if there is none.
    pub(super) tag: String,
}

impl DiscoveryDocument {
    /// Checksum, ETag and media type in one line each, followed by the document.
    ///
    /// The checksum covers everything after it and detects a damaged or truncated file.
    #[inline]
    pub(super) fn to_file(&self) -> Vec<u8> {
        let rest = [self.tag.as_bytes(), self.media_type.as_bytes(), &self.body].join(&b'\n');
        [checksum(&rest).as_bytes(), &rest].join(&b'\n')
    }

    #[inline]
    pub(super) fn from_file(file: &[u8]) -> Option<Self> {
        let end = file.iter().position(|byte| *byte == b'\n')?;
        let (sum, rest) = (&file[..end], &file[end + 1..]);
        if sum != checksum(rest).as_bytes() {
            return None;
        }
        let mut parts = rest.splitn(3, |byte| *byte == b'\n');
        let mut line = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (tag, media_type) = (line()?, line()?);
        let body = Bytes::copy_from_slice(parts.next()?);
        // Not a valid header value, so it was never an ETag.
        http::HeaderValue::from_str(&tag).ok().filter(|tag| !tag.is_empty())?;
        Some(DiscoveryDocument { media_type, body, tag })
    }
}

/// Protects against accidents, not against attackers, who can write the checksum too.
#[inline]
fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(bytes))
}

impl From<Response> for DiscoveryDocument {
    #[inline]
    fn from(answer: Response) -> Self {
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (media_type, tag) = (header(CONTENT_TYPE).to_owned(), header(ETAG).to_owned());
        DiscoveryDocument { media_type, body: answer.bytes(), tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corrupted_cache_file_is_ignored() {
        // DI-4
        let document = DiscoveryDocument {
            media_type: "application/json".into(),
            body: Bytes::from_static(b"{\n\"items\": []\n}"),
            tag: "\"1\"".into(),
        };
        let file = document.to_file();
        assert_eq!(DiscoveryDocument::from_file(&file), Some(document));
        for length in 0..file.len() {
            assert_eq!(DiscoveryDocument::from_file(&file[..length]), None, "cut after {length} bytes");
        }
        for place in 0..file.len() {
            let mut damaged = file.clone();
            damaged[place] ^= 1;
            assert_eq!(DiscoveryDocument::from_file(&damaged), None, "another byte {place}");
        }
    }
}
