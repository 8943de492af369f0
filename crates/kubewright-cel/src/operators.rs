//! Arithmetic and comparison operators.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::ast::BinaryOperator;
use crate::equality::{encode, encode_fields};
use crate::error::EvaluationError;
use crate::timestamp;
use crate::types::ListKind;
use crate::value::{EvaluationResult, Value};

/// Applies a binary operator.
pub(crate) fn apply(operator: BinaryOperator, left: &Value, right: &Value) -> EvaluationResult {
    let compare = |wanted: fn(Ordering) -> bool| {
        // NaN is unordered: every comparison is false.
        let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
        match left.compare(right) {
            Some(order) if !matches!(left, Value::Quantity(_)) => Ok(Value::Bool(wanted(order))),
            None if is_nan(left) || is_nan(right) => Ok(Value::Bool(false)),
            _ => Err(EvaluationError::no_overload()),
        }
    };
    match operator {
        BinaryOperator::Equal => Ok(Value::Bool(left == right)),
        BinaryOperator::Unequal => Ok(Value::Bool(left != right)),
        BinaryOperator::Less => compare(Ordering::is_lt),
        BinaryOperator::LessOrEqual => compare(Ordering::is_le),
        BinaryOperator::Greater => compare(Ordering::is_gt),
        BinaryOperator::GreaterOrEqual => compare(Ordering::is_ge),
        BinaryOperator::In => contains(right, left),
        _ => arithmetic(operator, left, right),
    }
}

/// Negates a value.
pub(crate) fn negate(value: &Value) -> EvaluationResult {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn contains(container: &Value, wanted: &Value) -> EvaluationResult {
    match container {
        Value::List(items, _) => Ok(Value::Bool(items.contains(wanted))),
        Value::Map(entries) => Ok(Value::Bool(wanted.to_key().is_some_and(|key| entries.contains_key(&key)))),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn arithmetic(operator: BinaryOperator, left: &Value, right: &Value) -> EvaluationResult {
    use BinaryOperator::{Add, Divide, Multiply, Remainder, Subtract};
    use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    let by_zero = || {
        let what = if operator == Divide { "division by zero" } else { "modulus by zero" };
        EvaluationError::new(what)
    };
    Ok(match (operator, left, right) {
        (Divide | Remainder, _, Int(0) | Uint(0)) => return Err(by_zero()),
        (Add, Int(one), Int(two)) => Int(one.checked_add(*two).ok_or_else(overflow)?),
        (Subtract, Int(one), Int(two)) => Int(one.checked_sub(*two).ok_or_else(overflow)?),
        (Multiply, Int(one), Int(two)) => Int(one.checked_mul(*two).ok_or_else(overflow)?),
        (Divide, Int(one), Int(two)) => Int(one.checked_div(*two).ok_or_else(overflow)?),
        (Remainder, Int(one), Int(two)) => Int(one.checked_rem(*two).ok_or_else(overflow)?),
        (Add, Uint(one), Uint(two)) => Uint(one.checked_add(*two).ok_or_else(overflow)?),
        (Subtract, Uint(one), Uint(two)) => Uint(one.checked_sub(*two).ok_or_else(overflow)?),
        (Multiply, Uint(one), Uint(two)) => Uint(one.checked_mul(*two).ok_or_else(overflow)?),
        (Divide, Uint(one), Uint(two)) => Uint(one / two),
        (Remainder, Uint(one), Uint(two)) => Uint(one % two),
        (Add, Double(one), Double(two)) => Double(one + two),
        (Subtract, Double(one), Double(two)) => Double(one - two),
        (Multiply, Double(one), Double(two)) => Double(one * two),
        (Divide, Double(one), Double(two)) => Double(one / two),
        (Add, String(one), String(two)) => String(format!("{one}{two}").into()),
        (Add, Bytes(one), Bytes(two)) => Bytes([&one[..], &two[..]].concat().into()),
        (Add, List(one, kind), List(two, _)) => List(concatenate(one, two, kind).into(), kind.clone()),
        (Add, Duration(one), Duration(two)) => Duration(one.checked_add(*two).ok_or_else(overflow)?),
        (Subtract, Duration(one), Duration(two)) => Duration(one.checked_sub(*two).ok_or_else(overflow)?),
        (Add, Timestamp(time), Duration(nanos)) | (Add, Duration(nanos), Timestamp(time)) => {
            checked_timestamp(time + i128::from(*nanos))?
        }
        (Subtract, Timestamp(time), Duration(nanos)) => checked_timestamp(time - i128::from(*nanos))?,
        (Subtract, Timestamp(one), Timestamp(two)) => Duration(i64::try_from(one - two).map_err(|_| overflow())?),
        _ => return Err(EvaluationError::no_overload()),
    })
}

/// Concatenates lists: sets skip items they contain, keyed lists replace items of equal keys.
fn concatenate(one: &[Value], two: &[Value], kind: &ListKind) -> Vec<Value> {
    let mut items = one.to_vec();
    let identity = |item: &Value| match kind {
        ListKind::Atomic => None,
        ListKind::Set => Some(encode(item)),
        ListKind::Map(keys) => Some(encode_fields(item, keys)),
    };
    let mut index_of: HashMap<Vec<u8>, usize> = HashMap::new();
    for (index, item) in one.iter().enumerate() {
        if let Some(identity) = identity(item) {
            index_of.entry(identity).or_insert(index);
        }
    }
    for item in two {
        let index = identity(item).map_or(items.len(), |identity| *index_of.entry(identity).or_insert(items.len()));
        match items.get_mut(index) {
            Some(existing) => *existing = item.clone(),
            None => items.push(item.clone()),
        }
    }
    items
}

/// A timestamp, or an error outside of the years 1 to 9999.
pub(crate) fn checked_timestamp(nanos: i128) -> EvaluationResult {
    if timestamp::is_in_range(nanos) {
        return Ok(Value::Timestamp(nanos));
    }
    Err(EvaluationError::new("timestamp overflow"))
}

fn overflow() -> EvaluationError {
    EvaluationError::new("integer overflow")
}
