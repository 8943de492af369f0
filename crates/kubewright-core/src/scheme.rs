//! What the API is made of, as static data: each type with its fields, their wire names and rules.
//!
//! The tables are written by the generator from the description in `api/`. Both codecs are driven by
//! them, and so are strategic merge, server-side apply, defaulting and OpenAPI: there is one source
//! for what a field is called, which number it has and how it merges.

use crate::GroupVersionKind;
use crate::message::Message;

/// One object type of the API.
#[derive(Debug)]
pub struct TypeInfo {
    /// The name in OpenAPI, such as `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// Group, version and kind of a type that is an object of its own.
    pub kind: Option<KindInfo>,
    /// All fields, in the order in which Kubernetes writes them.
    pub fields: &'static [FieldInfo],
    /// The same fields by protobuf number.
    pub numbers: Numbers,
    /// The fields of embedded messages by number.
    pub embedded: &'static [Numbers],
    /// How server-side apply treats the type: one value (`atomic`), or field by field.
    pub atomic: bool,
    /// The field that says which member of a union is set, and the members with their names.
    pub union: Option<&'static Union>,
}

/// A type, and how to make an object of it that is empty.
pub struct TypeEntry {
    /// The table of the type.
    pub info: &'static TypeInfo,
    /// Makes an empty one.
    pub new: fn() -> Box<dyn Message>,
}

/// Group, version and kind, as static text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KindInfo {
    /// The API group, empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Group and version as written in `apiVersion`.
    pub api_version: &'static str,
}

/// A union of members of which at most one is set.
#[derive(Debug)]
pub struct Union {
    /// The field that names the member, where there is one.
    pub discriminator: Option<&'static str>,
    /// Field name and the value of the discriminator that selects it.
    pub members: &'static [(&'static str, &'static str)],
}

/// One field of a type.
#[derive(Debug)]
pub struct FieldInfo {
    /// The name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub ty: Type,
    /// How presence works.
    pub flags: Flags,
    /// Rules that few fields have.
    pub rules: &'static Rules,
}

/// What a field holds.
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
    /// Text.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A resource quantity.
    Quantity,
    /// A number or a text.
    IntOrString,
    /// A time of seconds.
    Time,
    /// A time of microseconds.
    MicroTime,
    /// Any JSON, kept as it came.
    Raw,
    /// A schema, or a list of schemas.
    SchemaOrArray,
    /// A schema, or `true` or `false`.
    SchemaOrBool,
    /// A schema, or a list of strings.
    SchemaOrStrings,
    /// An object of a known type.
    Message(&'static TypeInfo),
    /// A list.
    List(&'static Type),
    /// A map from strings.
    Map(&'static Type),
}

/// How the presence of a field works, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The field has to be there.
    pub const REQUIRED: u16 = 1;
    /// Go holds a pointer: a zero value that is present differs from an absent one.
    pub const POINTER: u16 = 2;
    /// Go writes the field even where it is empty.
    pub const ALWAYS: u16 = 4;
    /// The value must not be shown to people.
    pub const SECRET: u16 = 8;
    /// Items carry `kind` and `apiVersion` although they are nested.
    pub const TYPED: u16 = 16;
    /// The field is `managedFields` of the metadata, which caches leave out.
    pub const MANAGED_FIELDS: u16 = 64;
    /// Go leaves the field out where it is zero, although it is required or a struct.
    pub const OMIT_ZERO: u16 = 128;
    /// Each object has another text here, so that a pool of strings would gain nothing.
    pub const UNIQUE: u16 = 256;
    /// A zero value in protobuf means that the field is not set: Go writes it for fields that it holds by value,
    /// where JSON has nothing.
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

/// Rules of a field that merging, applying, defaulting and validation ask for.
#[derive(Debug)]
pub struct Rules {
    /// How a list merges when it is applied.
    pub list: ListType,
    /// The strategies of strategic merge, such as `merge` and `retainKeys`.
    pub patch: &'static [&'static str],
    /// The field that identifies an item in strategic merge.
    pub merge_key: Option<&'static str>,
    /// Whether a map is applied as one value.
    pub atomic_map: bool,
    /// The values that are allowed, or all if empty.
    pub values: &'static [&'static str],
    /// The values that items of a list are allowed, or all if empty.
    pub item_values: &'static [&'static str],
    /// The default that OpenAPI publishes, as JSON, where it is more than the zero value.
    pub default: Option<&'static str>,
}

impl Rules {
    /// No rules at all.
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

/// How a list merges when it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType {
    /// Nothing is declared, which means atomic.
    Unset,
    /// The list is one value.
    Atomic,
    /// Items are values that occur once.
    Set,
    /// Items are objects, identified by these fields.
    Map(&'static [&'static str]),
}

/// The fields of a message by their protobuf numbers: what each number from 0 on leads to.
pub type Numbers = &'static [Number];

/// What a protobuf number leads to; small, because decoding walks these tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The index of a field in [`TypeInfo::fields`]; from [`Number::EMBEDDED`] on, that of a table in
    /// [`TypeInfo::embedded`].
    pub target: u16,
    /// What decoding has to know of the field.
    pub flags: u16,
}

impl Number {
    /// A number that leads nowhere.
    pub const NONE: Number = Number { target: u16::MAX, flags: 0 };
    /// Targets from here on are messages whose fields JSON shows among those of their parent, as Go's embedded structs.
    pub const EMBEDDED: u16 = 0x100;

    /// The number of a field.
    pub const fn field(field: u16, flags: u16) -> Self {
        Number { target: field, flags }
    }

    /// The number of an embedded message.
    pub const fn embedded(table: u16) -> Self {
        Number { target: Number::EMBEDDED + table, flags: 0 }
    }

    /// The index of the table that an embedded message has in [`TypeInfo::embedded`].
    pub(crate) fn table(&self) -> Option<usize> {
        let known = self.target != Number::NONE.target;
        self.target.checked_sub(Number::EMBEDDED).filter(|_| known).map(usize::from)
    }
}

impl TypeInfo {
    /// The index of the field that JSON calls `name`.
    ///
    /// Looks from `hint` on, because sources write fields in order and the next one is mostly the
    /// one after the last.
    #[inline]
    pub(crate) fn field_index(&self, name: &[u8], hint: usize) -> Option<usize> {
        // The first byte answers mostly, without a call.
        let is = |field: &FieldInfo| {
            let wanted = field.name.as_bytes();
            wanted.len() == name.len() && wanted.first() == name.first() && wanted == name
        };
        let from = hint.min(self.fields.len());
        let (before, after) = self.fields.split_at(from);
        after.iter().position(is).map(|at| from + at).or_else(|| before.iter().position(is))
    }

    /// The field that JSON calls `name`.
    pub fn field(&self, name: &str) -> Option<&'static FieldInfo> {
        self.field_index(name.as_bytes(), 0).map(|index| &self.fields[index])
    }
}

impl Type {
    /// The type of a message, through lists and maps.
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
