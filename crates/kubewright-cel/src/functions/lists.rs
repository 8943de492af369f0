//! The list and set libraries.

use std::cmp::Ordering;

use crate::ast::BinaryOperator;
use crate::budget::Budget;
use crate::error::EvaluationError;
use crate::operators;
use crate::value::{EvaluationResult, Value};

/// Calls a method of a list.
pub(super) fn method(items: &[Value], function: &str, arguments: &[Value], budget: &mut Budget) -> EvaluationResult {
    budget.spend(items.len() as u64)?;
    match (function, arguments) {
        ("join", []) => join(items, ""),
        ("join", [Value::String(separator)]) => join(items, separator),
        ("isSorted", []) => {
            let mut sorted = true;
            for pair in items.windows(2) {
                sorted &= pair[0].compare(&pair[1]).ok_or_else(EvaluationError::no_overload)? != Ordering::Greater;
            }
            Ok(Value::Bool(sorted))
        }
        ("sum", []) => {
            let Some((first, rest)) = items.split_first() else { return Ok(Value::Int(0)) };
            rest.iter().try_fold(first.clone(), |sum, item| operators::apply(BinaryOperator::Add, &sum, item))
        }
        ("min", []) => extreme(items, Ordering::Less),
        ("max", []) => extreme(items, Ordering::Greater),
        ("indexOf", [wanted]) => Ok(position(items.iter().position(|item| item == wanted))),
        ("lastIndexOf", [wanted]) => Ok(position(items.iter().rposition(|item| item == wanted))),
        ("reverse", []) => Ok(Value::list(items.iter().rev().cloned().collect::<Vec<_>>())),
        ("distinct", []) => {
            let mut found: Vec<Value> = Vec::new();
            for item in items {
                budget.spend(1 + found.len() as u64 / 10)?;
                if !found.contains(item) {
                    found.push(item.clone());
                }
            }
            Ok(Value::list(found))
        }
        ("sort", []) => {
            let keyed = items.iter().map(|item| (item.clone(), item.clone())).collect();
            sort_by_key(keyed)
        }
        ("slice", [Value::Int(begin), Value::Int(end)]) => {
            let range = usize::try_from(*begin).ok().zip(usize::try_from(*end).ok());
            let slice = range.filter(|(begin, end)| begin <= end).and_then(|(begin, end)| items.get(begin..end));
            let wrong = || EvaluationError::new(format!("cannot slice({begin}, {end})"));
            slice.map(|slice| Value::list(slice.to_vec())).ok_or_else(wrong)
        }
        ("flatten", []) => Ok(Value::list(flatten(items, 1))),
        ("flatten", [Value::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Ok(Value::list(flatten(items, depth))),
            Err(_) => Err(EvaluationError::new("level must be non-negative")),
        },
        ("first", []) => Ok(Value::optional(items.first().cloned())),
        ("last", []) => Ok(Value::optional(items.last().cloned())),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// Sorts `(key, item)` pairs by key and returns the items. Keys need a common type with an order.
pub(crate) fn sort_by_key(mut keyed: Vec<(Value, Value)>) -> EvaluationResult {
    if keyed.windows(2).any(|pair| pair[0].0.compare(&pair[1].0).is_none()) {
        return Err(EvaluationError::no_overload());
    }
    keyed.sort_by(|(one, _), (two, _)| one.compare(two).unwrap_or(Ordering::Equal));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

/// Replaces nested lists by their items, up to `depth` levels deep.
fn flatten(items: &[Value], depth: usize) -> Vec<Value> {
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::List(inner, _) if depth > 0 => found.extend(flatten(inner, depth - 1)),
            other => found.push(other.clone()),
        }
    }
    found
}

/// Calls a function of `sets`. Compares all pairs of items, and charges for that.
pub(super) fn sets(function: &str, arguments: &[Value], budget: &mut Budget) -> EvaluationResult {
    let [Value::List(one, _), Value::List(two, _)] = arguments else { return Err(EvaluationError::no_overload()) };
    let pairs = (one.len() as u64).saturating_mul(two.len() as u64);
    budget.spend(pairs.saturating_mul(if function == "equivalent" { 2 } else { 1 }))?;
    let has_all = |one: &[Value], two: &[Value]| two.iter().all(|item| one.contains(item));
    match function {
        "contains" => Ok(Value::Bool(has_all(one, two))),
        "equivalent" => Ok(Value::Bool(has_all(one, two) && has_all(two, one))),
        "intersects" => Ok(Value::Bool(two.iter().any(|item| one.contains(item)))),
        _ => Err(EvaluationError::no_overload()),
    }
}

fn join(items: &[Value], separator: &str) -> EvaluationResult {
    let text = |item: &Value| match item {
        Value::String(text) => Ok(text.to_string()),
        _ => Err(EvaluationError::no_overload()),
    };
    let texts: Vec<String> = items.iter().map(text).collect::<Result<_, _>>()?;
    Ok(texts.join(separator).into())
}

fn extreme(items: &[Value], wanted: Ordering) -> EvaluationResult {
    let what = if wanted == Ordering::Less { "min" } else { "max" };
    let Some((first, rest)) = items.split_first() else {
        return Err(EvaluationError::new(format!("{what} called on empty list")));
    };
    let mut found = first;
    for item in rest {
        if item.compare(found).ok_or_else(EvaluationError::no_overload)? == wanted {
            found = item;
        }
    }
    Ok(found.clone())
}

fn position(found: Option<usize>) -> Value {
    Value::Int(found.map_or(-1, |at| at as i64))
}
