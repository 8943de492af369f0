//! What handlers are told.

use std::sync::Arc;

use kubewright_core::{Object, ObjectKey};

use crate::Deleted;

/// Something that happened to an object, as seen from the cache.
///
/// Which of the three it is follows from what the cache had before, not from what the server called it.
#[derive(Debug)]
#[doc(alias = "ResourceEventHandler")]
pub enum Event<T> {
    /// The cache did not have it.
    #[doc(alias = "OnAdd")]
    Added {
        /// The object.
        object: Arc<T>,
        /// Whether it was there when the handler, or the informer, began.
        is_in_initial_list: bool,
    },
    /// The cache had it in another state, or in the same one if this is a reminder.
    #[doc(alias = "OnUpdate")]
    Updated {
        /// What the cache had.
        old: Arc<T>,
        /// What it has now.
        new: Arc<T>,
    },
    /// The cache no longer has it.
    #[doc(alias = "OnDelete")]
    Deleted(Deleted<T>),
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Event::Added { object, is_in_initial_list } => {
                Event::Added { object: object.clone(), is_in_initial_list: *is_in_initial_list }
            }
            Event::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Event::Deleted(deleted) => Event::Deleted(deleted.clone()),
        }
    }
}

impl<T: Object> Event<T> {
    /// The key of the object.
    pub fn key(&self) -> ObjectKey {
        match self {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => object.key(),
            Event::Deleted(deleted) => deleted.key(),
        }
    }

    /// The newest state that is known of the object.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => Some(object),
            Event::Deleted(deleted) => deleted.object(),
        }
    }

    /// Whether it is a reminder of an object that has not changed.
    pub fn is_reminder(&self) -> bool {
        match self {
            Event::Updated { old, new } => {
                Arc::ptr_eq(old, new)
                    || !new.resource_version().is_empty() && old.resource_version() == new.resource_version()
            }
            _ => false,
        }
    }
}
