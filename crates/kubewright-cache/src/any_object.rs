//! Type-erased objects.
//!
//! A queue needs only the keys of its objects. Informers therefore use queues of `dyn AnyObject`:
//! the queue code is compiled once per program and not once per resource type. Objects are downcast
//! again on their way into the store.

use std::any::Any;

use kubewright_core::{Object, ObjectKey};

use crate::typed::typed;
use crate::{Deleted, Delta};

/// The part of an object that queues need. Implemented for every [`Object`].
pub trait AnyObject: Any + Send + Sync {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.namespace`; empty for cluster-scoped objects.
    fn namespace(&self) -> &str;
    /// `namespace/name`.
    fn key(&self) -> ObjectKey;
}

impl<T: Object> AnyObject for T {
    fn name(&self) -> &str {
        Object::name(self)
    }

    fn namespace(&self) -> &str {
        Object::namespace(self)
    }

    fn key(&self) -> ObjectKey {
        Object::key(self)
    }
}

/// Downcasts an object. A queue returns objects of the type that was put in.
impl Delta<dyn AnyObject> {
    /// Downcasts the objects of a delta.
    pub(crate) fn typed<T: Object>(self) -> Delta<T> {
        match self {
            Delta::Added(object) => Delta::Added(typed(object)),
            Delta::Updated(object) => Delta::Updated(typed(object)),
            Delta::Deleted(Deleted::Final(object)) => Delta::Deleted(Deleted::Final(typed(object))),
            Delta::Deleted(Deleted::LastKnown { key, object }) => {
                Delta::Deleted(Deleted::LastKnown { key, object: object.map(|object| typed(object)) })
            }
            Delta::Replaced(object) => Delta::Replaced(typed(object)),
            Delta::Undecodable(object) => Delta::Undecodable(object),
            Delta::ReplacedAll { namespace, list } => {
                Delta::ReplacedAll { namespace, list: list.map(|object| typed(object)) }
            }
            Delta::Sync(object) => Delta::Sync(typed(object)),
            Delta::SyncAll => Delta::SyncAll,
            Delta::Bookmark { namespace, version } => Delta::Bookmark { namespace, version },
        }
    }
}
