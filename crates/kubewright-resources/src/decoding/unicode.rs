//! Repairs JSON with invalid Unicode as Go does, by replacing it with U+FFFD.
//!
//! Nearly all bodies are valid, so this runs only after decoding has failed.

use std::borrow::Cow;

/// Replaces each invalid byte.
const REPLACEMENT: &str = "\u{fffd}";

/// The JSON with invalid Unicode in strings replaced. `None` if it is valid.
pub fn repaired(json: &[u8]) -> Option<Vec<u8>> {
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

/// Replaces each byte that is not valid UTF-8. Outside of strings the result remains invalid JSON.
fn valid(json: &[u8]) -> String {
    let mut text = String::with_capacity(json.len() + 16);
    for chunk in json.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
    }
    text
}

/// Replaces each escaped lone surrogate.
fn without_lone_surrogates(json: &str) -> Option<String> {
    let (mut repaired, mut kept, mut at) = (String::new(), 0, 0);
    // Outside of strings, a backslash is a syntax error that stays one.
    while let Some(found) = json[at..].find('\\') {
        let start = at + found;
        let after = match (unit(json, start), unit(json, start + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => start + 12,
            (Some(0xd800..=0xdfff), _) => {
                repaired.push_str(&json[kept..start]);
                repaired.push_str(REPLACEMENT);
                kept = start + 6;
                kept
            }
            // Skip the escaped character, which may be a backslash.
            _ => start + 1 + json[start + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at = after;
    }
    if kept == 0 {
        return None;
    }
    repaired.push_str(&json[kept..]);
    Some(repaired)
}

/// The code unit of an escape such as `\ud800` at a position.
fn unit(json: &str, start: usize) -> Option<u16> {
    let digits = json.get(start..start + 6)?.strip_prefix("\\u")?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_unicode_is_replaced_as_in_go() {
        for (broken, want) in [
            (&b"\"a\xffb\""[..], "\"a\u{fffd}b\""),
            // Each invalid byte becomes one replacement character.
            (b"\"\xe2\x82\"", "\"\u{fffd}\u{fffd}\""),
            (b"\"\xed\xa0\x80\"", "\"\u{fffd}\u{fffd}\u{fffd}\""),
            (br#""\ud800""#, "\"\u{fffd}\""),
            (br#""\uD800\u0041""#, "\"\u{fffd}\\u0041\""),
            (br#""\udc00\ud800""#, "\"\u{fffd}\u{fffd}\""),
            (b"\"\\ud83dx\xff\"", "\"\u{fffd}x\u{fffd}\""),
        ] {
            assert_eq!(repaired(broken).as_deref(), Some(want.as_bytes()), "{want}");
        }
        for fine in [r#""a""#, r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9é\"""#, "\\", "\\u", r"\uzzzz"] {
            assert_eq!(repaired(fine.as_bytes()), None, "{fine}");
        }
    }
}
