//! Parses YAML as Kubernetes does: version 1.1 plain scalars, converted to JSON.

use std::collections::HashMap;

use kubewright_core::{List, MAX_FINDINGS, MapBuilder, Str, Value};

use super::YamlError;
use super::scalar::{is_base_60, is_timestamp};
use granit_parser::{Event, Parser, ScalarStyle, Span};

/// Maximum depth of a document.
const MAX_DEPTH: usize = 100;

/// Limit on the values that aliases may copy, so that a short text cannot become a huge tree.
const MAX_COPIED: usize = 10_000;

/// Limit on the JSON bytes that anchors and aliases may copy beyond the length of the text: the
/// limit of a request body.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The error for too many copies by anchors and aliases.
const EXCESSIVE: &str = "yaml: document contains excessive aliasing";

/// A document and its strict validation errors.
#[derive(Debug, Clone)]
pub struct YamlDocument {
    /// The content.
    pub value: Value,
    /// Duplicate keys, with Go's messages.
    pub duplicates: Vec<String>,
}

/// Parses the first document of a text.
///
/// # Errors
/// If the text is not YAML, is too deep, or its aliases copy too much.
pub fn parse(text: &str) -> Result<YamlDocument, YamlError> {
    Ok(parse_all(text)?.into_iter().next().unwrap_or(YamlDocument { value: Value::Null, duplicates: Vec::new() }))
}

/// Parses all documents of a text, skipping empty ones.
///
/// # Errors
/// As [`parse`].
#[doc(alias = "NewYAMLReader")]
pub fn parse_all(text: &str) -> Result<Vec<YamlDocument>, YamlError> {
    let mut documents = Vec::new();
    let mut loader = Loader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        duplicates: vec![],
        copied: 0,
        bytes_left: MAX_COPIED_BYTES + text.len(),
    };
    loop {
        match loader.next()? {
            (Event::StreamEnd, _) => return Ok(documents),
            (Event::DocumentStart(..), _) => {
                let (event, span) = loader.next()?;
                let value = match event {
                    Event::DocumentEnd => continue,
                    event => loader.node(event, span, 0)?,
                };
                if !value.is_null() {
                    documents.push(YamlDocument { value, duplicates: std::mem::take(&mut loader.duplicates) });
                }
                loader.anchors.clear();
            }
            _ => {}
        }
    }
}

struct Loader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    anchors: HashMap<usize, Value>,
    duplicates: Vec<String>,
    /// Number of values copied by aliases.
    copied: usize,
    /// Number of bytes that anchors and aliases may still copy.
    bytes_left: usize,
}

impl<'a> Loader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        loop {
            return match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => continue,
                Some(Ok(event)) => Ok(event),
                Some(Err(error)) => Err(in_go_words(&error.to_string()).into()),
                None => Err("yaml: unexpected end of input".into()),
            };
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err("yaml: exceeded max depth".into());
        }
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str");
                (anchor, if is_text { Value::from(text.as_ref()) } else { plain(&text) })
            }
            Event::SequenceStart(_, anchor, _) => (anchor, self.sequence(depth)?),
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(depth)?),
            Event::Alias(anchor) => return self.alias(anchor),
            _ => return Err(format!("yaml: line {}: did not find expected node content", span.start.line()).into()),
        };
        if anchor != 0 {
            // An anchor copies its value, too: nested anchors copy the innermost value repeatedly.
            self.bytes_left = self.bytes_left.checked_sub(extent(&value).bytes).ok_or(EXCESSIVE)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn alias(&mut self, anchor: usize) -> Result<Value, YamlError> {
        let value = self.anchors.get(&anchor).ok_or("yaml: unknown anchor")?;
        let extent = extent(value);
        self.copied += extent.values;
        if self.copied > MAX_COPIED {
            return Err(EXCESSIVE.into());
        }
        self.bytes_left = self.bytes_left.checked_sub(extent.bytes).ok_or(EXCESSIVE)?;
        Ok(value.clone())
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = List::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut entries = MapBuilder::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let key = key(self.node(event, span, depth + 1)?)?;
            let (event, value_span) = self.next()?;
            let value = self.node(event, value_span, depth + 1)?;
            if is_merge {
                merged.push(value);
            } else if entries.insert(key.clone(), value).is_some() && self.duplicates.len() < MAX_FINDINGS {
                self.duplicates.push(format!(
                    "yaml: unmarshal errors:\n  line {}: key {:?} already set in map",
                    span.start.line(),
                    key.as_str()
                ));
            }
        }
        for value in merged {
            let sources = match value {
                Value::Array(list) => list.into_iter().collect(),
                other => vec![other],
            };
            for source in sources {
                let Value::Object(source) = source else {
                    return Err("yaml: map merge requires map or sequence of maps as the value".into());
                };
                for (key, value) in source {
                    entries.get_or_insert_with(key, || value);
                }
            }
        }
        Ok(Value::Object(entries.finish()))
    }
}

/// The error as Go's parser words it, where known.
fn in_go_words(error: &str) -> String {
    let line = error.split_once(" line ").and_then(|(_, rest)| rest.split(' ').next()).unwrap_or("1");
    if error.starts_with("unclosed bracket") {
        format!("yaml: line {line}: did not find expected node content")
    } else {
        format!("yaml: {error}")
    }
}

/// A map key, which is a string in JSON.
fn key(value: Value) -> Result<Str, YamlError> {
    Ok(match value {
        Value::String(text) => text,
        Value::Bool(true) => "true".into(),
        Value::Bool(false) => "false".into(),
        Value::Int(number) => number.to_string().into(),
        Value::Float(number) => number.to_string().into(),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err("yaml: unsupported map key".into()),
    })
}

