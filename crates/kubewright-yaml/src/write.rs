//! Writes trees as YAML in block style, as kubectl and API servers do: the same order of keys,
//! quotes and line breaks as the YAML library of Go's Kubernetes packages.

use std::cmp::Ordering;

use kubewright_core::Value;

use super::read::is_string;
use super::scalar::{ScalarStyle, is_printable, style};

/// A plain or quoted text is broken at the first space after this column.
const LINE_WIDTH: usize = 80;
/// Longer keys have a line of their own, after `? `.
const MAX_KEY: usize = 128;

/// Appends a document.
pub fn write(value: &Value, out: &mut String) {
    node(value, 0, out);
}

/// Writes a value whose first line has begun.
fn node(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => mapping(value, indent, out),
        Value::Array(items) if !items.is_empty() => sequence(value, indent, out),
        Value::String(string) => {
            text(string, indent, out);
            out.push('\n');
        }
        scalar => {
            out.push_str(&scalar.to_string());
            out.push('\n');
        }
    }
}

fn mapping(value: &Value, indent: usize, out: &mut String) {
    let Value::Object(entries) = value else { return };
    let mut entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value)).collect();
    entries.sort_by(|(key, _), (other, _)| compare_keys(key, other));
    for (at, (name, value)) in entries.into_iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        if name.len() > MAX_KEY {
            out.push_str("? ");
            key(name, out);
            out.push('\n');
            pad(indent, out);
            out.push_str(": ");
            node(value, indent + 2, out);
            continue;
        }
        key(name, out);
        out.push(':');
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                out.push('\n');
                pad(indent + 2, out);
                mapping(value, indent + 2, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(indent, out);
                sequence(value, indent, out);
            }
            scalar => {
                out.push(' ');
                node(scalar, indent + 2, out);
            }
        }
    }
}

fn sequence(value: &Value, indent: usize, out: &mut String) {
    let Value::Array(items) = value else { return };
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        node(item, indent + 2, out);
    }
}

/// Letters follow other characters; otherwise the order is that of code points.
fn compare_keys(key: &str, other: &str) -> Ordering {
    let mut pairs = key.chars().zip(other.chars());
    match pairs.find(|(a, b)| a != b) {
        Some((a, b)) => a.is_alphabetic().cmp(&b.is_alphabetic()).then(a.cmp(&b)),
        None => key.len().cmp(&other.len()),
    }
}

/// A key is on one line.
fn key(key: &str, out: &mut String) {
    match style(key, is_string(key)) {
        ScalarStyle::Plain => out.push_str(key),
        ScalarStyle::SingleQuoted => single_quoted(key, None, out),
        ScalarStyle::Literal | ScalarStyle::DoubleQuoted => double_quoted(key, None, out),
    }
}

fn text(text: &str, indent: usize, out: &mut String) {
    match style(text, is_string(text)) {
        ScalarStyle::Plain => plain(text, indent, out),
        ScalarStyle::SingleQuoted => single_quoted(text, Some(indent), out),
        ScalarStyle::DoubleQuoted => double_quoted(text, Some(indent), out),
        ScalarStyle::Literal => literal(text, indent, out),
    }
}

fn plain(text: &str, indent: usize, out: &mut String) {
    let mut line = Line::new(Some(indent), out);
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        if c == ' ' && line.is_full() && !rest.starts_with(' ') {
            line.wrap();
        } else {
            line.push(c);
        }
    }
}

fn single_quoted(text: &str, indent: Option<usize>, out: &mut String) {
    let mut line = Line::new(indent, out);
    line.push('\'');
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        if c == ' ' && line.is_full() && at > 0 && !rest.is_empty() && !rest.starts_with(' ') {
            line.wrap();
            continue;
        }
        if c == '\'' {
            line.push(c);
        }
        line.push(c);
    }
    line.push('\'');
}

fn double_quoted(text: &str, indent: Option<usize>, out: &mut String) {
    let mut line = Line::new(indent, out);
    line.push('"');
    for (at, c) in text.char_indices() {
        let rest = &text[at + c.len_utf8()..];
        if c == ' ' && line.is_full() && at > 0 && !rest.is_empty() {
            line.wrap();
            // Otherwise a reader would drop the space at the start of the line.
            if rest.starts_with(' ') {
                line.push('\\');
            }
            continue;
        }
        match escape(c) {
            Some(escaped) => escaped.chars().for_each(|c| line.push(c)),
            None => line.push(c),
        }
    }
    line.push('"');
}

/// The escape sequence of a character in double quotes, if it needs one.
fn escape(c: char) -> Option<String> {
    let letter = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c if is_printable(c) => return None,
        c => {
            return Some(match u32::from(c) {
                code @ 0..=0xff => format!("\\x{code:02X}"),
                code @ 0x100..=0xffff => format!("\\u{code:04X}"),
                code => format!("\\U{code:08X}"),
            });
        }
    };
    Some(format!("\\{letter}"))
}

/// Writes a block of lines after `|`.
fn literal(text: &str, indent: usize, out: &mut String) {
    out.push('|');
    // A reader takes the indentation from the first line, unless it is given.
    if text.starts_with([' ', '\n']) {
        out.push('2');
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if text.ends_with("\n\n") || text == "\n" {
        out.push('+');
    }
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
}

/// The line that a text is written to.
struct Line<'a> {
    column: usize,
    /// The indentation of further lines. `None` if there must not be any.
    indent: Option<usize>,
    /// Whether the last character was not a space. A run of spaces is broken only at its start.
    may_wrap: bool,
    out: &'a mut String,
}

