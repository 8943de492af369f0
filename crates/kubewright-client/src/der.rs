//! DER, the form of certificates: elements of a tag, a length, and what is in them.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;

/// Takes one element of any kind: its tag and content.
pub(crate) fn any<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
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
pub(crate) fn of<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    any(bytes).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}
