//! Equality and order of values.
//!
//! Sets and keyed lists are compared by a canonical encoding: equal values have equal bytes, so
//! that many values are compared by sorting or hashing instead of pairwise.

use std::cmp::Ordering;

use crate::types::ListKind;
use crate::value::{MapKey, Value};

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::List(one, kind), Value::List(two, other_kind)) => {
                let has_order = *kind == ListKind::Atomic && *other_kind == ListKind::Atomic;
                one.len() == two.len() && if has_order { one == two } else { encode_set(one) == encode_set(two) }
            }
            (Value::Map(one), Value::Map(two)) => one == two,
            (Value::Type(one), Value::Type(two)) => one == two,
            (Value::Optional(one), Value::Optional(two)) => one == two,
            (Value::Ip(one), Value::Ip(two)) => one == two,
            (Value::Cidr(one), Value::Cidr(two)) => one == two,
            (Value::Url(one), Value::Url(two)) => one == two,
            (Value::Semver(one), Value::Semver(two)) => one == two,
            (Value::Format(one), Value::Format(two)) => one == two,
            (Value::AuthorizationCheck(one), Value::AuthorizationCheck(two)) => one == two,
            (one, two) => one.compare(two) == Some(Ordering::Equal),
        }
    }
}

impl Value {
    /// The order of two values, `None` if their types cannot be ordered.
    pub(crate) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(one), Value::Bool(two)) => Some(one.cmp(two)),
            (Value::String(one), Value::String(two)) => Some(one.cmp(two)),
            (Value::Bytes(one), Value::Bytes(two)) => Some(one.cmp(two)),
            (Value::Duration(one), Value::Duration(two)) => Some(one.cmp(two)),
            (Value::Timestamp(one), Value::Timestamp(two)) => Some(one.cmp(two)),
            (Value::Quantity(one), Value::Quantity(two)) => Some(one.cmp(two)),
            (one, two) => compare_numbers(one, two),
        }
    }
}

fn compare_numbers(one: &Value, two: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    let double = |value: &Value| match value {
        Value::Double(number) => Some(*number),
        _ => None,
    };
    match (whole(one), whole(two)) {
        (Some(one), Some(two)) => Some(one.cmp(&two)),
        (Some(one), None) => compare_with_double(one, double(two)?),
        (None, Some(two)) => compare_with_double(two, double(one)?).map(Ordering::reverse),
        (None, None) => double(one)?.partial_cmp(&double(two)?),
    }
}

/// Compares exactly: converting the integer to a float would round it.
fn compare_with_double(whole: i128, number: f64) -> Option<Ordering> {
    let below = number.floor();
    let rest = if number > below { Ordering::Less } else { Ordering::Equal };
    (!number.is_nan()).then(|| whole.cmp(&(below as i128)).then(rest))
}

/// The canonical encoding of a value.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(value, &mut bytes);
    bytes
}

/// The canonical encoding of some fields of a value.
pub(crate) fn encode_fields(value: &Value, fields: &[impl AsRef<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match value.field(field.as_ref()) {
            Some(field) => write(field, &mut bytes),
            None => bytes.push(0xff),
        }
    }
    bytes
}

/// The canonical encoding of a set: sorted, without duplicates.
fn encode_set(items: &[Value]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = items.iter().map(encode).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn write(value: &Value, bytes: &mut Vec<u8>) {
    let whole = |number: i128, bytes: &mut Vec<u8>| {
        bytes.push(2);
        bytes.extend(number.to_le_bytes());
    };
    let text = |kind: u8, text: &[u8], bytes: &mut Vec<u8>| {
        bytes.push(kind);
        bytes.extend(text.len().to_le_bytes());
        bytes.extend(text);
    };
    match value {
        Value::Null => bytes.push(0),
        Value::Bool(truth) => bytes.extend([1, u8::from(*truth)]),
        Value::Int(number) => whole((*number).into(), bytes),
        Value::Uint(number) => whole((*number).into(), bytes),
        // Equal numbers of different types have one encoding. Larger doubles equal no integer.
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e30 => whole(*number as i128, bytes),
        Value::Double(number) => {
            bytes.push(3);
            bytes.extend(number.to_bits().to_le_bytes());
        }
        Value::String(string) => text(4, string.as_bytes(), bytes),
        Value::Bytes(string) => text(5, string, bytes),
        Value::List(items, ListKind::Atomic) => {
            bytes.push(6);
            bytes.extend(items.len().to_le_bytes());
            items.iter().for_each(|item| write(item, bytes));
        }
        Value::List(items, _) => {
            let items = encode_set(items);
            bytes.push(7);
            bytes.extend(items.len().to_le_bytes());
            items.iter().for_each(|item| bytes.extend(item));
        }
        Value::Map(entries) => {
            bytes.push(8);
            bytes.extend(entries.len().to_le_bytes());
            for (key, value) in entries.iter() {
                write(&Value::from(MapKey::clone(key)), bytes);
                write(value, bytes);
            }
        }
        Value::Duration(nanos) => {
            bytes.push(9);
            bytes.extend(nanos.to_le_bytes());
        }
        Value::Timestamp(nanos) => {
            bytes.push(10);
            bytes.extend(nanos.to_le_bytes());
        }
        // Equal quantities may differ here, but no JSON value has one of these types.
        other => text(11, format!("{other:?}").as_bytes(), bytes),
    }
}
