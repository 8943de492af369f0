//! JSON whose text is not all Unicode: Go reads what is broken as U+FFFD and goes on, and so do we, in a second try.
//!
//! Nearly all bodies are fine, so nobody looks for it before they have been refused.

use std::borrow::Cow;

/// What stands for a byte that is part of no character.
const REPLACEMENT: &str = "\u{fffd}";

/// The same JSON with all that is broken in its texts replaced; `None` where nothing is.
pub(crate) fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let text = match std::str::from_utf8(json) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(valid(json)),
    };
    let paired = without_lone_surrogates(&text);
    match (paired, text) {
        (Some(paired), _) => Some(paired.into_bytes()),
        (None, Cow::Owned(text)) => Some(text.into_bytes()),
        (None, Cow::Borrowed(_)) => None,
    }
}

/// The text with a replacement for each byte that is none. Outside of strings that is as wrong as what was there.
fn valid(json: &[u8]) -> String {
    let mut text = String::with_capacity(json.len() + 16);
    for chunk in json.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
    }
    text
}

/// The text with a replacement for each escaped half of a character that stands alone.
fn without_lone_surrogates(json: &str) -> Option<String> {
    let (mut mended, mut kept, mut at) = (String::new(), 0, 0);
    // A backslash means something in strings only, and elsewhere nothing that could be mended.
    while let Some(found) = json[at..].find('\\') {
        let start = at + found;
        let after = match (unit(json, start), unit(json, start + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => start + 12,
            (Some(0xd800..=0xdfff), _) => {
                mended.push_str(&json[kept..start]);
                mended.push_str(REPLACEMENT);
                kept = start + 6;
                kept
            }
            // What is escaped may be a backslash.
            _ => start + 1 + json[start + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at = after;
    }
    if kept == 0 {
        return None;
    }
    mended.push_str(&json[kept..]);
    Some(mended)
}

/// The number of an escape such as `\ud800` that begins at a place.
fn unit(json: &str, start: usize) -> Option<u16> {
    let digits = json.get(start..start + 6)?.strip_prefix("\\u")?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_replaced_as_go_does() {
        for (broken, want) in [
            (&b"\"a\xffb\""[..], "\"a\u{fffd}b\""),
            // Each byte of what is no character stands for itself.
            (b"\"\xe2\x82\"", "\"\u{fffd}\u{fffd}\""),
            (b"\"\xed\xa0\x80\"", "\"\u{fffd}\u{fffd}\u{fffd}\""),
            (br#""\ud800""#, "\"\u{fffd}\""),
            (br#""\uD800\u0041""#, "\"\u{fffd}\\u0041\""),
            (br#""\udc00\ud800""#, "\"\u{fffd}\u{fffd}\""),
            (b"\"\\ud83dx\xff\"", "\"\u{fffd}x\u{fffd}\""),
        ] {
            assert_eq!(mended(broken).as_deref(), Some(want.as_bytes()), "{want}");
        }
        for fine in [r#""a""#, r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9é\"""#, "\\", "\\u", r"\uzzzz"] {
            assert_eq!(mended(fine.as_bytes()), None, "{fine}");
        }
    }
}
