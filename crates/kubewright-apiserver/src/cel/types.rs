//! Types of expressions and of the values that come from outside.

use std::fmt;
use std::sync::Arc;

use kubewright_core::{Map, Str};

use super::words::is_word;

/// What is known of a value before it is there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// Nothing.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// A type as a value.
    Meta,
    List(Arc<Type>, ListKind),
    Map(Arc<Type>, Arc<Type>),
    /// An object with these fields, by the names that expressions use.
    Object(Arc<Map<Field>>),
    Optional(Arc<Type>),
    /// A type of a library, known by name.
    Named(&'static str),
    /// Stands for any one type within a signature.
    Variable(char),
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// Its name in the object.
    pub(crate) name: Str,
    pub(crate) ty: Type,
}

/// What makes two items of a list the same one, which decides about equality and addition of lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListKind {
    /// Their positions.
    #[default]
    Plain,
    /// Their values.
    Set,
    /// These of their fields.
    Keyed(Arc<[Str]>),
}

impl Type {
    /// A list of this.
    pub(crate) fn list(items: Type) -> Type {
        Type::List(Arc::new(items), ListKind::Plain)
    }

    /// A map from text to this.
    pub(crate) fn map(values: Type) -> Type {
        Type::Map(Arc::new(Type::String), Arc::new(values))
    }

    /// This or nothing.
    pub(crate) fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// Whether a value of one type may be one of the other.
    pub(crate) fn fits(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Variable(_), _) | (_, Type::Dyn | Type::Variable(_)) => true,
            (Type::List(one, _), Type::List(two, _)) | (Type::Optional(one), Type::Optional(two)) => one.fits(two),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                key.fits(other_key) && value.fits(other_value)
            }
            (Type::Null, Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp | Type::Named(_)) => {
                true
            }
            (Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp | Type::Named(_), Type::Null) => {
                true
            }
            (one, two) => one == two,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Duration => f.write_str("google.protobuf.Duration"),
            Type::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Type::Meta => f.write_str("type"),
            Type::List(items, _) => write!(f, "list({items})"),
            Type::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Type::Object(_) => f.write_str("object"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Named(name) => f.write_str(full_name(name)),
            Type::Variable(name) => write!(f, "{name}"),
        }
    }
}

/// The name that the real server has for a type of its libraries.
fn full_name(name: &str) -> &str {
    match name {
        "cidr" => "net.CIDR",
        "format" => "kubernetes.NamedFormat",
        "ip" => "net.IP",
        "quantity" => "kubernetes.Quantity",
        "semver" => "kubernetes.Semver",
        "url" => "kubernetes.URL",
        other => other,
    }
}

/// The name by which expressions reach a field, `None` if they cannot.
pub(crate) fn escape(name: &str) -> Option<Str> {
    if is_word(name) {
        return Some(format!("__{name}__").into());
    }
    let first = name.bytes().next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if first.is_ascii_digit() || !name.bytes().all(is_plain) {
        return None;
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let name = name.replace("__", "__underscores__").replace('.', "__dot__");
    Some(name.replace('-', "__dash__").replace('/', "__slash__").into())
}

/// The name of a field that expressions reach by this one.
pub(super) fn unescape(name: &str) -> Str {
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| is_word(word)) {
        return word.into();
    }
    if !name.contains("__") {
        return name.into();
    }
    let name = name.replace("__dot__", ".").replace("__dash__", "-").replace("__slash__", "/");
    name.replace("__underscores__", "__").into()
}
