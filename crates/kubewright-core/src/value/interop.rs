//! serde and serde_json conversions of values.

#[cfg(feature = "serde")]
use std::fmt;

#[cfg(any(feature = "serde", feature = "serde_json"))]
use super::Value;
#[cfg(any(feature = "serde", feature = "serde_json"))]
use crate::Str;
#[cfg(feature = "serde")]
use crate::{List, MapBuilder};

#[cfg(feature = "serde")]
impl serde_core::Serialize for Value {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::Float(value) => serializer.serialize_f64(*value),
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(items) => serializer.collect_seq(items),
            Value::Object(entries) => serializer.collect_map(entries.iter()),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Value {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

#[cfg(feature = "serde")]
struct ValueVisitor;

#[cfg(feature = "serde")]
impl<'de> serde_core::de::Visitor<'de> for ValueVisitor {
    type Value = Value;
    #[inline]
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: serde_core::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }
    fn visit_seq<A: serde_core::de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = List::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: serde_core::de::MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = MapBuilder::new();
        while let Some((key, value)) = entries.next_entry::<Str, Value>()? {
            map.insert(key, value);
        }
        Ok(Value::Object(map.finish()))
    }
}

/// Numbers beyond 64 bits become floating-point.
#[cfg(feature = "serde_json")]
impl From<serde_json::Value> for Value {
    #[inline]
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::Int(whole),
                (None, Some(float)) => Value::Float(float),
                (None, None) => Value::Null,
            },
            serde_json::Value::String(text) => Value::String(text.into()),
            serde_json::Value::Array(items) => Value::Array(items.into_iter().map(Value::from).collect()),
            serde_json::Value::Object(entries) => {
                Value::Object(entries.into_iter().map(|(key, value)| (Str::from(key), Value::from(value))).collect())
            }
        }
    }
}

/// Infinite numbers, which JSON cannot represent, become `null`.
#[cfg(feature = "serde_json")]
impl From<Value> for serde_json::Value {
    #[inline]
    fn from(value: Value) -> Self {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Int(value) => value.into(),
            Value::Float(value) => value.into(),
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => items.iter().cloned().map(serde_json::Value::from).collect(),
            Value::Object(entries) => {
                let entry = |(key, value): (&Str, &Value)| (key.as_str().to_owned(), value.clone().into());
                serde_json::Value::Object(entries.iter().map(entry).collect())
            }
        }
    }
}

#[cfg(all(test, feature = "serde_json"))]
mod tests {
    use super::*;

    #[test]
    fn serde_json_has_the_same_values() {
        let json = r#"{"a":[null,true,-7,1.5,"x",{}],"b":9223372036854775807,"c":1e300}"#;
        let (ours, theirs): (Value, serde_json::Value) = (json.parse().unwrap(), json.parse().unwrap());
        assert_eq!(serde_json::Value::from(ours.clone()), theirs);
        assert_eq!(Value::from(theirs), ours);
        assert_eq!(Value::from(serde_json::json!(u64::MAX)), Value::Float(u64::MAX as f64));
        assert_eq!(serde_json::Value::from(Value::Float(f64::NAN)), serde_json::Value::Null);
    }
}
