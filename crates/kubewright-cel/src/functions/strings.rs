//! The string and regex libraries. Positions are counted in characters.

use kubewright_core::Str;

use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::go_regex::GoRegex;
use crate::value::{EvaluationResult, Value};

/// Calls a method of a string.
pub(super) fn method(text: &Str, function: &str, arguments: &[Value], budget: &mut Budget) -> EvaluationResult {
    let text = text.as_str();
    budget.spend_for_size(arguments.iter().map(Value::size).sum())?;
    Ok(match (function, arguments) {
        ("contains", [Value::String(part)]) => {
            budget.spend((text.len() as u64 / 10) * (part.len() as u64 / 10))?;
            text.contains(part.as_str()).into()
        }
        ("startsWith", [Value::String(part)]) => text.starts_with(part.as_str()).into(),
        ("endsWith", [Value::String(part)]) => text.ends_with(part.as_str()).into(),
        ("matches", [Value::String(pattern)]) => regex(text, pattern, budget)?.is_match(text).into(),
        ("find", [Value::String(pattern)]) => {
            regex(text, pattern, budget)?.matches(text).next().unwrap_or_default().into()
        }
        ("findAll", [Value::String(pattern), rest @ ..]) => {
            let limit = limit(rest)?;
            let regex = regex(text, pattern, budget)?;
            texts(regex.matches(text).take(limit))
        }
        ("lowerAscii", []) => text.to_ascii_lowercase().into(),
        ("upperAscii", []) => text.to_ascii_uppercase().into(),
        ("trim", []) => text.trim().into(),
        ("charAt", [Value::Int(at)]) => match usize::try_from(*at) {
            Ok(index) if index == text.chars().count() => "".into(),
            Ok(index) => text.chars().nth(index).ok_or_else(|| out_of_range(*at))?.to_string().into(),
            Err(_) => return Err(out_of_range(*at)),
        },
        ("indexOf", [Value::String(part), rest @ ..]) => Value::Int(index_of(text, part, rest, false)?),
        ("lastIndexOf", [Value::String(part), rest @ ..]) => Value::Int(index_of(text, part, rest, true)?),
        ("replace", [Value::String(from), Value::String(to), rest @ ..]) => {
            let limit = limit(rest)?;
            let count = text.matches(from.as_str()).take(limit).count();
            // The result may be much larger than what went in.
            budget.spend_for_size(text.len() + count.saturating_mul(to.len()))?;
            text.replacen(from.as_str(), to, limit).into()
        }
        ("split", [Value::String(separator), rest @ ..]) => match (limit(rest)?, separator.is_empty()) {
            (0, _) => Value::list([]),
            (limit, true) => texts(split_letters(text, limit)),
            (limit, false) => texts(text.splitn(limit, separator.as_str())),
        },
        ("substring", [Value::Int(begin)]) => substring(text, *begin, None)?.into(),
        ("substring", [Value::Int(begin), Value::Int(end)]) => substring(text, *begin, Some(*end))?.into(),
        _ => return Err(EvaluationError::no_overload()),
    })
}

/// Compiles a pattern, and charges for matching it against the text.
fn regex(text: &str, pattern: &str, budget: &mut Budget) -> Result<GoRegex, EvaluationError> {
    budget.spend((1 + text.len() as u64 / 10).saturating_mul(1 + pattern.len() as u64 / 4))?;
    GoRegex::compile(pattern).map_err(|error| EvaluationError::new(format!("error parsing regexp: {error}")))
}

/// The optional limit on the number of results. A negative limit means all.
fn limit(arguments: &[Value]) -> Result<usize, EvaluationError> {
    match arguments {
        [] => Ok(usize::MAX),
        [Value::Int(limit)] => Ok(usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn texts<'a>(parts: impl Iterator<Item = &'a str>) -> Value {
    Value::list(parts.map(Value::from).collect::<Vec<_>>())
}

fn split_letters(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let count = text.chars().count().min(limit);
    let ends = text.char_indices().map(|(begin, letter)| begin..begin + letter.len_utf8()).take(count).enumerate();
    ends.map(move |(index, range)| if index + 1 == count { &text[range.start..] } else { &text[range] })
}

/// The position of the first occurrence of `part` at or after an offset, -1 if there is none.
///
/// With `from_end`, the last occurrence at or before the offset. The empty string occurs
/// everywhere.
fn index_of(text: &str, part: &str, rest: &[Value], from_end: bool) -> Result<i64, EvaluationError> {
    let length = text.chars().count();
    let offset = match rest {
        [] => None,
        [Value::Int(offset)] => Some(usize::try_from(*offset).map_err(|_| out_of_range(*offset))?),
        _ => return Err(EvaluationError::no_overload()),
    };
    match offset {
        _ if part.is_empty() => return Ok(offset.unwrap_or(if from_end { length } else { 0 }).min(length) as i64),
        Some(offset) if offset >= length => return Ok(-1),
        _ => {}
    }
    let bytes = |letters: usize| text.char_indices().nth(letters).map_or(text.len(), |(at, _)| at);
    let found = match (from_end, offset) {
        (false, offset) => {
            let begin = bytes(offset.unwrap_or_default());
            text[begin..].find(part).map(|at| begin + at)
        }
        (true, None) => text.rfind(part),
        (true, Some(offset)) => {
            // A match may start at the offset and extend beyond it.
            let end = bytes(offset).saturating_add(part.len()).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            text[..end].rfind(part).filter(|at| *at <= bytes(offset))
        }
    };
    Ok(found.map_or(-1, |at| text[..at].chars().count() as i64))
}

fn substring(text: &str, begin: i64, end: Option<i64>) -> Result<String, EvaluationError> {
    let length = text.chars().count();
    let end = end.unwrap_or(length as i64);
    match (usize::try_from(begin), usize::try_from(end)) {
        (Ok(from), Ok(to)) if from <= to && to <= length => Ok(text.chars().skip(from).take(to - from).collect()),
        (Ok(from), Ok(to)) if from <= length && to <= length => {
            Err(EvaluationError::new(format!("invalid substring range. start: {begin}, end: {end}")))
        }
        (Ok(from), _) if from <= length => Err(out_of_range(end)),
        _ => Err(out_of_range(begin)),
    }
}

/// A string in double quotes, with escape sequences.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted += "\\a",
            '\u{8}' => quoted += "\\b",
            '\u{c}' => quoted += "\\f",
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            '\u{b}' => quoted += "\\v",
            '\\' => quoted += "\\\\",
            '"' => quoted += "\\\"",
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

fn out_of_range(index: i64) -> EvaluationError {
    EvaluationError::new(format!("index out of range: {index}"))
}