/// Whether a plain scalar is read as a string, here and by readers that know more types.
pub(super) fn is_string(text: &str) -> bool {
    let is_special_number = || {
        let word = text.strip_prefix(['+', '-']).unwrap_or(text);
        matches!(word, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
    };
    matches!(plain(text), Value::String(_)) && !is_base_60(text) && !is_timestamp(text) && !is_special_number()
}

/// The value of a plain scalar.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return true.into(),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => return false.into(),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return text.into();
    }
    number(&text.replace('_', "")).unwrap_or_else(|| text.into())
}

fn number(text: &str) -> Option<Value> {
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => ("-", &text[1..]),
        [b'+', ..] => ("", &text[1..]),
        _ => ("", text),
    };
    let radix = |digits: &str, radix| {
        // A second sign after the prefix, as in `0x-1`, makes it a string.
        let is_plain = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
        let whole = is_plain.then(|| i64::from_str_radix(&format!("{sign}{digits}"), radix).ok());
        whole.flatten().map(Value::Int)
    };
    match digits.as_bytes() {
        [b'0', b'x', ..] => return radix(&digits[2..], 16),
        [b'0', b'b', ..] => return radix(&digits[2..], 2),
        [b'0', b'o', ..] => return radix(&digits[2..], 8),
        [b'0', b'0'..=b'7', ..] if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            // A number with a leading zero is octal, unless it has other digits.
            return radix(&digits[1..], 8).or_else(|| text.parse().ok().map(Value::Float));
        }
        [first, ..] if first.is_ascii_digit() || *first == b'.' => {}
        _ => return None,
    }
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        let whole = radix(digits, 10);
        return whole.or_else(|| text.parse().ok().map(Value::Float));
    }
    let is_number = digits.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'E' | b'+' | b'-'));
    let value: f64 = if is_number { text.parse().ok()? } else { return None };
    value.is_finite().then_some(Value::Float(value))
}

/// The size of a value when it is copied.
#[derive(Default)]
struct CopySize {
    values: usize,
    /// The approximate length of its JSON.
    bytes: usize,
}

fn extent(value: &Value) -> CopySize {
    let mut total = CopySize { values: 1, bytes: 4 };
    let mut add = |key: &str, inner: &Value| {
        let inner = extent(inner);
        total.values += inner.values;
        total.bytes += inner.bytes + key.len() + 4;
    };
    match value {
        Value::Array(items) => items.iter().for_each(|item| add("", item)),
        Value::Object(entries) => entries.iter().for_each(|(key, value)| add(key, value)),
        Value::String(text) => total.bytes += text.len(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        parse(text).map(|document| document.value.to_string()).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn plain_scalars_resolve_as_in_go() {
        assert_eq!(
            json("a: y\nb: 'y'\nc: off\nd: ~\ne: 010\nf: 0x1F\ng: 1.5\nh: 1_000\ni: 2001-01-01\nj: 1e3"),
            r#"{"a":true,"b":"y","c":false,"d":null,"e":8,"f":31,"g":1.5,"h":1000,"i":"2001-01-01","j":1000.0}"#
        );
        assert_eq!(
            json("k: 100m\nv: 1.2.3\nx: -a\nt: !!str 5\n5: z\ntrue: z"),
            r#"{"5":"z","k":"100m","t":"5","true":"z","v":"1.2.3","x":"-a"}"#
        );
    }

    #[test]
    fn a_leading_zero_leaves_the_sign() {
        assert_eq!(
            json("a: -0178\nb: +0178\nc: 0178\nd: -017\ne: -089\nf: -0x1F\ng: 0x-1\nh: -0o-7"),
            r#"{"a":-178.0,"b":178.0,"c":178.0,"d":-15,"e":-89,"f":-31,"g":"0x-1","h":"-0o-7"}"#
        );
    }

    #[test]
    fn aliases_and_merges_copy() {
        assert_eq!(
            json("a: &x {k: 1, l: 2}\nb: *x\nc:\n  <<: *x\n  k: 3"),
            r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":2},"c":{"k":3,"l":2}}"#
        );
        let bomb = (0..9).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, n| {
            text + &format!("a{0}: &a{0} [{1}]\n", n + 1, vec![format!("*a{n}"); 9].join(","))
        });
        assert_eq!(json(&bomb), EXCESSIVE);
    }

    #[test]
    fn aliases_are_bounded_by_the_bytes_that_they_copy() {
        let text = |copies| format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; copies].join(","));
        assert!(parse(&text(25)).is_ok());
        assert_eq!(json(&text(50)), EXCESSIVE);
        let nested = |depth| {
            let open: String = (0..depth).map(|n| format!("&a{n} [")).collect();
            format!("a: {open}{}{}", "x".repeat(100_000), "]".repeat(depth))
        };
        assert!(parse(&nested(25)).is_ok());
        assert_eq!(json(&nested(50)), EXCESSIVE);
    }

    #[test]
    fn only_so_many_duplicate_keys_are_reported() {
        let document = parse(&"a: 1\n".repeat(1000)).expect("it can be read");
        assert_eq!(document.duplicates.len(), MAX_FINDINGS);
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_line() {
        let document = parse("a: 1\nb:\n  k: a\n  k: b\n").expect("it can be read");
        assert_eq!(document.value.to_string(), r#"{"a":1,"b":{"k":"b"}}"#);
        assert_eq!(document.duplicates, ["yaml: unmarshal errors:\n  line 4: key \"k\" already set in map"]);
    }

    #[test]
    fn broken_text_is_an_error_and_no_panic() {
        for text in ["a: [", "a: *b", "\t- x", "{a: b", "a: b: c", "- &a [*a]", "%YAML", "? [a]\n: b"] {
            let _ = parse(text);
        }
        let deep = "[".repeat(5000);
        assert!(parse(&deep).is_err());
    }
}