impl<'a> Line<'a> {
    fn new(indent: Option<usize>, out: &'a mut String) -> Self {
        let start = out.rfind('\n').map_or(0, |newline| newline + 1);
        Line { column: out[start..].chars().count(), indent, may_wrap: true, out }
    }

    fn is_full(&self) -> bool {
        self.indent.is_some() && self.may_wrap && self.column > LINE_WIDTH
    }

    fn push(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
        self.may_wrap = c != ' ';
    }

    /// Replaces a space by a line break.
    fn wrap(&mut self) {
        let indent = self.indent.unwrap_or_default();
        self.out.push('\n');
        pad(indent, self.out);
        self.column = indent;
        self.may_wrap = false;
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate as yaml;

    fn written(value: &Value) -> String {
        let mut out = String::new();
        write(value, &mut out);
        out
    }

    fn entry(text: &str) -> String {
        written(&Value::Object([("k", Value::from(text))].into()))
    }

    /// The right side was printed by kubectl 1.33.
    #[test]
    fn texts_are_quoted_as_by_kubectl() {
        for (text, expected) in [
            ("", r#""""#),
            ("null", r#""null""#),
            ("~", r#""~""#),
            ("Yes", r#""Yes""#),
            ("1.5", r#""1.5""#),
            ("010", r#""010""#),
            ("1_000", r#""1_000""#),
            ("1:20", r#""1:20""#),
            (".inf", r#"".inf""#),
            ("2020-01-01", r#""2020-01-01""#),
            ("2020-01-01T00:00:00Z", r#""2020-01-01T00:00:00Z""#),
            ("1.2.3", "1.2.3"),
            ("a:b", "a:b"),
            ("a:", "'a:'"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("-a", "-a"),
            ("- a", "'- a'"),
            ("-", "'-'"),
            ("?a", "?a"),
            ("*a", "'*a'"),
            ("'a", "'''a'"),
            ("\"a", "'\"a'"),
            ("a'b\"c", "a'b\"c"),
            ("a[b]", "a[b]"),
            ("[a", "'[a'"),
            ("a,b", "a,b"),
            ("---", "'---'"),
            ("=", "="),
            (" a", "' a'"),
            ("a ", "'a '"),
            ("ä", "ä"),
            ("😀", r#""\U0001F600""#),
            ("a\tb\n", r#""a\tb\n""#),
            ("a\r\nb", r#""a\r\nb""#),
            ("a\u{1}b", r#""a\x01b""#),
            ("a \nb", r#""a \nb""#),
            ("a\\b", "a\\b"),
            ("a\nb", "|-\n  a\n  b"),
            ("a\nb\n", "|\n  a\n  b"),
            ("a\nb\n\n", "|+\n  a\n  b\n"),
            ("\n\n  a\nb", "|2-\n\n\n    a\n  b"),
        ] {
            assert_eq!(entry(text), format!("k: {expected}\n"), "{text:?}");
        }
    }

    #[test]
    fn long_texts_are_wrapped_as_by_kubectl() {
        let words = |separator: &str| {
            let words = ["a".repeat(20), "b".repeat(29), "c".repeat(29), "d".repeat(25), "e".repeat(17)];
            words.join(separator)
        };
        let [a, b, c, d, e] = ["a".repeat(20), "b".repeat(29), "c".repeat(29), "d".repeat(25), "e".repeat(17)];
        assert_eq!(entry(&words(" ")), format!("k: {a} {b} {c}\n  {d} {e}\n"));
        let quoted = format!("{a}: {b} {c}  {d} {e} f");
        assert_eq!(entry(&quoted), format!("k: '{a}: {b} {c}  {d}\n  {e} f'\n"));
        let escaped = format!("{a}:\t{b} {c}  {d} {e} f");
        assert_eq!(entry(&escaped), format!("k: \"{a}:\\t{b} {c}\n  \\ {d} {e} f\"\n"));
    }

    #[test]
    fn letters_follow_other_characters_in_the_order_of_keys() {
        let value: Value = r#"{"K":1,"_a":1,"k10":1,"k1a":1,"k2":1,"k1-a":1,"y":1}"#.parse().unwrap();
        assert_eq!(written(&value), "_a: 1\nK: 1\nk1-a: 1\nk10: 1\nk1a: 1\nk2: 1\n\"y\": 1\n");
    }

    #[test]
    fn long_keys_have_their_own_line() {
        let key = "k".repeat(129);
        let value = Value::Object([(key.as_str(), r#"{"a":["b"]}"#.parse().unwrap())].into());
        assert_eq!(written(&value), format!("? {key}\n: a:\n  - b\n"));
        assert_eq!(yaml::parse(&written(&value)).unwrap().value, value);
    }

    proptest! {
        #[test]
        fn written_yaml_parses_back(
            texts in proptest::collection::vec("[ -~\n\tä😀\u{1}\u{85}\u{feff}\u{2028}]{0,120}", 1..6),
            numbers in proptest::collection::vec(any::<i64>(), 0..3),
        ) {
            let texts = texts.iter().map(|text| Value::from(text.as_str()));
            let list = Value::Array(texts.clone().chain(numbers.into_iter().map(Value::Int)).collect());
            let fields = texts.enumerate().map(|(at, text)| (format!("{}{at}", text.as_str().unwrap()), list.clone()));
            let value = Value::Object(fields.collect());
            prop_assert_eq!(&yaml::parse(&written(&value)).unwrap().value, &value, "{}", written(&value));
        }
    }
}
