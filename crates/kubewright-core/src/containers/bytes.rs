//! Byte strings that are base64 in JSON, such as the data of secrets.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Immutable bytes, shared by clones.
///
/// `Debug` prints only the length, because the bytes may be secret; for the same reason there is no
/// `Display`.
///
/// ```
/// use kubewright_core::ByteString;
/// let password = ByteString::from_base64(b"aHVudGVyMg==")?;
/// assert_eq!(&*password, b"hunter2");
/// assert_eq!(format!("{password:?}"), "ByteString(7 bytes)");
/// assert_eq!(size_of::<Option<ByteString>>(), 16);
/// # Ok::<(), kubewright_core::Base64Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteString(Arc<[u8]>);

impl ByteString {
    /// No bytes.
    #[inline]
    pub fn new() -> Self {
        ByteString::default()
    }

    /// Decodes base64 with padding. Line breaks are skipped.
    ///
    /// # Errors
    /// If the text contains anything else than the standard alphabet, or its padding is wrong.
    #[inline]
    pub fn from_base64(text: &[u8]) -> Result<Self, Base64Error> {
        decode(text).map(|bytes| ByteString(bytes.into()))
    }

    /// Appends the bytes in base64 with padding.
    #[inline]
    pub fn append_base64(&self, output: &mut Vec<u8>) {
        encode(self, output);
    }

