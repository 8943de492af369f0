//! Conversions between objects and JSON trees, for reviews with objects of any kind.

use kubewright_core::json::{Reader, Writer};
use kubewright_core::meta::v1::Status;
use kubewright_core::{DecodeError, Decoder, Object, Value};

/// The object that a tree holds.
pub(super) fn to_object<K: Object>(tree: &Value) -> Result<K, DecodeError> {
    let (text, mut decoder) = (tree.to_string(), Decoder::new());
    K::from_json(&mut Reader::new(text.as_bytes(), &mut decoder))
}

/// The tree of an object.
pub(super) fn of_object(object: &impl Object) -> Result<Value, DecodeError> {
    Value::from_json(&object.to_json())
}

/// The tree of a status.
pub(super) fn of_status(status: &Status) -> Value {
    let mut text = Vec::new();
    Writer::new(&mut text).message(status);
    Value::from_json(&text).expect("a status is written as JSON")
}
