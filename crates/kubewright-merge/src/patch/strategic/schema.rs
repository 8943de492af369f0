//! Merge rules of types.

use crate::patch::error::PatchError;
use kubewright_core::quote::Quoted;
use kubewright_core::scheme::{FieldInfo, Type, TypeInfo};

/// The declared type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum PatchSchema {
    /// An object with known fields.
    Object(&'static TypeInfo),
    /// Anything else, by its Go kind.
    Other(&'static str),
}

impl PatchSchema {
    /// The field with this JSON name.
    #[inline]
    pub(super) fn field(self, name: &str) -> Result<SchemaField, PatchError> {
        match self {
            PatchSchema::Object(info) => info.field(name).map(SchemaField).ok_or_else(|| {
                let ty = info.name.rsplit('.').next().unwrap_or_default();
                let name = Quoted(name);
                PatchError::unmergeable(format_args!(
                    "unable to find api field in struct {ty} for the json field {name}"
                ))
            }),
            PatchSchema::Other(kind) => Err(PatchError::unmergeable(format_args!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaField(&'static FieldInfo);

impl SchemaField {
    /// The merge strategy without `retainKeys`, which only tells clients to send the directive.
    #[inline]
    pub(super) fn strategy(self) -> Option<&'static str> {
        self.0.rules.patch.iter().copied().find(|strategy| *strategy != "retainKeys")
    }

    /// The merge key of its items.
    #[inline]
    pub(super) fn merge_key(self) -> Option<&'static str> {
        self.0.rules.merge_key
    }

    /// The schema of its value.
    #[inline]
    pub(super) fn schema(self) -> PatchSchema {
        schema_of(&self.0.ty)
    }

    /// The schema of its items.
    #[inline]
    pub(super) fn item_schema(self) -> Result<PatchSchema, PatchError> {
        match self.0.ty {
            Type::List(Type::List(_)) => Err(PatchError::unmergeable("unexpected slice of slice")),
            Type::List(item) => Ok(schema_of(item)),
            // Raw JSON is a byte slice in Go, that is, a list of numbers.
            Type::Bytes | Type::Raw => Ok(PatchSchema::Other("uint8")),
            _ => Err(PatchError::unmergeable("expected slice or array type, but got: struct")),
        }
    }
}

#[inline]
fn schema_of(ty: &'static Type) -> PatchSchema {
    match ty {
        Type::Message(info) => PatchSchema::Object(info),
        Type::Map(_) => PatchSchema::Other("map"),
        Type::List(_) | Type::Bytes | Type::Raw => PatchSchema::Other("slice"),
        Type::Bool => PatchSchema::Other("bool"),
        Type::Int32 | Type::Int64 | Type::Double => PatchSchema::Other("number"),
        Type::String => PatchSchema::Other("string"),
        _ => PatchSchema::Other("struct"),
    }
}
