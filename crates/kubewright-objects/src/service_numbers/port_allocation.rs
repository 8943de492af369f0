//! The bitmap of node ports that servers over one database share.
//!
//! It is a RangeAllocation, which has no API. The first port of the range is the lowest bit of a
//! number whose bytes are stored, the highest first.

use kubewright_core::protobuf::{Envelope, Wire};
use kubewright_core::{ByteString, DecodeError, Value};

use super::{PORT_BITMAP, PORTS};
use crate::object::{ObjectDraft, tree};

/// The kind of the stored object.
pub(crate) const PORT_ALLOCATION_KIND: &str = "RangeAllocation";

/// Reserved node ports.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PortBitmap {
    /// The lowest byte first.
    bytes: Vec<u8>,
}

impl PortBitmap {
    /// The ports of a stored bitmap.
    pub(super) fn of(stored: &Value) -> Self {
        let data = ByteString::from_base64(tree::text(stored, &["data"]).as_bytes()).unwrap_or_default();
        PortBitmap { bytes: data.iter().rev().copied().collect() }
    }

    /// The object that stores the ports.
    pub(super) fn to_object(&self) -> ObjectDraft {
        let is_zero = |byte: &&u8| **byte == 0;
        let data: Vec<u8> = self.bytes.iter().rev().skip_while(is_zero).copied().collect();
        ObjectDraft::new(bitmap_object(&range(), &data))
    }

    /// Whether a port is reserved.
    pub(super) fn contains(&self, port: u32) -> bool {
        place(port).is_some_and(|(at, bit)| self.bytes.get(at).is_some_and(|byte| byte & bit != 0))
    }

    /// Reserves a port. Returns whether it was free.
    pub(super) fn insert(&mut self, port: u32) -> bool {
        let Some((at, bit)) = place(port) else { return false };
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        let was_free = self.bytes[at] & bit == 0;
        self.bytes[at] |= bit;
        was_free
    }

    /// Frees a port.
    pub(super) fn remove(&mut self, port: u32) {
        if let Some((at, bit)) = place(port)
            && let Some(byte) = self.bytes.get_mut(at)
        {
            *byte &= !bit;
        }
    }
}

/// Whether a stored bitmap is about the node ports of this server.
pub(super) fn has_own_range(stored: &Value) -> bool {
    tree::text(stored, &["range"]) == range()
}

/// The range as kube-apiserver writes it.
fn range() -> String {
    format!("{}-{}", PORTS.start, PORTS.end - 1)
}

/// The byte and the bit of a port.
fn place(port: u32) -> Option<(usize, u8)> {
    let offset = PORTS.contains(&port).then(|| port - PORTS.start)?;
    Some((offset as usize / 8, 1 << (offset % 8)))
}

fn bitmap_object(range: &str, data: &[u8]) -> Value {
    tree::map([
        ("kind", PORT_ALLOCATION_KIND.into()),
        ("apiVersion", "v1".into()),
        ("metadata", tree::map([("name", PORT_BITMAP.into())])),
        ("range", range.into()),
        ("data", ByteString::from(data).to_base64().into()),
    ])
}

/// Appends the value in etcd.
pub(crate) fn encode_bitmap(stored: &Value, out: &mut Vec<u8>) {
    let data = ByteString::from_base64(tree::text(stored, &["data"]).as_bytes()).unwrap_or_default();
    Envelope::encode_with("v1", PORT_ALLOCATION_KIND, out, |message| {
        message.bytes(1, b"");
        message.bytes(2, tree::text(stored, &["range"]).as_bytes());
        message.bytes(3, &data);
    });
}

/// The object of a value in etcd.
pub(crate) fn decode_bitmap(raw: &[u8]) -> Result<Value, DecodeError> {
    let (mut range, mut data) = ("", &[][..]);
    for field in Wire::Bytes(raw).fields()? {
        match field? {
            (2, text) => {
                range = std::str::from_utf8(text.bytes()?).map_err(|_| DecodeError::new("range is no text"))?
            }
            (3, bytes) => data = bytes.bytes()?,
            _ => {}
        }
    }
    Ok(bitmap_object(range, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_has_the_bytes_of_a_large_number() {
        let mut bitmap = PortBitmap::default();
        assert!(bitmap.insert(30_000) && bitmap.insert(30_009) && !bitmap.insert(30_009) && bitmap.insert(32_767));
        assert!(!bitmap.insert(29_999) && !bitmap.insert(32_768) && !bitmap.contains(32_768));
        bitmap.remove(32_767);
        let stored = bitmap.to_object().stamp(1).tree().into_owned();
        // 0x0201: bits 0 and 9.
        assert_eq!(tree::text(&stored, &["data"]), ByteString::from(&[2, 1]).to_base64());
        let read = PortBitmap::of(&stored);
        assert!(read.contains(30_000) && read.contains(30_009) && !read.contains(32_767));
        let mut bytes = Vec::new();
        encode_bitmap(&stored, &mut bytes);
        let envelope = Envelope::decode(&bytes).expect("it is an envelope");
        let decoded = decode_bitmap(envelope.raw).expect("it is a bitmap");
        assert!(has_own_range(&decoded) && PortBitmap::of(&decoded) == read);
        assert!(decode_bitmap(&[0xff]).is_err());
    }
}
