//! Functions of lists, also where they stand for sets.

use std::cmp::Ordering;

use super::Evaluated;
use crate::cel::budget::Budget;
use crate::cel::error::EvaluationError;
use crate::cel::operators;
use crate::cel::syntax::Operator;
use crate::cel::value::Value;

/// Calls a function of a list.
pub(super) fn method(items: &[Value], function: &str, arguments: &[Value], budget: &mut Budget) -> Evaluated {
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
            rest.iter().try_fold(first.clone(), |sum, item| operators::apply(Operator::Add, &sum, item))
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
            sorted(keyed)
        }
        ("slice", [Value::Int(begin), Value::Int(end)]) => {
            let range = usize::try_from(*begin).ok().zip(usize::try_from(*end).ok());
            let slice = range.filter(|(begin, end)| begin <= end).and_then(|(begin, end)| items.get(begin..end));
            let wrong = || EvaluationError::new(format!("cannot slice({begin}, {end})"));
            slice.map(|slice| Value::list(slice.to_vec())).ok_or_else(wrong)
        }
        ("flatten", []) => Ok(Value::list(flat(items, 1))),
        ("flatten", [Value::Int(depth)]) => match usize::try_from(*depth) {
            Ok(depth) => Ok(Value::list(flat(items, depth))),
            Err(_) => Err(EvaluationError::new("level must be non-negative")),
        },
        ("first", []) => Ok(Value::optional(items.first().cloned())),
        ("last", []) => Ok(Value::optional(items.last().cloned())),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// The items in the order of their keys, which come first, and which all have to be of one type that has an order.
pub(in crate::cel) fn sorted(mut keyed: Vec<(Value, Value)>) -> Evaluated {
    if keyed.windows(2).any(|pair| pair[0].0.compare(&pair[1].0).is_none()) {
        return Err(EvaluationError::no_overload());
    }
    keyed.sort_by(|(one, _), (two, _)| one.compare(two).unwrap_or(Ordering::Equal));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

/// The items of lists inside of the list, this deep.
fn flat(items: &[Value], depth: usize) -> Vec<Value> {
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::List(inner, _) if depth > 0 => found.extend(flat(inner, depth - 1)),
            other => found.push(other.clone()),
        }
    }
    found
}

/// Calls a function of `sets`, which compares each item of one with each of the other.
pub(super) fn sets(function: &str, arguments: &[Value], budget: &mut Budget) -> Evaluated {
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

fn join(items: &[Value], separator: &str) -> Evaluated {
    let text = |item: &Value| match item {
        Value::String(text) => Ok(text.to_string()),
        _ => Err(EvaluationError::no_overload()),
    };
    let texts: Vec<String> = items.iter().map(text).collect::<Result<_, _>>()?;
    Ok(texts.join(separator).into())
}

fn extreme(items: &[Value], wanted: Ordering) -> Evaluated {
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
