//! Deltas: changes queued between a reflector and a store, and tombstones.

use std::sync::Arc;

use kubewright_core::stream::ObjectIdentity;
use kubewright_core::{ObjectKey, ResourceVersion, Str};

use crate::AnyObject;

/// A deleted object, with its last known state.
#[derive(Debug)]
pub enum Deleted<T: ?Sized> {
    /// The watch delivered the deletion: this is the final state, at the version of the deletion.
    Final(Arc<T>),
    /// A tombstone: the deletion was missed while no watch was open.
    #[doc(alias = "DeletedFinalStateUnknown")]
    LastKnown {
        /// Its key.
        key: ObjectKey,
        /// The last state in the cache, which may be stale; `None` if there was none.
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

    /// The last known state, final or not.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Deleted::Final(object) => Some(object),
            Deleted::LastKnown { object, .. } => object.as_ref(),
        }
    }

    /// Whether the deletion itself was observed, so that the state is final.
    pub fn is_final(&self) -> bool {
        matches!(self, Deleted::Final(_))
    }
}

/// All objects that exist at one resource version.
#[derive(Debug)]
pub struct ObjectSet<T: ?Sized> {
    /// The objects in the order in which the server sent them.
    pub objects: Vec<Arc<T>>,
    /// Objects that exist in a state that cannot be decoded or transformed. If an earlier state of
    /// such an object is known, `objects` contains it.
    pub undecodable: Vec<ObjectIdentity>,
    /// The resource version.
    pub version: ResourceVersion,
}

impl<T: ?Sized> ObjectSet<T> {
    /// A set of objects that could all be decoded.
    pub fn new(objects: impl IntoIterator<Item = Arc<T>>, version: impl Into<ResourceVersion>) -> Self {
        ObjectSet { objects: objects.into_iter().collect(), undecodable: Vec::new(), version: version.into() }
    }

    /// Converts the type of the objects.
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

/// A change on its way to a store.
#[derive(Debug)]
#[doc(alias = "DeltaType")]
pub enum Delta<T: ?Sized> {
    /// The watch reported a new object.
    Added(Arc<T>),
    /// The watch reported a changed object.
    Updated(Arc<T>),
    /// The object was deleted.
    Deleted(Deleted<T>),
    /// A list contains the object, new or not.
    Replaced(Arc<T>),
    /// The object exists in a state that cannot be decoded or transformed. Its last good state
    /// stays in the cache, unless that has a different uid.
    Undecodable(ObjectIdentity),
    /// The result of a list: exactly these objects exist.
    ReplacedAll {
        /// The listed namespace; empty for all namespaces or cluster-scoped objects.
        namespace: Str,
        /// All objects of the list.
        list: ObjectSet<T>,
    },
    /// A resync of an unchanged object.
    Sync(Arc<T>),
    /// A resync of all objects.
    SyncAll,
    /// Nothing has changed up to this version.
    Bookmark {
        /// The namespace of the bookmark; empty for all namespaces.
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
    /// The key of the affected object; `None` if the delta affects all objects.
    #[doc(alias = "KeyOf")]
    pub fn key(&self) -> Option<ObjectKey> {
        match self {
            Delta::Deleted(deleted) => Some(deleted.key()),
            Delta::Undecodable(object) => Some(object.key.clone()),
            _ => self.object().map(|object| object.key()),
        }
    }

    /// The affected object, if its state is known.
    pub fn object(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                Some(object)
            }
            Delta::Deleted(deleted) => deleted.object(),
            Delta::Undecodable(_) | Delta::ReplacedAll { .. } | Delta::SyncAll | Delta::Bookmark { .. } => None,
        }
    }

    /// Whether the delta is a deletion.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Delta::Deleted(_))
    }
}
