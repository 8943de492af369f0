//! DER, the form of certificates: elements of a tag, a length, and what is in them. Client and server read some of them.

/// Elements one after the other.
pub const SEQUENCE: u8 = 0x30;
/// Elements in any order.
pub const SET: u8 = 0x31;
/// A whole number.
pub const INTEGER: u8 = 0x02;
/// Bits, after a byte that counts those not used.
pub const BIT_STRING: u8 = 0x03;
/// A name of something, registered.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// Text.
pub const UTF8_STRING: u8 = 0x0c;

/// Takes one element of any kind: its tag and content.
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

/// Takes the content of an element of this kind.
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
