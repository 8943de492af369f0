//! Elements of DER: tag, length and content.

/// An ordered sequence of elements.
pub const SEQUENCE: u8 = 0x30;
/// An unordered set of elements.
pub const SET: u8 = 0x31;
/// An integer.
pub const INTEGER: u8 = 0x02;
/// Bits, after a byte with the number of unused bits.
pub const BIT_STRING: u8 = 0x03;
/// A registered identifier.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// Text.
pub const UTF8_STRING: u8 = 0x0c;

/// Reads one element of any kind: its tag and content.
#[inline]
pub fn any<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&length, mut rest) = rest.split_first()?;
    let mut length = usize::from(length);
    if length >= 0x80 {
        let (digits, after) = rest.split_at_checked(length & 0x7f)?;
        if digits.len() > 4 {
            return None;
        }
        length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((tag, content))
}

/// Reads the content of an element with this tag.
#[inline]
pub fn of<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    any(bytes).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// Writes an element.
#[inline]
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = content.len().to_be_bytes().into_iter().skip_while(|digit| *digit == 0).collect();
    let length = match digits[..] {
        [] => vec![0],
        [short @ ..0x80] => vec![short],
        _ => [&[0x80 | u8::try_from(digits.len()).expect("a length has a few bytes")], &digits[..]].concat(),
    };
    [&[tag], &length[..], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_of_any_length_is_read_as_it_was_written() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let written = [element(SET, &content), vec![9]].concat();
            let mut rest = &written[..];
            assert_eq!(of(&mut rest, SET), Some(&content[..]), "{length}");
            assert_eq!(rest, [9]);
        }
        assert_eq!(element(SET, &[1; 128])[..3], [SET, 0x81, 128], "in as few digits as can be");
    }
}
