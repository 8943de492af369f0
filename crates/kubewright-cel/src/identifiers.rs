//! Identifiers, reserved words, and the escaping of field names that are neither.

use kubewright_core::Str;

/// Words that are reserved without a meaning.
const RESERVED: [&str; 17] = [
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
/// Literals and operators that look like identifiers.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Whether a word is reserved and may not be used as an identifier.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

fn is_reserved_or_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || RESERVED.contains(&word)
}

/// Whether a name can be that of a variable.
pub fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_letter)
        && bytes.all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !is_reserved_or_keyword(name)
}

/// The identifier by which expressions select a field of an object, `None` if they cannot.
///
/// This is the escaping of CRD validation rules: `a-b` becomes `a__dash__b`, and `namespace`
/// becomes `__namespace__`.
///
/// ```
/// assert_eq!(kubewright_cel::escape_field_name("x/y").as_deref(), Some("x__slash__y"));
/// assert_eq!(kubewright_cel::escape_field_name("a b"), None);
/// ```
pub fn escape_field_name(name: &str) -> Option<Str> {
    if is_reserved_or_keyword(name) {
        return Some(format!("__{name}__").into());
    }
    let first = name.bytes().next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if first.is_ascii_digit() || !name.bytes().all(is_plain) {
        return None;
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let name = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(name.replace('-', "__dash__").replace('/', "__slash__").into())
}

/// The escaped name of a field that is selected by a reserved word.
///
/// Selections such as `object.metadata.namespace` need no escaping: after a dot, the grammar allows
/// reserved words. Kubernetes accepts both forms.
pub(crate) fn escaped_word(name: &str) -> Option<Str> {
    is_reserved(name).then(|| format!("__{name}__").into())
}

/// The inverse of [`escape_field_name`].
pub(crate) fn unescape_field_name(name: &str) -> Str {
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| is_reserved_or_keyword(word)) {
        return word.into();
    }
    if !name.contains("__") {
        return name.into();
    }
    let name = name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    name.replace("__underscores__", "__").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_numbers_are_not_identifiers() {
        assert!(["a", "_", "isReady2", "inside"].into_iter().all(is_identifier));
        assert!(!["", "2a", "in", "while", "a-b", "a.b", "é"].into_iter().any(is_identifier));
    }

    #[test]
    fn escaped_field_names_are_identifiers_and_can_be_read_back() {
        for name in ["a", "a-b", "a.b/c", "in", "namespace", "a__b", "__x"] {
            let escaped = escape_field_name(name).expect("can be escaped");
            assert!(is_identifier(&escaped), "{escaped}");
            assert_eq!(unescape_field_name(&escaped), name);
        }
    }
}
