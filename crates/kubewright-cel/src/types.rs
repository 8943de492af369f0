//! Types of expressions.

use std::fmt;
use std::sync::Arc;

use kubewright_core::{Map, Str};

use crate::identifiers::escape_field_name;

/// The static type of an expression or of a variable.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Type {
    /// Unknown at compile time: every operation is allowed and checked during evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`: 64 bits.
    Int,
    /// `uint`: 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// `google.protobuf.Duration`.
    Duration,
    /// `google.protobuf.Timestamp`.
    Timestamp,
    /// The type of types, such as of `int` or of an object type that can be constructed.
    Type,
    /// A list of items of one type.
    List(Arc<Type>, ListKind),
    /// A map from keys to values.
    Map(Arc<Type>, Arc<Type>),
    /// An object with these fields, by their escaped names.
    Object(Arc<Map<Field>>),
    /// `optional_type`.
    Optional(Arc<Type>),
    /// A type of a library: `authorizer`, `cidr`, `format`, `ip`, `quantity`, `semver` or `url`.
    Opaque(&'static str),
    /// A type parameter in the signature of a function.
    Parameter(char),
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in the object, unescaped.
    pub name: Str,
    /// The type of its value.
    pub ty: Type,
}

/// The list type of Kubernetes, which defines equality and concatenation of lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListKind {
    /// `atomic`: items are compared in order, and concatenation appends.
    #[default]
    Atomic,
    /// `set`: order is irrelevant, and concatenation is the union.
    Set,
    /// `map`: items are identified by these fields, and concatenation replaces items of equal keys.
    Map(Arc<[Str]>),
}

impl Type {
    /// A list with items of this type.
    pub fn list(items: Type) -> Type {
        Type::List(Arc::new(items), ListKind::Atomic)
    }

    /// A map from strings to values of this type.
    pub fn map(values: Type) -> Type {
        Type::Map(Arc::new(Type::String), Arc::new(values))
    }

    /// An optional value of this type.
    pub fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// An object with these fields, given by their unescaped names.
    ///
    /// Fields whose names cannot be escaped are left out: expressions cannot select them.
    pub fn object<N: Into<Str>>(fields: impl IntoIterator<Item = (N, Type)>) -> Type {
        let fields = fields.into_iter().filter_map(|(name, ty)| {
            let name = name.into();
            Some((escape_field_name(&name)?, Field { name, ty }))
        });
        Type::Object(Arc::new(fields.collect()))
    }

    /// Whether a value of one type may be used as the other. Symmetric.
    pub fn is_compatible(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Dyn | Type::Parameter(_), _) | (_, Type::Dyn | Type::Parameter(_)) => true,
            (Type::List(one, _), Type::List(two, _)) | (Type::Optional(one), Type::Optional(two)) => {
                one.is_compatible(two)
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                key.is_compatible(other_key) && value.is_compatible(other_value)
            }
            (Type::Null, Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp | Type::Opaque(_)) => {
                true
            }
            (Type::Object(_) | Type::Optional(_) | Type::Duration | Type::Timestamp | Type::Opaque(_), Type::Null) => {
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
            Type::Type => f.write_str("type"),
            Type::List(items, _) => write!(f, "list({items})"),
            Type::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Type::Object(_) => f.write_str("object"),
            Type::Optional(inner) => write!(f, "optional_type({inner})"),
            Type::Opaque(name) => f.write_str(full_name(name)),
            Type::Parameter(name) => write!(f, "{name}"),
        }
    }
}

/// The qualified name of a library type in messages.
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
