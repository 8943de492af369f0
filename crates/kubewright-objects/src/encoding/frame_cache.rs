//! Shares encoded frames between watches.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::frame::FrameType;
use crate::object::StoredObject;
use kubewright_resources::accept::Format;
use kubewright_resources::catalog::Resource;

/// Number of recent events whose frames are cached. A slower watch encodes its own.
const CAPACITY: usize = 64;

/// A cache of encoded frames, so that each event is encoded once per format.
pub struct SharedFrames {
    /// One slot per revision, modulo the capacity.
    slots: Vec<Mutex<Option<CachedFrame>>>,
}

struct CachedFrame {
    /// Identifies the event: those of one transaction share a revision. Keeps the address of the
    /// object, so that no other one gets it, but not the object.
    object: Weak<StoredObject>,
    kind: FrameType,
    format: Format,
    /// Keeps the resource alive, so that no other one gets the same address.
    resource: Arc<Resource>,
    frame: Bytes,
}

impl Default for SharedFrames {
    fn default() -> Self {
        SharedFrames { slots: (0..CAPACITY).map(|_| Mutex::new(None)).collect() }
    }
}

impl SharedFrames {
    /// The frame of an event, encoded by `encode` if it is not cached.
    pub fn get(
        &self,
        (revision, object): (u64, &Arc<StoredObject>),
        (kind, format): (FrameType, Format),
        resource: &Arc<Resource>,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        let mut slot = self.slots[revision as usize % CAPACITY].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*slot
            && std::ptr::eq(cached.object.as_ptr(), Arc::as_ptr(object))
            && (cached.kind, cached.format) == (kind, format)
            && Arc::ptr_eq(&cached.resource, resource)
        {
            return cached.frame.clone();
        }
        let frame = Bytes::from(encode());
        let (object, resource) = (Arc::downgrade(object), Arc::clone(resource));
        *slot = Some(CachedFrame { object, kind, format, resource, frame: frame.clone() });
        frame
    }
}
