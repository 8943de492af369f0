//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use kubewright_core::{ByteString, Quantity, Str, Value as Tree};

use super::functions::{Check, Cidr, Url, Version, parse_timestamp};
use super::identity;
use super::types::{ListKind, Type, escape};
use crate::schema::parse_duration;

/// Begins the keys of fields that an object has and its type does not know. Expressions cannot name them, but two objects are equal only
/// if these are.
const UNNAMED: char = '\0';

/// A value; copies share what is large.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Str),
    Bytes(Arc<[u8]>),
    List(Arc<[Value]>, ListKind),
    Map(Arc<BTreeMap<Key, Value>>),
    /// Nanoseconds.
    Duration(i64),
    /// Nanoseconds since 1970.
    Timestamp(i128),
    /// A type, by name.
    Type(&'static str),
    Optional(Option<Arc<Value>>),
    Quantity(Quantity),
    Ip(IpAddr),
    Cidr(Cidr),
    Url(Arc<Url>),
    Version(Arc<Version>),
    /// A named format of texts.
    Format(&'static str),
    /// A question about what somebody may do.
    Check(Arc<Check>),
    /// The answer to it.
    Decision {
        is_allowed: bool,
        reason: Str,
    },
}

/// A key of a map. Numbers are the same key whatever type they have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Str),
}

impl Value {
    /// A list of these.
    pub(crate) fn list(items: impl Into<Arc<[Value]>>) -> Value {
        Value::List(items.into(), ListKind::Plain)
    }