    /// The bytes in base64 with padding.
    #[inline]
    pub fn to_base64(&self) -> String {
        let mut output = Vec::new();
        encode(self, &mut output);
        String::from_utf8(output).expect("the alphabet is ASCII")
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Marks bytes in [`VALUE_OF`] that are not in the alphabet.
const NONE: u8 = 0xff;

const VALUE_OF: [u8; 256] = {
    let mut value_of = [NONE; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        value_of[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    value_of
};

#[inline]
fn encode(bytes: &[u8], output: &mut Vec<u8>) {
    let letters = |a: u8, b: u8, c: u8| {
        [a >> 2, a << 4 | b >> 4, b << 2 | c >> 6, c].map(|value| ALPHABET[usize::from(value & 63)])
    };
    let (triples, rest) = bytes.as_chunks::<3>();
    let start = output.len();
    // Resized first and filled afterwards, so that the loop needs no capacity checks.
    output.resize(start + bytes.len().div_ceil(3) * 4, b'=');
    let (quads, _) = output[start..].as_chunks_mut::<4>();
    for (quad, [a, b, c]) in quads.iter_mut().zip(triples) {
        *quad = letters(*a, *b, *c);
    }
    match (rest, quads.last_mut()) {
        ([a], Some(quad)) => quad[..2].copy_from_slice(&letters(*a, 0, 0)[..2]),
        ([a, b], Some(quad)) => quad[..3].copy_from_slice(&letters(*a, *b, 0)[..3]),
        _ => {}
    }
}

#[inline]
fn decode(text: &[u8]) -> Result<Vec<u8>, Base64Error> {
    let (quads, _) = text.as_chunks::<4>();
    let mut output = vec![0; quads.len() * 3];
    let (triples, _) = output.as_chunks_mut::<3>();
    let mut whole = 0;
    for (quad, triple) in quads.iter().zip(triples) {
        let [a, b, c, d] = quad.map(|byte| VALUE_OF[usize::from(byte)]);
        // Values have six bits; a higher bit marks a byte outside of the alphabet.
        if (a | b | c | d) > 63 {
            break;
        }
        *triple = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        whole += 1;
    }
    output.truncate(whole * 3);
    decode_rest(text, whole * 4, &mut output)?;
    Ok(output)
}

/// Decodes byte by byte from the first group that is not plain: padding, line breaks and errors.
#[inline]
fn decode_rest(text: &[u8], start: usize, output: &mut Vec<u8>) -> Result<(), Base64Error> {
    let mut letters = text.iter().enumerate().skip(start).filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    let (mut bits, mut count) = (0u32, 0);
    while let Some((position, byte)) = letters.next() {
        let value = VALUE_OF[usize::from(*byte)];
        if value == NONE {
            let is_padded = match (byte, count) {
                (b'=', 2) => letters.next().is_some_and(|(_, byte)| *byte == b'='),
                (b'=', 3) => true,
                _ => false,
            };
            if !is_padded {
                return Err(Base64Error { position });
            }
            if let Some((position, _)) = letters.next() {
                return Err(Base64Error { position });
            }
            // Go does not require the remaining bits to be zero.
            let [_, first, second, _] = (bits << (6 * (4 - count))).to_be_bytes();
            output.extend_from_slice(&[first, second][..count - 1]);
            return Ok(());
        }
        bits = bits << 6 | u32::from(value);
        count += 1;
        if count == 4 {
            output.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    if count > 0 {
        // Go reports where the incomplete last group begins.
        return Err(Base64Error { position: text.len() - count });
    }
    Ok(())
}

impl Deref for ByteString {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ByteString {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for ByteString {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ByteString {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteString({} bytes)", self.len())
    }
}

impl From<&[u8]> for ByteString {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        ByteString(bytes.into())
    }
}

impl<const N: usize> From<&[u8; N]> for ByteString {
    fn from(bytes: &[u8; N]) -> Self {
        ByteString(bytes.as_slice().into())
    }
}

impl From<Vec<u8>> for ByteString {
    #[inline]
    fn from(bytes: Vec<u8>) -> Self {
        ByteString(bytes.into())
    }
}

/// The bytes of the text itself; it is not decoded as base64.
impl From<&str> for ByteString {
    #[inline]
    fn from(text: &str) -> Self {
        ByteString(text.as_bytes().into())
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for ByteString {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_base64())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for ByteString {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByteStringVisitor;
        impl serde_core::de::Visitor<'_> for ByteStringVisitor {
            type Value = ByteString;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string in base64")
            }
            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<ByteString, E> {
                ByteString::from_base64(text.as_bytes()).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(ByteStringVisitor)
    }
}

/// A text is not base64. Contains only the position of the error, because the rest may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base64Error {
    position: usize,
}

impl fmt::Display for Base64Error {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal base64 data at input byte {}", self.position)
    }
}

impl std::error::Error for Base64Error {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_hex(text: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    }

    /// The table contains the results of Go's `base64.StdEncoding`, with the text and the bytes in
    /// hexadecimal.
    #[test]
    fn texts_are_decoded_as_go_does() {
        for row in include_str!("../../tests/data/base64.tsv").lines() {
            let columns: Vec<_> = row.split('\t').collect();
            match columns[..] {
                [text, "error"] => assert!(ByteString::from_base64(&from_hex(text)).is_err(), "{row}"),
                [text, bytes, encoded] => {
                    let decoded = ByteString::from_base64(&from_hex(text)).unwrap();
                    assert_eq!(*decoded, from_hex(bytes), "{row}");
                    assert_eq!(decoded.to_base64(), encoded);
                }
                _ => panic!("{row:?}"),
            }
        }
    }

    #[test]
    fn the_debug_form_does_not_show_the_content() {
        assert_eq!(format!("{:?}", ByteString::from("hunter2")), "ByteString(7 bytes)");
        assert_eq!(
            ByteString::from_base64(b"hunter2?").unwrap_err().to_string(),
            "illegal base64 data at input byte 7"
        );
    }

    #[test]
    fn json_is_base64() {
        let bytes: ByteString = serde_json::from_str(r#""aGVs\nbG8=""#).unwrap();
        assert_eq!(*bytes, *b"hello");
        assert_eq!(serde_json::to_string(&bytes).unwrap(), r#""aGVsbG8=""#);
        assert!(serde_json::from_str::<ByteString>("[1]").is_err());
    }

    #[test]
    fn clones_share_their_bytes() {
        let bytes = ByteString::from(b"abc");
        assert!(std::ptr::eq(&*bytes, &*bytes.clone()));
    }

    proptest! {
        #[test]
        fn any_bytes_read_back_as_themselves(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = ByteString::from(bytes);
            prop_assert_eq!(ByteString::from_base64(bytes.to_base64().as_bytes()), Ok(bytes));
        }

        #[test]
        fn no_text_is_too_strange(text in "[A-Da-d+/=\r\n?]{0,20}") {
            let _ = ByteString::from_base64(text.as_bytes());
        }
    }
}
