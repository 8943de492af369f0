//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Evaluated;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

/// A version; what follows a plus sign does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    /// What comes before the release, empty for a release.
    before: Vec<Part>,
}

/// A part between dots. Numbers come before words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

/// Whether a text is a version as its specification wants it.
pub(crate) fn is_version(text: &str) -> bool {
    Version::parse(text).is_some()
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, before) = text.split_once('-').map_or((text, None), |(core, before)| (core, Some(before)));
        let numbers: Vec<u64> = core.split('.').map(number).collect::<Option<_>>()?;
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let part = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => number(part).map(Part::Number),
            false => is_word(part).then(|| Part::Word(part.to_owned())),
        };
        let before = before.map_or(Some(Vec::new()), |before| before.split('.').map(part).collect())?;
        let has_proper_build = build.is_none_or(|build| build.split('.').all(is_word));
        has_proper_build.then_some(Version { numbers: numbers.try_into().ok()?, before })
    }

    /// Reads what people write: with a `v` before it, zeros before numbers, and without the last of them.
    fn parse_lax(text: &str) -> Option<Version> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let plain = |part: &str| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            part => part.to_owned(),
        };
        let mut core: Vec<String> = text[..end].split('.').map(plain).collect();
        if core.len() < 3 && end < text.len() {
            return None;
        }
        core.resize(core.len().max(3), "0".to_owned());
        Version::parse(&format!("{}{}", core.join("."), &text[end..]))
    }

    fn compare(&self, other: &Version) -> Ordering {
        let by_stage = match (self.before.is_empty(), other.before.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.before.cmp(&other.before),
        };
        self.numbers.cmp(&other.numbers).then(by_stage)
    }
}

fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

/// Makes a version, or says whether a text is one.
pub(super) fn call(function: &str, arguments: &[Value]) -> Evaluated {
    let parsed = match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Version::parse(text),
        [Value::String(text), Value::Bool(true)] => Version::parse_lax(text),
        _ => return Err(EvaluationError::no_overload()),
    };
    match (function, parsed) {
        ("isSemver", parsed) => Ok(Value::Bool(parsed.is_some())),
        (_, Some(version)) => Ok(Value::Version(Arc::new(version))),
        (_, None) => Err(EvaluationError::new("the text is no semantic version")),
    }
}

/// Calls a function of a version.
pub(super) fn method(version: &Version, function: &str, arguments: &[Value]) -> Evaluated {
    let part = |index: usize| i64::try_from(version.numbers[index]).map(Value::Int);
    let part = |index: usize| part(index).map_err(|_| EvaluationError::new("integer overflow"));
    match (function, arguments) {
        ("major", []) => part(0),
        ("minor", []) => part(1),
        ("patch", []) => part(2),
        ("compareTo", [Value::Version(other)]) => Ok(Value::Int(version.compare(other) as i64)),
        ("isGreaterThan", [Value::Version(other)]) => Ok(Value::Bool(version.compare(other).is_gt())),
        ("isLessThan", [Value::Version(other)]) => Ok(Value::Bool(version.compare(other).is_lt())),
        _ => Err(EvaluationError::no_overload()),
    }
}
