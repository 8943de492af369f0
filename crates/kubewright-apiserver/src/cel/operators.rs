//! Arithmetic and comparison.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::error::EvaluationError;
use super::functions;
use super::identity;
use super::syntax::Operator;
use super::types::ListKind;
use super::value::Value;

/// What an operator makes of two values.
pub(super) fn apply(operator: Operator, left: &Value, right: &Value) -> Result<Value, EvaluationError> {
    let compare = |wanted: fn(Ordering) -> bool| {
        // Nothing is less or more than what is not a number.
        let is_nan = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
        match left.compare(right) {
            Some(order) if !matches!(left, Value::Quantity(_)) => Ok(Value::Bool(wanted(order))),
            None if is_nan(left) || is_nan(right) => Ok(Value::Bool(false)),
            _ => Err(EvaluationError::no_overload()),
        }
    };
    match operator {
        Operator::Equal => Ok(Value::Bool(left == right)),
        Operator::Unequal => Ok(Value::Bool(left != right)),
        Operator::Less => compare(Ordering::is_lt),
        Operator::LessOrEqual => compare(Ordering::is_le),
        Operator::Greater => compare(Ordering::is_gt),
        Operator::GreaterOrEqual => compare(Ordering::is_ge),
        Operator::In => contains(right, left),
        _ => arithmetic(operator, left, right),
    }
}

/// The value with its sign changed.
pub(super) fn negate(value: &Value) -> Result<Value, EvaluationError> {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn contains(container: &Value, wanted: &Value) -> Result<Value, EvaluationError> {
    match container {
        Value::List(items, _) => Ok(Value::Bool(items.contains(wanted))),
        Value::Map(entries) => Ok(Value::Bool(wanted.to_key().is_some_and(|key| entries.contains_key(&key)))),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value, EvaluationError> {
    use Operator::{Add, Divide, Multiply, Remainder, Subtract};
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
        (Add, List(one, kind), List(two, _)) => List(join(one, two, kind).into(), kind.clone()),
        (Add, Duration(one), Duration(two)) => Duration(one.checked_add(*two).ok_or_else(overflow)?),
        (Subtract, Duration(one), Duration(two)) => Duration(one.checked_sub(*two).ok_or_else(overflow)?),
        (Add, Timestamp(time), Duration(nanos)) | (Add, Duration(nanos), Timestamp(time)) => {
            functions::timestamp(time + i128::from(*nanos))?
        }
        (Subtract, Timestamp(time), Duration(nanos)) => functions::timestamp(time - i128::from(*nanos))?,
        (Subtract, Timestamp(one), Timestamp(two)) => Duration(i64::try_from(one - two).map_err(|_| overflow())?),
        _ => return Err(EvaluationError::no_overload()),
    })
}

/// Two lists in one: sets take what is new, lists with keys also replace what has the same ones.
fn join(one: &[Value], two: &[Value], kind: &ListKind) -> Vec<Value> {
    let mut items = one.to_vec();
    let of_item = |item: &Value| match kind {
        ListKind::Plain => None,
        ListKind::Set => Some(identity::of(item)),
        ListKind::Keyed(keys) => Some(identity::of_fields(item, keys)),
    };
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for (place, item) in one.iter().enumerate() {
        if let Some(identity) = of_item(item) {
            places.entry(identity).or_insert(place);
        }
    }
    for item in two {
        let place = of_item(item).map_or(items.len(), |identity| *places.entry(identity).or_insert(items.len()));
        match items.get_mut(place) {
            Some(known) => *known = item.clone(),
            None => items.push(item.clone()),
        }
    }
    items
}

fn overflow() -> EvaluationError {
    EvaluationError::new("integer overflow")
}
