//! The mutable document of a JSON patch, whose operations are cheap for any size.

use std::collections::BTreeMap;

use kubewright_core::{Str, Value};

/// A mutable value.
///
/// Unlike in a [`Value`], adding and removing keys does not move all others, and the height is
/// known without a traversal.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Neither a list nor an object.
    Scalar(Value),
    /// A list, and the maximum number of nested levels.
    Array { items: Vec<Node>, height: usize },
    /// An object, and the maximum number of nested levels.
    Object { entries: BTreeMap<Str, Node>, height: usize },
}

impl Node {
    /// The maximum number of nested levels; 1 for a scalar.
    pub(super) fn height(&self) -> usize {
        match self {
            Node::Scalar(_) => 1,
            Node::Array { height, .. } | Node::Object { height, .. } => *height,
        }
    }

    /// Raises the maximum number of levels to at least `least`.
    pub(super) fn raise(&mut self, least: usize) {
        match self {
            Node::Scalar(_) => {}
            Node::Array { height, .. } | Node::Object { height, .. } => *height = least.max(*height),
        }
    }

    /// The length of the value as JSON, without escapes.
    pub(super) fn encoded_len(&self) -> usize {
        match self {
            Node::Scalar(Value::String(text)) => text.len() + 2,
            Node::Scalar(value) => value.to_string().len(),
            Node::Array { items, .. } => 2 + items.iter().map(|item| item.encoded_len() + 1).sum::<usize>(),
            Node::Object { entries, .. } => {
                2 + entries.iter().map(|(key, value)| key.len() + value.encoded_len() + 4).sum::<usize>()
            }
        }
    }

    /// Whether it equals `value`; numbers compare by value, not by notation.
    pub(super) fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Node::Scalar(scalar), value) => scalar.is_equivalent(value),
            (Node::Array { items, .. }, Value::Array(others)) => {
                items.len() == others.len() && items.iter().zip(others).all(|(item, other)| item.equals(other))
            }
            (Node::Object { entries, .. }, Value::Object(others)) => {
                let mut pairs = entries.iter().zip(others.iter());
                entries.len() == others.len() && pairs.all(|((a, node), (b, value))| a == b && node.equals(value))
            }
            _ => false,
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Node::Scalar(Value::Null)
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => {
                let items: Vec<Node> = items.into_iter().map(Node::from).collect();
                let height = 1 + items.iter().map(Node::height).max().unwrap_or_default();
                Node::Array { items, height }
            }
            Value::Object(entries) => {
                let entries: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key, value.into())).collect();
                let height = 1 + entries.values().map(Node::height).max().unwrap_or_default();
                Node::Object { entries, height }
            }
            scalar => Node::Scalar(scalar),
        }
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node {
            Node::Scalar(value) => value,
            Node::Array { items, .. } => Value::Array(items.into_iter().map(Value::from).collect()),
            Node::Object { entries, .. } => {
                Value::Object(entries.into_iter().map(|(key, node)| (key, Value::from(node))).collect())
            }
        }
    }
}
