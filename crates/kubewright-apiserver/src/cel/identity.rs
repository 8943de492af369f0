//! What two equal values have in common: bytes, by which many values are compared without comparing each with each.

use super::types::ListKind;
use super::value::{Key, Value};

/// The bytes of a value. They are equal where the values are.
pub(super) fn of(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(value, &mut bytes);
    bytes
}

/// The bytes of some fields of a value.
pub(super) fn of_fields(value: &Value, fields: &[impl AsRef<str>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match value.field(field.as_ref()) {
            Some(field) => write(field, &mut bytes),
            None => bytes.push(0xff),
        }
    }
    bytes
}

/// The bytes of items whose order does not count, nor how often each comes.
pub(super) fn of_set(items: &[Value]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = items.iter().map(of).collect();
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
        // Numbers are the same whatever type they have. Nothing larger is an integer of another type.
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e30 => whole(*number as i128, bytes),
        Value::Double(number) => {
            bytes.push(3);
            bytes.extend(number.to_bits().to_le_bytes());
        }
        Value::String(string) => text(4, string.as_bytes(), bytes),
        Value::Bytes(string) => text(5, string, bytes),
        Value::List(items, ListKind::Plain) => {
            bytes.push(6);
            bytes.extend(items.len().to_le_bytes());
            items.iter().for_each(|item| write(item, bytes));
        }
        Value::List(items, _) => {
            let items = of_set(items);
            bytes.push(7);
            bytes.extend(items.len().to_le_bytes());
            items.iter().for_each(|item| bytes.extend(item));
        }
        Value::Map(entries) => {
            bytes.push(8);
            bytes.extend(entries.len().to_le_bytes());
            for (key, value) in entries.iter() {
                write(&Value::from(Key::clone(key)), bytes);
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
        // Equal amounts may be written differently, but none of these comes out of JSON.
        other => text(11, format!("{other:?}").as_bytes(), bytes),
    }
}
