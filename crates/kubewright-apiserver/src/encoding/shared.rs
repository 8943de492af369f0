//! Frames that many watches send.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::frame::Kind;
use crate::accept::Format;
use crate::catalog::Resource;

/// So many events back frames are found. Who is further behind encodes anew.
const REMEMBERED: usize = 64;

/// The frames of the last events, so that an event is encoded once for all who see it in the same form.
pub(crate) struct SharedFrames {
    /// Each revision has its place.
    places: Vec<Mutex<Option<Remembered>>>,
}

struct Remembered {
    revision: u64,
    kind: Kind,
    format: Format,
    /// Held, so that no other resource can be taken for it.
    resource: Arc<Resource>,
    frame: Bytes,
}

impl Default for SharedFrames {
    fn default() -> Self {
        SharedFrames { places: (0..REMEMBERED).map(|_| Mutex::new(None)).collect() }
    }
}

impl SharedFrames {
    /// The frame of the event of this revision, encoded by `encode` unless somebody has done so.
    pub(crate) fn get(
        &self,
        revision: u64,
        (kind, format): (Kind, Format),
        resource: &Arc<Resource>,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        let mut place = self.places[revision as usize % REMEMBERED].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(have) = &*place
            && (have.revision, have.kind, have.format) == (revision, kind, format)
            && Arc::ptr_eq(&have.resource, resource)
        {
            return have.frame.clone();
        }
        let frame = Bytes::from(encode());
        *place = Some(Remembered { revision, kind, format, resource: Arc::clone(resource), frame: frame.clone() });
        frame
    }
}