    /// A map from names.
    pub(crate) fn map<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (Key::String(key.into()), value)).collect()))
    }

    /// This or nothing.
    pub(crate) fn optional(value: Option<Value>) -> Value {
        Value::Optional(value.map(Arc::new))
    }

    /// A tree seen as a value of this type. What does not fit is taken for what it looks like.
    pub(crate) fn from_tree(tree: &Tree, ty: &Type) -> Value {
        match (tree, ty) {
            (Tree::Null, _) => Value::Null,
            (Tree::Bool(truth), _) => Value::Bool(*truth),
            (Tree::Int(number), Type::Double) => Value::Double(*number as f64),
            (Tree::Int(number), _) => Value::Int(*number),
            (Tree::Float(number), Type::Int) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Value::Int(*number as i64)
            }
            (Tree::Float(number), _) => Value::Double(*number),
            (Tree::String(text), ty) => Value::from_text(text, ty),
            (Tree::Array(items), Type::List(ty, kind)) => {
                Value::List(items.iter().map(|item| Value::from_tree(item, ty)).collect(), kind.clone())
            }
            (Tree::Array(items), _) => Value::list(items.iter().map(Value::of_tree).collect::<Vec<_>>()),
            (Tree::Object(fields), Type::Object(known)) => {
                let known = |name: &Str| escape(name).and_then(|name| Some((known.get(&name)?, name)));
                Value::map(fields.iter().map(|(name, value)| match known(name) {
                    Some((field, name)) => (name, Value::from_tree(value, &field.ty)),
                    None => (format!("{UNNAMED}{name}").into(), Value::of_tree(value)),
                }))
            }
            (Tree::Object(fields), Type::Map(_, ty)) => {
                Value::map(fields.iter().map(|(name, value)| (name.clone(), Value::from_tree(value, ty))))
            }
            (Tree::Object(fields), _) => {
                Value::map(fields.iter().map(|(name, value)| (name.clone(), Value::of_tree(value))))
            }
        }
    }

    /// A tree of which no types are known.
    pub(crate) fn of_tree(tree: &Tree) -> Value {
        Value::from_tree(tree, &Type::Dyn)
    }

    /// The value as a tree, `None` if there is no JSON for it.
    pub(crate) fn to_tree(&self) -> Option<Tree> {
        Some(match self {
            Value::Null => Tree::Null,
            Value::Bool(truth) => (*truth).into(),
            Value::Int(number) => (*number).into(),
            Value::Uint(number) => i64::try_from(*number).ok()?.into(),
            Value::Double(number) => Tree::Float(*number),
            Value::String(text) => text.clone().into(),
            Value::Bytes(bytes) => ByteString::from(bytes.to_vec()).to_base64().into(),
            Value::List(items, _) => Tree::from(items.iter().map(Value::to_tree).collect::<Option<Vec<Tree>>>()?),
            Value::Map(entries) => {
                let entry = |(key, value): (&Key, &Value)| match key {
                    Key::String(name) => {
                        let name = Str::from(name.strip_prefix(UNNAMED).unwrap_or(name));
                        Some((name, value.to_tree()?))
                    }
                    _ => None,
                };
                Tree::Object(entries.iter().map(entry).collect::<Option<Vec<_>>>()?.into_iter().collect())
            }
            Value::Optional(inner) => inner.as_deref().map_or(Some(Tree::Null), Value::to_tree)?,
            _ => return None,
        })
    }

    fn from_text(text: &Str, ty: &Type) -> Value {
        let typed = match ty {
            Type::Bytes => ByteString::from_base64(text.as_bytes()).ok().map(|bytes| Value::Bytes(bytes[..].into())),
            Type::Duration => parse_duration(text).map(Value::Duration),
            Type::Timestamp => match text.len() {
                10 => parse_timestamp(&format!("{text}T00:00:00Z")).map(Value::Timestamp),
                _ => parse_timestamp(text).map(Value::Timestamp),
            },
            _ => None,
        };
        typed.unwrap_or_else(|| Value::String(text.clone()))
    }

    /// The type of the value, as `type()` names it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(..) => "list",
            Value::Map(_) => "map",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Version(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Check(_) => "kubernetes.authorization.Authorizer",
            Value::Decision { .. } => "kubernetes.authorization.Decision",
        }
    }

    /// The entry of a map.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => entries.get(&Key::String(name.into())),
            _ => None,
        }
    }

    /// How much work it is to look at the whole value.
    pub(super) fn size(&self) -> usize {
        match self {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items, _) => items.len(),
            Value::Map(entries) => entries.len(),
            _ => 1,
        }
    }

    /// How two values are ordered, if they can be.
    pub(super) fn compare(&self, other: &Value) -> Option<Ordering> {
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

    /// The key of a map that this value is, if it can be one.
    pub(super) fn to_key(&self) -> Option<Key> {
        match self {
            Value::Bool(truth) => Some(Key::Bool(*truth)),
            Value::Int(number) => Some(Key::Int(*number)),
            Value::Uint(number) => Some(i64::try_from(*number).map_or(Key::Uint(*number), Key::Int)),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(Key::Int(*number as i64)),
            Value::String(text) => Some(Key::String(text.clone())),
            _ => None,
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

/// Exactly, because a rounded number would be equal to two that differ.
fn compare_with_double(whole: i128, number: f64) -> Option<Ordering> {
    let below = number.floor();
    let rest = if number > below { Ordering::Less } else { Ordering::Equal };
    (!number.is_nan()).then(|| whole.cmp(&(below as i128)).then(rest))
}

/// Equality as expressions see it: numbers by their value, values of different types never.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::List(one, kind), Value::List(two, other_kind)) => {
                let has_order = *kind == ListKind::Plain && *other_kind == ListKind::Plain;
                one.len() == two.len()
                    && match has_order {
                        true => one == two,
                        false => identity::of_set(one) == identity::of_set(two),
                    }
            }
            (Value::Map(one), Value::Map(two)) => one == two,
            (Value::Type(one), Value::Type(two)) => one == two,
            (Value::Optional(one), Value::Optional(two)) => one == two,
            (Value::Ip(one), Value::Ip(two)) => one == two,
            (Value::Cidr(one), Value::Cidr(two)) => one == two,
            (Value::Url(one), Value::Url(two)) => one == two,
            (Value::Version(one), Value::Version(two)) => one == two,
            (Value::Format(one), Value::Format(two)) => one == two,
            (Value::Check(one), Value::Check(two)) => one == two,
            (one, two) => one.compare(two) == Some(Ordering::Equal),
        }
    }
}

impl From<Key> for Value {
    fn from(key: Key) -> Value {
        match key {
            Key::Bool(truth) => Value::Bool(truth),
            Key::Int(number) => Value::Int(number),
            Key::Uint(number) => Value::Uint(number),
            Key::String(text) => Value::String(text),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}
