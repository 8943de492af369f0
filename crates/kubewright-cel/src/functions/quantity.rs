//! The quantity library: amounts such as `500m` and `1Gi`.

use std::cmp::Ordering;

use kubewright_core::Quantity;

use crate::error::EvaluationError;
use crate::value::{EvaluationResult, Value};

/// Parses a quantity, or checks whether a string is one.
pub(super) fn call(function: &str, value: &Value) -> EvaluationResult {
    let Value::String(text) = value else { return Err(EvaluationError::no_overload()) };
    match (function, text.parse::<Quantity>()) {
        ("isQuantity", parsed) => Ok(Value::Bool(parsed.is_ok())),
        (_, Ok(amount)) => Ok(Value::Quantity(amount)),
        (_, Err(error)) => Err(EvaluationError::new(error.to_string())),
    }
}

/// Calls a method of a quantity.
pub(super) fn method(amount: &Quantity, function: &str, arguments: &[Value]) -> EvaluationResult {
    let as_integer = amount.as_i64();
    Ok(match (function, arguments) {
        ("isInteger", []) => Value::Bool(as_integer.is_some()),
        ("asInteger", []) => {
            Value::Int(as_integer.ok_or_else(|| EvaluationError::new("cannot convert value to integer"))?)
        }
        ("asApproximateFloat", []) => Value::Double(amount.to_f64()),
        ("add", [Value::Quantity(other)]) => Value::Quantity(amount.clone() + other),
        ("add", [Value::Int(other)]) => Value::Quantity(amount.clone() + &Quantity::from(*other)),
        ("sub", [Value::Quantity(other)]) => Value::Quantity(amount.clone() - other),
        ("sub", [Value::Int(other)]) => Value::Quantity(amount.clone() - &Quantity::from(*other)),
        ("compareTo", [Value::Quantity(other)]) => Value::Int(amount.cmp(other) as i64),
        ("isGreaterThan", [Value::Quantity(other)]) => Value::Bool(amount.cmp(other) == Ordering::Greater),
        ("isLessThan", [Value::Quantity(other)]) => Value::Bool(amount.cmp(other) == Ordering::Less),
        _ => return Err(EvaluationError::no_overload()),
    })
}
