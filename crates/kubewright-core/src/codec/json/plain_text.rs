//! Finds the end of the part of a JSON string that needs no escapes.

const ONES: u64 = 0x0101_0101_0101_0101;

/// The first quote, backslash or control character from `at` on, or the end.
///
/// Processes eight bytes at a time in an integer: most strings are short, and the quality of
/// 16-byte vector code varies between compiler versions.
#[inline(always)]
pub(super) fn end_of_plain_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let specials = specials(u64::from_le_bytes(*chunk));
        if specials != 0 {
            return at + specials.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    end_near_the_end(bytes, at)
}

/// The top bit of each special byte. Bits above the first special byte may be false positives.
#[inline(always)]
fn specials(bytes: u64) -> u64 {
    // A byte of `bytes` that equals `byte` becomes zero; subtracting one sets its top bit.
    let same = |byte: u8| (bytes ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    let control = bytes.wrapping_sub(ONES * 0x20);
    (control | same(b'"') | same(b'\\')) & !bytes & (ONES << 7)
}

/// Like `end_of_plain_text`, for less than eight remaining bytes.
fn end_near_the_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

#[inline(always)]
fn is_special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_ends_where_a_byte_is_special() {
        // Each byte after each length of plain text, with any byte before it and a special one
        // after it.
        for (length, byte) in (0..20).flat_map(|length| (0..=255u8).map(move |byte| (length, byte))) {
            for neighbour in [b'a', b'!', b'#', b'[', b']', 0x20, 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
                let mut bytes = vec![neighbour; length];
                bytes.push(byte);
                bytes.extend([neighbour, b'"', 0, b'x', b'x', b'x', b'x', b'x', b'x', b'x']);
                let expected = if is_special(byte) { length } else { length + 2 };
                assert_eq!(end_of_plain_text(&bytes, 0), expected, "{byte:#x} after {length} times {neighbour:#x}");
                assert_eq!(end_of_plain_text(&bytes[..=length], 0), expected.min(length + 1));
            }
        }
    }
}
