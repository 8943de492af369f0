//! The API as static data: types, fields, wire names and rules.
//!
//! The generator writes the tables from the description in `api/`. They drive both codecs,
//! strategic merge, server-side apply, defaulting and OpenAPI: the name, number and merge rule of a
//! field have a single source.

use crate::GroupVersionKind;

/// An API type.
#[derive(Debug)]
pub struct TypeInfo {
    /// The name in OpenAPI, such as `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// Group, version and kind, if the type is a top-level object.
    pub kind: Option<KindInfo>,
    /// All fields, in the order in which Kubernetes writes them.
    pub fields: &'static [FieldInfo],
    /// The same fields by protobuf number.
    pub numbers: Numbers,
    /// The fields of embedded messages by number.
    pub embedded: &'static [Numbers],
    /// Whether server-side apply treats the type as atomic.
    pub atomic: bool,
    /// The union of the type, if it has one.
    pub union: Option<&'static Union>,
}

/// Group, version and kind as static strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindInfo {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Group and version as written in `apiVersion`.
    pub api_version: &'static str,
}

/// A union: at most one member is set.
#[derive(Debug)]
pub struct Union {
    /// The discriminator field, if there is one.
    pub discriminator: Option<&'static str>,
    /// Field names with their discriminator values.
    pub members: &'static [(&'static str, &'static str)],
}

/// A field of a type.
#[derive(Debug)]
pub struct FieldInfo {
    /// The JSON name.
    pub name: &'static str,
    /// Its type.
    pub ty: Type,
    /// Presence semantics.
    pub flags: Flags,
    /// Rules that few fields have.
    pub rules: &'static Rules,
}

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Double,
    /// A string.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A resource quantity.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// A time with second precision.
    Time,
    /// A time with microsecond precision.
    MicroTime,
    /// Any JSON, kept as text.
    Raw,
    /// A schema, or a list of schemas.
    SchemaOrArray,
    /// A schema or a boolean.
    SchemaOrBool,
    /// A schema, or a list of strings.
    SchemaOrStrings,
    /// An object of this type.
    Message(&'static TypeInfo),
    /// A list.
    List(&'static Type),
    /// A map with string keys.
    Map(&'static Type),
}

/// Presence semantics of a field, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The field is required.
    pub const REQUIRED: u16 = 1;
    /// Go holds a pointer: a present zero value differs from an absent one.
    pub const POINTER: u16 = 2;
    /// Go writes the field even if it is empty.
    pub const ALWAYS: u16 = 4;
    /// The value must not be printed.
    pub const SECRET: u16 = 8;
    /// Items carry `kind` and `apiVersion` although they are nested.
    pub const TYPED: u16 = 16;
    /// The field is `metadata.managedFields`, which caches skip.
    pub const MANAGED_FIELDS: u16 = 64;
    /// Go omits a zero value, although the field is required or a struct.
    pub const OMIT_ZERO: u16 = 128;
    /// Values differ between objects, so interning them is useless.
    pub const UNIQUE: u16 = 256;
    /// A zero value in protobuf means that the field is not set: Go writes it for fields held by
    /// value that JSON omits.
    pub const ABSENT_IF_ZERO: u16 = 512;
    /// Protobuf repeats the field for each item.
    pub const REPEATED: u16 = 1024;
    /// OpenAPI publishes no default, although the field is held by value.
    pub const NO_DEFAULT: u16 = 32;

    /// Whether `bit` is set.
    pub const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }
}

/// Rules of a field for merging, applying, defaulting and validation.
#[derive(Debug)]
pub struct Rules {
    /// The list type for server-side apply.
    pub list: ListType,
    /// The patch strategies of strategic merge, such as `merge` and `retainKeys`.
    pub patch: &'static [&'static str],
    /// The merge key of strategic merge.
    pub merge_key: Option<&'static str>,
    /// Whether a map is atomic for server-side apply.
    pub atomic_map: bool,
    /// Allowed values; all if empty.
    pub values: &'static [&'static str],
    /// Allowed values of list items; all if empty.
    pub item_values: &'static [&'static str],
    /// The default that OpenAPI publishes, as JSON, if it is not the zero value.
    pub default: Option<&'static str>,
}

impl Rules {
    /// No rules.
    pub const NONE: Rules = Rules {
        list: ListType::Unset,
        patch: &[],
        merge_key: None,
        atomic_map: false,
        values: &[],
        item_values: &[],
        default: None,
    };
}

/// The list type for server-side apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Not declared, which means atomic.
    Unset,
    /// Atomic.
    Atomic,
    /// A set of scalars.
    Set,
    /// An associative list of objects with these keys.
    Map(&'static [&'static str]),
}

/// The fields of a message, indexed by protobuf number.
pub type Numbers = &'static [Number];

/// The target of a protobuf number; small, because the decoder reads these tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The index of a field in [`TypeInfo::fields`]; from [`Number::EMBEDDED`] on, the index of a
    /// table in
    /// [`TypeInfo::embedded`].
    pub target: u16,
    /// Flags of the field for decoding.
    pub flags: u16,
}

impl Number {
    /// An unused number.
    pub const NONE: Number = Number { target: u16::MAX, flags: 0 };
    /// Targets from here on are messages whose fields are inlined in JSON, as Go's embedded
    /// structs.
    pub const EMBEDDED: u16 = 0x100;

    /// The number of a field.
    pub const fn field(field: u16, flags: u16) -> Self {
        Number { target: field, flags }
    }

    /// The number of an embedded message.
    pub const fn embedded(table: u16) -> Self {
        Number { target: Number::EMBEDDED + table, flags: 0 }
    }

    /// The index of an embedded message's table in [`TypeInfo::embedded`].
    pub(crate) fn table(&self) -> Option<usize> {
        let known = self.target != Number::NONE.target;
        self.target.checked_sub(Number::EMBEDDED).filter(|_| known).map(usize::from)
    }
}

impl TypeInfo {
    /// The index of the field with this JSON name.
    ///
    /// The search starts at `hint`, because most inputs have fields in order.
    #[inline]
    pub(crate) fn field_index(&self, name: &[u8], hint: usize) -> Option<usize> {
        // The first byte usually decides, without a call.
        let is = |field: &FieldInfo| {
            let wanted = field.name.as_bytes();
            wanted.len() == name.len() && wanted.first() == name.first() && wanted == name
        };
        let from = hint.min(self.fields.len());
        let (before, after) = self.fields.split_at(from);
        after.iter().position(is).map(|at| from + at).or_else(|| before.iter().position(is))
    }

    /// The field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&'static FieldInfo> {
        self.field_index(name.as_bytes(), 0).map(|index| &self.fields[index])
    }
}

impl Type {
    /// The message type, unwrapping lists and maps.
    pub fn message(&self) -> Option<&'static TypeInfo> {
        match self {
            Type::Message(info) => Some(info),
            Type::List(item) | Type::Map(item) => item.message(),
            _ => None,
        }
    }
}

impl From<&KindInfo> for GroupVersionKind {
    fn from(info: &KindInfo) -> Self {
        GroupVersionKind::from_static(info.group, info.version, info.kind)
    }
}
