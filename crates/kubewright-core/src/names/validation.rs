//! Syntax of names and labels, with the server's error messages.
//!
//! Each function returns all errors; an empty list means valid. Messages are written to follow the
//! value: `Invalid value: "x_": <message>`.

const LABEL_VALUE_MAX: usize = 63;
const QUALIFIED_NAME_MAX: usize = 63;
const DNS1123_LABEL_MAX: usize = 63;
const DNS1035_LABEL_MAX: usize = 63;
const DNS1123_SUBDOMAIN_MAX: usize = 253;

const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
    or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS1123_LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
    '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1035_LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
    with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used \
    for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
    validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Validates a qualified name: the key of a label or annotation, or a finalizer.
///
/// It has up to 63 letters, digits, `-`, `_` and `.`, optionally after a DNS subdomain and a slash.
///
/// ```
/// use kubewright_core::validation::qualified_name;
/// assert!(qualified_name("app.kubernetes.io/name").is_empty());
/// assert_eq!(qualified_name("/name"), ["prefix part must be non-empty"]);
/// ```
#[doc(alias = "IsQualifiedName")]
#[inline]
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a qualified name {QUALIFIED_NAME_RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".into());
            name
        }
        Some((prefix, name)) => {
            errors.extend(dns1123_subdomain(prefix).iter().map(|error| format!("prefix part {error}")));
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > QUALIFIED_NAME_MAX {
        errors.push(format!("name part {}", too_long(QUALIFIED_NAME_MAX)));
    }
    if !is_label_text(name) {
        errors.push(format!("name part {QUALIFIED_NAME_RULE}"));
    }
    errors
}

/// Validates a label value: empty, or up to 63 letters, digits, `-`, `_` and `.`.
#[doc(alias = "IsValidLabelValue")]
#[inline]
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_VALUE_MAX {
        errors.push(too_long(LABEL_VALUE_MAX));
    }
    if !text.is_empty() && !is_label_text(text) {
        errors.push(LABEL_VALUE_RULE.into());
    }
    errors
}

/// Validates a DNS label, the name of a namespace or a container: up to 63 of `a-z`, `0-9` and `-`.
#[doc(alias = "IsDNS1123Label")]
#[inline]
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS1123_LABEL_MAX {
        errors.push(too_long(DNS1123_LABEL_MAX));
    }
    if !is_dns1123_label_text(text) {
        errors.push(DNS1123_LABEL_RULE.into());
    }
    errors
}

/// Validates a DNS-1035 label, the name of a service: a DNS label that begins with a letter.
#[doc(alias = "IsDNS1035Label")]
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS1035_LABEL_MAX {
        errors.push(format!("must be no more than {DNS1035_LABEL_MAX} characters"));
    }
    let begins_with_letter = text.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    if !begins_with_letter || !is_dns1123_label_text(text) {
        errors.push(DNS1035_LABEL_RULE.into());
    }
    errors
}

/// Validates a DNS subdomain, the name of most objects: DNS labels joined by dots, up to 253 bytes.
#[doc(alias = "IsDNS1123Subdomain")]
#[inline]
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(too_long(DNS1123_SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_dns1123_label_text) {
        errors.push(DNS1123_SUBDOMAIN_RULE.into());
    }
    errors
}

#[inline]
fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

#[inline]
fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[inline]
fn is_dns1123_label_text(text: &str) -> bool {
    let is_alphanumeric = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9');
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
        && bytes.iter().all(|b| is_alphanumeric(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        let longest = "a".repeat(63);
        let longest_prefix = format!("{}/x", ["a".repeat(49).as_str(); 5].join(".") + ".abc");
        for good in [
            "simple",
            "now-with-dashes",
            "1-starts-with-num",
            "1234",
            "simple/simple",
            "1.2.3.4/5678",
            "Upper_case.OK",
            &longest,
            &longest_prefix,
        ] {
            assert_eq!(qualified_name(good), [""; 0], "{good}");
        }
        let (too_long, too_long_prefix) = (format!("{longest}a"), format!("a.a{longest_prefix}"));
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a-",
            "a b",
            "ä",
            "Up/x",
            "a..b/x",
            ".a/x",
            &too_long,
            &too_long_prefix,
        ] {
            assert!(!qualified_name(bad).is_empty(), "{bad}");
        }
        assert_eq!(qualified_name(&too_long), ["name part must be no more than 63 bytes"]);
        assert_eq!(qualified_name(&too_long_prefix), ["prefix part must be no more than 253 bytes"]);
        assert_eq!(qualified_name("")[0], "name part must be non-empty");
    }

    #[test]
    fn label_values() {
        for good in ["", "a", "1", "a_b.c-D", &"a".repeat(63)] {
            assert_eq!(label_value(good), [""; 0], "{good}");
        }
        for bad in ["-", "a-", ".a", "a b", "a/b", &"a".repeat(64)] {
            assert!(!label_value(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn dns_names() {
        for (text, label, subdomain) in [
            ("a", true, true),
            ("a.b", false, true),
            ("A", false, false),
            ("", false, false),
            ("a-", false, false),
            ("a.-b", false, false),
        ] {
            assert_eq!(dns1123_label(text).is_empty(), label, "{text}");
            assert_eq!(dns1123_subdomain(text).is_empty(), subdomain, "{text}");
        }
    }
}
