//! What the type of an object says about merging its fields.

use crate::patch::PatchError;
use crate::quote::Quoted;
use crate::scheme::{FieldInfo, Type, TypeInfo};

/// What a place in the object is declared as.
#[derive(Debug, Clone, Copy)]
pub(super) enum Schema {
    /// An object with known fields.
    Object(&'static TypeInfo),
    /// Anything else, by the word that Go has for it.
    Other(&'static str),
}

impl Schema {
    /// The field that JSON calls `name`.
    #[inline]
    pub(super) fn field(self, name: &str) -> Result<Field, PatchError> {
        match self {
            Schema::Object(info) => info.field(name).map(Field).ok_or_else(|| {
                let ty = info.name.rsplit('.').next().unwrap_or_default();
                let name = Quoted(name);
                PatchError::unmergeable(format_args!(
                    "unable to find api field in struct {ty} for the json field {name}"
                ))
            }),
            Schema::Other(kind) => Err(PatchError::unmergeable(format_args!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field(&'static FieldInfo);

impl Field {
    /// How it merges, `retainKeys` aside: that one only tells clients to send the directive.
    #[inline]
    pub(super) fn strategy(self) -> Option<&'static str> {
        self.0.rules.patch.iter().copied().find(|strategy| *strategy != "retainKeys")
    }

    /// The field that identifies an item of it.
    #[inline]
    pub(super) fn merge_key(self) -> Option<&'static str> {
        self.0.rules.merge_key
    }

    /// What it holds.
    #[inline]
    pub(super) fn schema(self) -> Schema {
        schema_of(&self.0.ty)
    }

    /// What its items are.
    #[inline]
    pub(super) fn item_schema(self) -> Result<Schema, PatchError> {
        match self.0.ty {
            Type::List(Type::List(_)) => Err(PatchError::unmergeable("unexpected slice of slice")),
            Type::List(item) => Ok(schema_of(item)),
            // Raw JSON is bytes to Go, which are a list of numbers.
            Type::Bytes | Type::Raw => Ok(Schema::Other("uint8")),
            _ => Err(PatchError::unmergeable("expected slice or array type, but got: struct")),
        }
    }
}

#[inline]
fn schema_of(ty: &'static Type) -> Schema {
    match ty {
        Type::Message(info) => Schema::Object(info),
        Type::Map(_) => Schema::Other("map"),
        Type::List(_) | Type::Bytes | Type::Raw => Schema::Other("slice"),
        Type::Bool => Schema::Other("bool"),
        Type::Int32 | Type::Int64 | Type::Double => Schema::Other("number"),
        Type::String => Schema::Other("string"),
        _ => Schema::Other("struct"),
    }
}
