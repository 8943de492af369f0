//! The slot for a decoded object, type-erased.
//!
//! Splitting lists and watches does not depend on the object type, so it is compiled once, in this
//! crate, and calls back for each object. Only the decoding of the object is compiled per type.

use crate::codec::decoder::{DecodeError, Decoder};
use crate::codec::json::Reader;
use crate::{GroupVersionKind, Object};

/// A slot for one object that knows how to decode it.
pub(super) trait ObjectSlot {
    fn read_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError>;

    /// `None` if the type has no protobuf format.
    fn read_protobuf(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Option<Result<(), DecodeError>>;

    /// The kind of the object, if there is one.
    fn kind(&self) -> Option<GroupVersionKind>;

    /// The kind of all objects of the type, if it is fixed.
    fn static_kind(&self) -> Option<GroupVersionKind>;

    /// Sets the kind of the object, if there is one, from its list.
    fn complete_type(&mut self, api_version: &str, kind: &str);
}

impl<T: Object> ObjectSlot for Option<T> {
    fn read_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError> {
        *self = Some(T::from_json(reader)?);
        Ok(())
    }

    fn read_protobuf(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Option<Result<(), DecodeError>> {
        Some(T::from_protobuf(bytes, decoder)?.map(|object| *self = Some(object)))
    }

    fn kind(&self) -> Option<GroupVersionKind> {
        self.as_ref().map(T::group_version_kind)
    }

    fn static_kind(&self) -> Option<GroupVersionKind> {
        T::static_kind()
    }

    fn complete_type(&mut self, api_version: &str, kind: &str) {
        if let Some(object) = self {
            object.complete_type(api_version, kind);
        }
    }
}
