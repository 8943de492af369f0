//! Where decoders put an object whose type they do not know.
//!
//! How lists and watches are taken apart has nothing to do with the type of what is in them. So that is compiled once, in this
//! crate, and calls back for each object; only the object's own decoding is compiled for its type.

use crate::decode::{DecodeError, Decoder};
use crate::json::Reader;
use crate::{GroupVersionKind, Object};

/// A place for one object, which knows how to read it.
pub(super) trait Slot {
    fn read_json(&mut self, reader: &mut Reader<'_, '_>) -> Result<(), DecodeError>;

    /// `None` if the type has no such form.
    fn read_protobuf(&mut self, bytes: &[u8], decoder: &mut Decoder) -> Option<Result<(), DecodeError>>;

    /// The kind of the object, if there is one.
    fn kind(&self) -> Option<GroupVersionKind>;

    /// The kind that every object of the type has, if the type has one.
    fn static_kind(&self) -> Option<GroupVersionKind>;

    /// Tells the object, if there is one, the type of those in its list.
    fn complete_type(&mut self, api_version: &str, kind: &str);
}

impl<T: Object> Slot for Option<T> {
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
