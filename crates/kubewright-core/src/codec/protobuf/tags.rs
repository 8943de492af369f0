//! Reads the tags and lengths of fields.

use crate::codec::decoder::DecodeError;
use crate::codec::protobuf::wire::varint;
use crate::codec::scheme::Number;

/// Reads a varint, optimised for one and two bytes.
#[doc(hidden)]
#[inline(always)]
pub fn take_varint(rest: &mut &[u8]) -> Result<u64, DecodeError> {
    match *rest {
        [a @ 0..0x80, after @ ..] => {
            *rest = after;
            Ok(u64::from(*a))
        }
        [a, b @ 0..0x80, after @ ..] => {
            *rest = after;
            Ok(u64::from(*a & 0x7f) | u64::from(*b) << 7)
        }
        _ => {
            let (value, after) = long_varint(rest)?;
            *rest = after;
            Ok(value)
        }
    }
}

#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let (value, length) = varint(bytes)?.ok_or_else(DecodeError::truncated)?;
    Ok((value, &bytes[length..]))
}

/// Reads a length-delimited value.
#[doc(hidden)]
#[inline(always)]
pub fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let length = take_varint(rest)?;
    let Some((bytes, after)) = rest.split_at_checked(length as usize) else { return Err(DecodeError::truncated()) };
    *rest = after;
    Ok(bytes)
}

/// Identifies a field by the address of its number table entry.
pub(crate) fn id(number: &Number) -> usize {
    std::ptr::from_ref(number).addr()
}
