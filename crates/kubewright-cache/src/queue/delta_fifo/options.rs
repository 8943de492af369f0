//! Options of a `DeltaFifo`.

use std::fmt;
use std::sync::Arc;

use kubewright_core::Object;

use super::super::{KnownObjects, SharedTransform, Transform, erase_transform};

/// Options of a `DeltaFifo`.
pub struct DeltaFifoOptions<T: ?Sized> {
    pub(super) known_objects: Option<Arc<dyn KnownObjects<T>>>,
    pub(super) emit_replaced: bool,
    pub(super) emit_bookmarks: bool,
    pub(super) transform: Option<SharedTransform<T>>,
}

impl<T: ?Sized> Default for DeltaFifoOptions<T> {
    fn default() -> Self {
        DeltaFifoOptions { known_objects: None, emit_replaced: false, emit_bookmarks: false, transform: None }
    }
}

impl<T: ?Sized> DeltaFifoOptions<T> {
    /// The consumer's store. It supplies the objects that a list no longer contains, and the
    /// objects to resync. None by default.
    #[must_use]
    pub fn known_objects(self, known: impl KnownObjects<T>) -> Self {
        self.known(Arc::new(known))
    }

    pub(crate) fn known(mut self, known: Arc<dyn KnownObjects<T>>) -> Self {
        self.known_objects = Some(known);
        self
    }

    /// Lists produce `Delta::Replaced` instead of `Delta::Sync`. Off by default; informers
    /// enable it.
    #[must_use]
    #[doc(alias = "EmitDeltaTypeReplaced")]
    pub fn emit_replaced(mut self) -> Self {
        self.emit_replaced = true;
        self
    }

    /// Also pops bookmarks, and one after each list, so that the consumer knows its version.
    pub(crate) fn emit_bookmarks(mut self) -> Self {
        self.emit_bookmarks = true;
        self
    }

    /// Transforms each object once, when it is added. None by default.
    #[must_use]
    pub fn transform(mut self, transform: Transform<T>) -> Self
    where
        T: Object,
    {
        self.transform = Some(erase_transform(transform));
        self
    }
}

impl<T: ?Sized> fmt::Debug for DeltaFifoOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifoOptions").field("emit_replaced", &self.emit_replaced).finish_non_exhaustive()
    }
}
