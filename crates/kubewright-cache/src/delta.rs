//! What queues between a reflector and a store hold: changes, and deletions with what is known of the object.

use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{ObjectKey, ResourceVersion, Str};

use crate::AnyObject;

/// An object that is gone, with what is known of it.
#[derive(Debug)]
pub enum Deleted<T: ?Sized> {
    /// The deletion was seen: this is the final state, at the version of the deletion.
    Final(Arc<T>),
    /// The object vanished while nobody watched.
    #[doc(alias = "DeletedFinalStateUnknown")]
    LastKnown {
        /// Its key.
        key: ObjectKey,
        /// The last state that was seen, which may be stale; absent if none was.
        object: Option<Arc<T>>,
    },
}

impl<T: ?Sized> Clone for Deleted<T> {
    fn clone(&self) -> Self {
        match self {
            Deleted::Final(object) => Deleted::Final(object.clone()),
            Deleted::LastKnown { key, object } => Deleted::LastKnown { key: key.clone(), object: object.clone() },
        }
    }
}

impl<T: AnyObject + ?Sized> Deleted<T> {
    /// The key of the object.
    #[doc(alias = "DeletionHandlingMetaNamespaceKeyFunc")]
    #[doc(alias = "DeletionHandlingObjectToName")]
    pub fn key(&self) -> ObjectKey {
        match self {
            Deleted::Final(object) => object.key(),
            Deleted::LastKnown { key, .. } => key.clone(),
        }
    }

    /// The newest state that is known, final or not.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Deleted::Final(object) => Some(object),
            Deleted::LastKnown { object, .. } => object.as_ref(),
        }
    }

    /// Whether the deletion itself was seen, so that the state is the final one.
    pub fn is_final(&self) -> bool {
        matches!(self, Deleted::Final(_))
    }
}

/// All objects that exist at one version.
#[derive(Debug)]
pub struct ObjectSet<T: ?Sized> {
    /// The objects, in the order in which the server sent them.
    pub objects: Vec<Arc<T>>,
    /// Objects that exist in a state that cannot be decoded or transformed. If an earlier state of
    /// such an object is known, it is among `objects` as well.
    pub undecodable: Vec<ObjectIdentity>,
    /// The version.
    pub version: ResourceVersion,
}

impl<T: ?Sized> ObjectSet<T> {
    /// These objects at this version, all of which could be decoded.
    pub fn new(objects: impl IntoIterator<Item = Arc<T>>, version: impl Into<ResourceVersion>) -> Self {
        ObjectSet { objects: objects.into_iter().collect(), undecodable: Vec::new(), version: version.into() }
    }

    /// The same objects as other types see them.
    pub(crate) fn map<U: ?Sized>(self, convert: impl FnMut(Arc<T>) -> Arc<U>) -> ObjectSet<U> {
        let ObjectSet { objects, undecodable, version } = self;
        ObjectSet { objects: objects.into_iter().map(convert).collect(), undecodable, version }
    }
}

impl<T: ?Sized> Default for ObjectSet<T> {
    fn default() -> Self {
        ObjectSet::new([], ResourceVersion::default())
    }
}

impl<T: ?Sized> Clone for ObjectSet<T> {
    fn clone(&self) -> Self {
        let ObjectSet { objects, undecodable, version } = self;
        ObjectSet { objects: objects.clone(), undecodable: undecodable.clone(), version: version.clone() }
    }
}

/// One change on its way to a store.
#[derive(Debug)]
#[doc(alias = "DeltaType")]
pub enum Delta<T: ?Sized> {
    /// The watch tells of an object that came.
    Added(Arc<T>),
    /// The watch tells of an object that changed.
    Updated(Arc<T>),
    /// An object is gone.
    Deleted(Deleted<T>),
    /// A list contains the object, whether it was known or not.
    Replaced(Arc<T>),
    /// The object exists in a state that cannot be decoded or transformed. Its last good state
    /// stays, unless that belongs to an object with another uid.
    Undecodable(ObjectIdentity),
    /// A list: these objects and no others.
    ReplacedAll {
        /// The namespace that was listed; empty if all were, or objects of the cluster.
        namespace: Str,
        /// All objects of the list.
        list: ObjectSet<T>,
    },
    /// A periodic reminder of an object that has not changed.
    Sync(Arc<T>),
    /// A periodic reminder of all objects.
    SyncAll,
    /// Nothing has changed up to this version.
    Bookmark {
        /// The namespace that this is said of; empty for all.
        namespace: Str,
        /// The version.
        version: ResourceVersion,
    },
}

impl<T: ?Sized> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Delta::Added(object) => Delta::Added(object.clone()),
            Delta::Updated(object) => Delta::Updated(object.clone()),
            Delta::Deleted(deleted) => Delta::Deleted(deleted.clone()),
            Delta::Replaced(object) => Delta::Replaced(object.clone()),
            Delta::Undecodable(object) => Delta::Undecodable(object.clone()),
            Delta::ReplacedAll { namespace, list } => {
                Delta::ReplacedAll { namespace: namespace.clone(), list: list.clone() }
            }
            Delta::Sync(object) => Delta::Sync(object.clone()),
            Delta::SyncAll => Delta::SyncAll,
            Delta::Bookmark { namespace, version } => {
                Delta::Bookmark { namespace: namespace.clone(), version: version.clone() }
            }
        }
    }
}

impl<T: AnyObject + ?Sized> Delta<T> {
    /// The key of the object that it is about; absent if it is about all.
    #[doc(alias = "KeyOf")]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Delta::Deleted(deleted) => Some(deleted.key()),
            Delta::Undecodable(object) => Some(object.key.clone()),
            _ => self.object().map(|object| object.key()),
        }
    }

    /// The object that it is about, as far as it is known.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                Some(object)
            }
            Delta::Deleted(deleted) => deleted.object(),
            Delta::Undecodable(_) | Delta::ReplacedAll { .. } | Delta::SyncAll | Delta::Bookmark { .. } => None,
        }
    }

    /// Whether it tells of a deletion.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }
}
