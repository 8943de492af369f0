//! Events delivered to handlers.

use std::sync::Arc;

use kubewright_core::{Object, ObjectKey};

use crate::Deleted;

/// A change of an object, as seen by the cache.
///
/// The variant depends on the previous content of the cache, not on the type of the watch event.
#[derive(Debug)]
#[doc(alias = "ResourceEventHandler")]
pub enum Event<T> {
    /// The object is new to the cache.
    #[doc(alias = "OnAdd")]
    Added {
        /// The object.
        object: Arc<T>,
        /// Whether the object belongs to the initial list of the informer or of the handler.
        is_in_initial_list: bool,
    },
    /// The object changed, or is unchanged if this is a resync.
    #[doc(alias = "OnUpdate")]
    Updated {
        /// The previous state.
        old: Arc<T>,
        /// The new state.
        new: Arc<T>,
    },
    /// The object was removed from the cache.
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

    /// The newest known state of the object.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => Some(object),
            Event::Deleted(deleted) => deleted.object(),
        }
    }

    /// Whether this is a resync of an unchanged object.
    pub fn is_resync(&self) -> bool {
        match self {
            Event::Updated { old, new } => {
                Arc::ptr_eq(old, new)
                    || !new.resource_version().is_empty() && old.resource_version() == new.resource_version()
            }
            _ => false,
        }
    }
}
