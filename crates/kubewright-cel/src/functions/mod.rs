//! The function libraries: those of CEL, and those that Kubernetes adds.

mod authorizer;
mod conversion;
mod format;
mod lists;
mod network;
mod quantity;
mod semver;
mod strings;
mod time;
mod url;

use crate::authorization::AuthorizationDecision;
use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::go_regex::GoRegex;
use crate::value::{EvaluationResult, Value};

pub(crate) use lists::sort_by_key;

/// Whether a name is a namespace of functions, such as `sets` in `sets.contains(a, b)`.
pub(crate) fn is_namespace(name: &str) -> bool {
    matches!(name, "optional" | "ip" | "cidr" | "format" | "sets" | "strings" | "lists" | "jsonpatch")
}

/// The standard type of this name, as a value.
pub(crate) fn type_by_name(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 11] =
        ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "null_type", "optional_type"];
    TYPES.into_iter().find(|known| *known == name)
}

/// Calls a function by its qualified name.
pub(crate) fn call(function: &str, arguments: &[Value], budget: &mut Budget) -> EvaluationResult {
    let limit = budget.size_limit();
    let read = |value: &Value| if function.starts_with("sets.") { value.nested_size(limit) } else { value.size() };
    budget.spend_for_size(arguments.iter().map(read).fold(0, usize::saturating_add))?;
    match (function, arguments) {
        ("size", [value]) => size(value),
        ("type", [value]) => Ok(Value::Type(value.type_name())),
        ("dyn", [value]) => Ok(value.clone()),
        ("matches", [value, pattern]) => method(value, "matches", std::slice::from_ref(pattern), budget),
        ("optional.of", [value]) => Ok(Value::optional(Some(value.clone()))),
        ("optional.none", []) => Ok(Value::optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(Value::optional(Some(value.clone()).filter(|value| !is_zero(value))))
        }
        ("isIP" | "ip" | "ip.isCanonical" | "isCIDR" | "cidr", [value]) => network::call(function, value),
        ("isURL" | "url", [value]) => url::call(function, value),
        ("isQuantity" | "quantity", [value]) => quantity::call(function, value),
        ("sign", [Value::Quantity(amount)]) => Ok(Value::Int(amount.signum().into())),
        ("isSemver" | "semver", arguments) => semver::call(function, arguments),
        ("jsonpatch.escapeKey", [Value::String(key)]) => Ok(key.replace('~', "~0").replace('/', "~1").into()),
        ("strings.quote", [Value::String(text)]) => Ok(strings::quote(text).into()),
        ("lists.range", [Value::Int(count)]) => {
            budget.spend(u64::try_from(*count).unwrap_or_default())?;
            Ok(Value::list((0..*count).map(Value::Int).collect::<Vec<_>>()))
        }
        _ if function.starts_with("sets.") => lists::sets(&function["sets.".len()..], arguments, budget),
        _ if function.starts_with("format.") => format::named(&function["format.".len()..], arguments),
        _ => conversion::call(function, arguments),
    }
}

/// Calls a method of a value.
pub(crate) fn method(target: &Value, function: &str, arguments: &[Value], budget: &mut Budget) -> EvaluationResult {
    let read = match (target, function, arguments) {
        (Value::List(..), "size", _) => target.size(),
        // These compare, join or copy the items.
        (Value::List(..), ..) => target.nested_size(budget.size_limit()),
        (_, "format", [values]) => target.size().saturating_add(values.nested_size(budget.size_limit())),
        _ => target.size(),
    };
    budget.spend_for_size(read)?;
    match (target, function, arguments) {
        (_, "size", []) => size(target),
        (Value::Optional(inner), _, _) => match (inner, function) {
            (inner, "hasValue") => Ok(Value::Bool(inner.is_some())),
            (Some(inner), "value") => Ok(Value::clone(inner)),
            (None, "value") => Err(EvaluationError::new("optional.none() dereference")),
            _ => Err(EvaluationError::no_overload()),
        },
        (Value::String(text), "format", [Value::List(values, _)]) => format::format(text, values),
        (Value::String(text), _, _) => strings::method(text, function, arguments, budget),
        (Value::List(items, _), _, _) => lists::method(items, function, arguments, budget),
        (Value::Timestamp(_) | Value::Duration(_), _, _) => time::method(target, function, arguments),
        (Value::Quantity(amount), _, _) => quantity::method(amount, function, arguments),
        (Value::Ip(_) | Value::Cidr(_), _, _) => network::method(target, function, arguments),
        (Value::Url(url), _, []) => url::method(url, function),
        (Value::Semver(version), _, _) => semver::method(version, function, arguments),
        (Value::AuthorizationCheck(check), _, _) => authorizer::method(check, function, arguments),
        (Value::Decision(AuthorizationDecision { is_allowed, .. }), "allowed", []) => Ok(Value::Bool(*is_allowed)),
        (Value::Decision(AuthorizationDecision { reason, .. }), "reason", []) => Ok(Value::String(reason.clone())),
        (Value::Decision(_), "errored", []) => Ok(Value::Bool(false)),
        (Value::Decision(_), "error", []) => Ok("".into()),
        (Value::Format(name), "validate", [Value::String(text)]) => format::validate(name, text),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Whether a call fails for every evaluation because of this literal argument.
pub(crate) fn is_invalid_literal(function: &str, argument: &Value) -> bool {
    let Value::String(text) = argument else { return false };
    match function {
        "matches" => GoRegex::compile(text).is_err(),
        "timestamp" | "duration" => conversion::call(function, std::slice::from_ref(argument)).is_err(),
        _ => false,
    }
}

fn size(value: &Value) -> EvaluationResult {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(_) | Value::List(..) | Value::Map(_) => value.size(),
        _ => return Err(EvaluationError::no_overload()),
    };
    Ok(Value::Int(size as i64))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(_) | Value::List(..) | Value::Map(_) => value.size() == 0,
        Value::Duration(nanos) => *nanos == 0,
        _ => false,
    }
}
