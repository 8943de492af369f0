//! The mutable document of a JSON patch, whose operations are cheap for any size.

use std::collections::BTreeMap;

use kubewright_core::{Str, Value};

/// A mutable value.
///
/// Unlike in a [`Value`], adding and removing keys does not move all others, and the height is
/// known without a traversal.
#[derive(Debug, Clone)]
pub(super) enum MutableValue {
    /// Neither a list nor an object.
    Scalar(Value),
    /// A list, and the maximum number of nested levels.
    Array { items: Vec<MutableValue>, height: usize },
    /// An object, and the maximum number of nested levels.
    Object { entries: BTreeMap<Str, MutableValue>, height: usize },
}

impl MutableValue {
    /// The maximum number of nested levels; 1 for a scalar.
    pub(super) fn height(&self) -> usize {
        match self {
            MutableValue::Scalar(_) => 1,
            MutableValue::Array { height, .. } | MutableValue::Object { height, .. } => *height,
        }
    }

    /// Raises the maximum number of levels to at least `least`.
    pub(super) fn raise(&mut self, least: usize) {
        match self {
            MutableValue::Scalar(_) => {}
            MutableValue::Array { height, .. } | MutableValue::Object { height, .. } => *height = least.max(*height),
        }
    }

    /// The length of the value as JSON, without escapes.
    pub(super) fn encoded_len(&self) -> usize {
        match self {
            MutableValue::Scalar(Value::String(text)) => text.len() + 2,
            MutableValue::Scalar(value) => value.to_string().len(),
            MutableValue::Array { items, .. } => 2 + items.iter().map(|item| item.encoded_len() + 1).sum::<usize>(),
            MutableValue::Object { entries, .. } => {
                2 + entries.iter().map(|(key, value)| key.len() + value.encoded_len() + 4).sum::<usize>()
            }
        }
    }

    /// Whether it equals `value`; numbers compare by value, not by notation.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (MutableValue::Scalar(scalar), value) => scalar.is_equivalent(value),
            (MutableValue::Array { items, .. }, Value::Array(others)) => {
                items.len() == others.len() && items.iter().zip(others).all(|(item, other)| item.equals(other))
            }
            (MutableValue::Object { entries, .. }, Value::Object(others)) => {
                let mut pairs = entries.iter().zip(others.iter());
                entries.len() == others.len() && pairs.all(|((a, node), (b, value))| a == b && node.equals(value))
            }
            _ => false,
        }
    }
}

impl Default for MutableValue {
    fn default() -> Self {
        MutableValue::Scalar(Value::Null)
    }
}

impl From<Value> for MutableValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => {
                let items: Vec<MutableValue> = items.into_iter().map(MutableValue::from).collect();
                let height = 1 + items.iter().map(MutableValue::height).max().unwrap_or_default();
                MutableValue::Array { items, height }
            }
            Value::Object(entries) => {
                let entries: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key, value.into())).collect();
                let height = 1 + entries.values().map(MutableValue::height).max().unwrap_or_default();
                MutableValue::Object { entries, height }
            }
            scalar => MutableValue::Scalar(scalar),
        }
    }
}

impl From<MutableValue> for Value {
    fn from(node: MutableValue) -> Self {
        match node {
            MutableValue::Scalar(value) => value,
            MutableValue::Array { items, .. } => Value::Array(items.into_iter().map(Value::from).collect()),
            MutableValue::Object { entries, .. } => {
                Value::Object(entries.into_iter().map(|(key, node)| (key, Value::from(node))).collect())
            }
        }
    }
}
