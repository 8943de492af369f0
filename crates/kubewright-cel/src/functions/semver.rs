//! The semver library.

use std::sync::Arc;

use crate::error::EvaluationError;
use crate::value::{EvaluationResult, Value};
use crate::version::Semver;

/// Parses a version, or checks whether a string is one. A second argument `true` normalizes it.
pub(super) fn call(function: &str, arguments: &[Value]) -> EvaluationResult {
    let parsed = match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Semver::parse(text),
        [Value::String(text), Value::Bool(true)] => Semver::parse_lax(text),
        _ => return Err(EvaluationError::no_overload()),
    };
    match (function, parsed) {
        ("isSemver", parsed) => Ok(Value::Bool(parsed.is_some())),
        (_, Some(version)) => Ok(Value::Semver(Arc::new(version))),
        (_, None) => Err(EvaluationError::new("the text is no semantic version")),
    }
}

/// Calls a method of a version.
pub(super) fn method(version: &Semver, function: &str, arguments: &[Value]) -> EvaluationResult {
    let number = |index: usize| {
        let number = i64::try_from(version.numbers()[index]).map(Value::Int);
        number.map_err(|_| EvaluationError::new("integer overflow"))
    };
    match (function, arguments) {
        ("major", []) => number(0),
        ("minor", []) => number(1),
        ("patch", []) => number(2),
        ("compareTo", [Value::Semver(other)]) => Ok(Value::Int(version.compare(other) as i64)),
        ("isGreaterThan", [Value::Semver(other)]) => Ok(Value::Bool(version.compare(other).is_gt())),
        ("isLessThan", [Value::Semver(other)]) => Ok(Value::Bool(version.compare(other).is_lt())),
        _ => Err(EvaluationError::no_overload()),
    }
}
