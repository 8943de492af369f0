//! Values of expressions, and their conversion from and to JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use kubewright_core::{ByteString, Quantity, Str, Value as Json};

use crate::authorization::{AuthorizationCheck, AuthorizationDecision};
use crate::cidr::Cidr;
use crate::error::EvaluationError;
use crate::identifiers::{escape_field_name, escaped_word};
use crate::string_format::parse_duration;
use crate::timestamp;
use crate::types::{ListKind, Type};
use crate::url::Url;
use crate::version::Semver;

/// Prefix of map keys for fields that the type of an object does not declare.
///
/// Expressions cannot select such fields, but equality of objects includes them.
const UNDECLARED: char = '\0';

/// The result of an evaluation.
pub(crate) type EvaluationResult = Result<Value, EvaluationError>;

/// A CEL value. Immutable; clones share large contents.
///
/// Equality is that of CEL: numbers are compared by value across types, values of other different
/// types are unequal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(Str),
    /// `bytes`.
    Bytes(Arc<[u8]>),
    /// `list`. The kind defines equality and concatenation.
    List(Arc<[Value]>, ListKind),
    /// `map`. Objects are maps whose keys are escaped field names.
    Map(Arc<BTreeMap<MapKey, Value>>),
    /// `google.protobuf.Duration` in nanoseconds.
    Duration(i64),
    /// `google.protobuf.Timestamp` in nanoseconds since 1970.
    Timestamp(i128),
    /// A type, by name.
    Type(&'static str),
    /// `optional_type`.
    Optional(Option<Arc<Value>>),
    /// `kubernetes.Quantity`.
    Quantity(Quantity),
    /// `net.IP`.
    Ip(IpAddr),
    /// `net.CIDR`.
    Cidr(Cidr),
    /// `kubernetes.URL`.
    Url(Arc<Url>),
    /// `kubernetes.Semver`.
    Semver(Arc<Semver>),
    /// `kubernetes.NamedFormat`, by name.
    Format(&'static str),
    /// The authorizer, or a check that it can answer.
    AuthorizationCheck(Arc<AuthorizationCheck>),
    /// `kubernetes.authorization.AuthorizationDecision`.
    Decision(AuthorizationDecision),
}

/// A key of a map. Integers that are equal are the same key: a `uint` key is used only above
/// `i64::MAX`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey {
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint` above `i64::MAX`.
    Uint(u64),
    /// `string`.
    String(Str),
}

impl Value {
    /// A list of the kind [`ListKind::Atomic`].
    pub fn list(items: impl Into<Arc<[Value]>>) -> Value {
        Value::List(items.into(), ListKind::Atomic)
    }

    /// A map with string keys.
    pub fn map<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (MapKey::String(key.into()), value)).collect()))
    }

    /// An optional value.
    pub fn optional(value: Option<Value>) -> Value {
        Value::Optional(value.map(Arc::new))
    }

    /// Converts JSON to a value of a declared type.
    ///
    /// Strings become timestamps, durations or bytes where the type says so. Parts that do not
    /// match their type are converted as in [`from_json`](Self::from_json).
    pub fn from_json_as(json: &Json, ty: &Type) -> Value {
        match (json, ty) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(truth), _) => Value::Bool(*truth),
            (Json::Int(number), Type::Double) => Value::Double(*number as f64),
            (Json::Int(number), _) => Value::Int(*number),
            (Json::Float(number), Type::Int) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Value::Int(*number as i64)
            }
            (Json::Float(number), _) => Value::Double(*number),
            (Json::String(text), ty) => Value::from_text(text, ty),
            (Json::Array(items), Type::List(ty, kind)) => {
                Value::List(items.iter().map(|item| Value::from_json_as(item, ty)).collect(), kind.clone())
            }
            (Json::Array(items), _) => Value::list(items.iter().map(Value::from_json).collect::<Vec<_>>()),
            (Json::Object(fields), Type::Object(types)) => {
                let declared = |name: &Str| escape_field_name(name).and_then(|name| Some((types.get(&name)?, name)));
                Value::map(fields.iter().map(|(name, value)| match declared(name) {
                    Some((field, name)) => (name, Value::from_json_as(value, &field.ty)),
                    None => (format!("{UNDECLARED}{name}").into(), Value::from_json(value)),
                }))
            }
            (Json::Object(fields), Type::Map(_, ty)) => {
                Value::map(fields.iter().map(|(name, value)| (name.clone(), Value::from_json_as(value, ty))))
            }
            (Json::Object(fields), _) => {
                Value::map(fields.iter().map(|(name, value)| (name.clone(), Value::from_json(value))))
            }
        }
    }

    /// Converts JSON without type information.
    pub fn from_json(json: &Json) -> Value {
        Value::from_json_as(json, &Type::Dyn)
    }

    /// The value as JSON, `None` if it has no JSON representation.
    pub fn to_json(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(truth) => (*truth).into(),
            Value::Int(number) => (*number).into(),
            Value::Uint(number) => i64::try_from(*number).ok()?.into(),
            Value::Double(number) => Json::Float(*number),
            Value::String(text) => text.clone().into(),
            Value::Bytes(bytes) => ByteString::from(bytes.to_vec()).to_base64().into(),
            Value::List(items, _) => Json::from(items.iter().map(Value::to_json).collect::<Option<Vec<Json>>>()?),
            Value::Map(entries) => {
                let entry = |(key, value): (&MapKey, &Value)| match key {
                    MapKey::String(name) => {
                        let name = Str::from(name.strip_prefix(UNDECLARED).unwrap_or(name));
                        Some((name, value.to_json()?))
                    }
                    _ => None,
                };
                Json::Object(entries.iter().map(entry).collect::<Option<Vec<_>>>()?.into_iter().collect())
            }
            Value::Optional(inner) => inner.as_deref().map_or(Some(Json::Null), Value::to_json)?,
            _ => return None,
        })
    }

    fn from_text(text: &Str, ty: &Type) -> Value {
        let typed = match ty {
            Type::Bytes => ByteString::from_base64(text.as_bytes()).ok().map(|bytes| Value::Bytes(bytes[..].into())),
            Type::Duration => parse_duration(text).map(Value::Duration),
            Type::Timestamp => match text.len() {
                10 => timestamp::parse(&format!("{text}T00:00:00Z")).map(Value::Timestamp),
                _ => timestamp::parse(text).map(Value::Timestamp),
            },
            _ => None,
        };
        typed.unwrap_or_else(|| Value::String(text.clone()))
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
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
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::AuthorizationCheck(_) => "kubernetes.authorization.Authorizer",
            Value::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    /// The entry of a map with this string key.
    pub fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => entries.get(&MapKey::String(name.into())),
            _ => None,
        }
    }

    /// The field of an object or the entry of a map that an expression selects.
    pub(crate) fn selected(&self, name: &str) -> Option<&Value> {
        self.field(name).or_else(|| self.field(&escaped_word(name)?))
    }

    /// The number of characters or items, for cost accounting.
    pub(crate) fn size(&self) -> usize {
        match self {
            Value::String(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items, _) => items.len(),
            Value::Map(entries) => entries.len(),
            _ => 1,
        }
    }

    /// The number of characters and items including those of nested values, up to about `limit`.
    ///
    /// A value that is shared counts at each place: a few expressions can nest a list in itself so
    /// often that no computer could visit every item.
    pub(crate) fn nested_size(&self, limit: usize) -> usize {
        let (mut total, mut pending) = (0_usize, vec![self]);
        while let Some(value) = pending.pop().filter(|_| total <= limit) {
            total = total.saturating_add(value.size().max(1));
            match value {
                // More items than the limit are in `total` already.
                Value::List(items, _) if total <= limit => pending.extend(items.iter()),
                Value::Map(entries) if total <= limit => pending.extend(entries.values()),
                Value::Optional(Some(inner)) => pending.push(&**inner),
                _ => {}
            }
        }
        total
    }

    /// The map key that is equal to the value, `None` if its type cannot be a key.
    pub(crate) fn to_key(&self) -> Option<MapKey> {
        match self {
            Value::Bool(truth) => Some(MapKey::Bool(*truth)),
            Value::Int(number) => Some(MapKey::Int(*number)),
            Value::Uint(number) => Some(i64::try_from(*number).map_or(MapKey::Uint(*number), MapKey::Int)),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(MapKey::Int(*number as i64)),
            Value::String(text) => Some(MapKey::String(text.clone())),
            _ => None,
        }
    }
}

impl From<MapKey> for Value {
    fn from(key: MapKey) -> Value {
        match key {
            MapKey::Bool(truth) => Value::Bool(truth),
            MapKey::Int(number) => Value::Int(number),
            MapKey::Uint(number) => Value::Uint(number),
            MapKey::String(text) => Value::String(text),
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
