//! Where the part of a string ends that stands for itself.

const ONES: u64 = 0x0101_0101_0101_0101;

/// The first quote, backslash or control character from `at` on, or the end.
///
/// Eight bytes at a time in a plain word: most texts are short, and what compilers make of sixteen in a vector differs from one
/// version to the next.
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

/// The upper bit of each byte that is special. Above such a byte there may be a bit for one that is not.
#[inline(always)]
fn specials(bytes: u64) -> u64 {
    // Takes one from each byte that is zero where `bytes` has this one, which sets its upper bit.
    let same = |byte: u8| (bytes ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    let control = bytes.wrapping_sub(ONES * 0x20);
    (control | same(b'"') | same(b'\\')) & !bytes & (ONES << 7)
}

/// As `end_of_plain_text`, where less than a chunk is left.
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
        // Each byte behind each length of plain text, with any byte before it and a special one after it.
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
