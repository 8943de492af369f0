//! Protobuf fields on the wire: a number and one of four wire types.

use crate::codec::decoder::DecodeError;

/// The wire value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wire<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A length-delimited value: string, bytes or message.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    /// The bytes of a text or message.
    #[inline]
    pub fn bytes(self) -> Result<&'a [u8], DecodeError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(self.unexpected("bytes")),
        }
    }

    /// A varint.
    #[inline]
    pub fn varint(self) -> Result<u64, DecodeError> {
        match self {
            Wire::Varint(value) => Ok(value),
            _ => Err(self.unexpected("a varint")),
        }
    }

    /// A 32-bit number; wider encodings are truncated, as everywhere in protobuf.
    #[inline]
    pub fn int32(self) -> Result<i32, DecodeError> {
        self.varint().map(|value| value as i32)
    }

    /// Whether this is the zero value: no bytes, or the number 0.
    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Wire::Varint(0) | Wire::Fixed64(0) | Wire::Bytes([]) | Wire::Fixed32(0))
    }

    /// The fields of a message.
    pub fn fields(self) -> Result<impl Iterator<Item = Result<(u32, Wire<'a>), DecodeError>>, DecodeError> {
        let mut fields = WireFields::new(self.bytes()?);
        Ok(std::iter::from_fn(move || fields.next().transpose()))
    }

    #[cold]
    fn unexpected(self, wanted: &str) -> DecodeError {
        let found = match self {
            Wire::Varint(_) => "a varint",
            Wire::Fixed64(_) => "eight bytes",
            Wire::Bytes(_) => "bytes",
            Wire::Fixed32(_) => "four bytes",
        };
        DecodeError::new(format!("expected {wanted} on the wire, found {found}"))
    }
}

/// The fields of a message in encoded order.
pub(crate) struct WireFields<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> WireFields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        WireFields { rest: bytes }
    }

    /// Number and value of the next field.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, DecodeError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| DecodeError::new("field number out of range"))?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(DecodeError::truncated)?;
                self.rest = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            // Groups were deprecated before Kubernetes existed.
            kind => return Err(DecodeError::new(format!("unknown wire type {kind} of field {number}"))),
        };
        Ok(Some((number, wire)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        let (value, length) = varint(self.rest)?.ok_or_else(DecodeError::truncated)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(DecodeError::truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }
}

/// A varint at the start of `bytes` and its length, or `None` if it is incomplete.
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, DecodeError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(DecodeError::new("number longer than ten bytes")) }
}
