//! Words that the language keeps for itself.

/// Words that mean nothing yet.
const FREE: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
/// Words that mean something.
const USED: [&str; 4] = ["true", "false", "null", "in"];

/// Whether a word may not stand anywhere.
pub(super) fn is_reserved(word: &str) -> bool {
    FREE.contains(&word)
}

/// Whether a word cannot be the name of a field.
pub(super) fn is_word(word: &str) -> bool {
    USED.contains(&word) || FREE.contains(&word)
}

/// Whether a name can be that of a variable.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_letter) && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit()) && !is_word(name)
}

#[cfg(test)]
mod tests {
    use super::is_identifier;

    #[test]
    fn words_and_numbers_are_no_names() {
        assert!(["a", "_", "isReady2", "inside"].into_iter().all(is_identifier));
        assert!(!["", "2a", "in", "while", "a-b", "a.b", "é"].into_iter().any(is_identifier));
    }
}
