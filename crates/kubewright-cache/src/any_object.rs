//! Objects whose type does not matter.
//!
//! A queue needs the keys of objects and nothing else of them. So informers use queues of objects of any type: a program with
//! informers of ten kinds has the code of a queue once and not ten times. On their way into the store, objects get their types back.

use std::any::Any;
use std::sync::Arc;

use kubewright_core::{Object, ObjectKey};

use crate::{Deleted, Delta};

/// What queues see of an object. Every [`Object`] is one.
pub trait AnyObject: Any + Send + Sync {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.namespace`, empty for objects of the cluster.
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

/// An object as what it is. What comes out of a queue is of the type that was put in.
fn typed<T: Object>(object: Arc<dyn AnyObject>) -> Arc<T> {
    let object: Arc<dyn Any + Send + Sync> = object;
    object.downcast().unwrap_or_else(|_| panic!("an object of another type came out of a queue"))
}

impl Delta<dyn AnyObject> {
    /// The same of objects that are known to be of this type.
    pub(crate) fn typed<T: Object>(self) -> Delta<T> {
        match self {
            Delta::Added(object) => Delta::Added(typed(object)),
            Delta::Updated(object) => Delta::Updated(typed(object)),
            Delta::Deleted(Deleted::Final(object)) => Delta::Deleted(Deleted::Final(typed(object))),
            Delta::Deleted(Deleted::LastKnown { key, object }) => {
                Delta::Deleted(Deleted::LastKnown { key, object: object.map(typed) })
            }
            Delta::Replaced(object) => Delta::Replaced(typed(object)),
            Delta::Undecodable(object) => Delta::Undecodable(object),
            Delta::ReplacedAll { namespace, list } => Delta::ReplacedAll { namespace, list: list.map(typed) },
            Delta::Sync(object) => Delta::Sync(typed(object)),
            Delta::SyncAll => Delta::SyncAll,
            Delta::Bookmark { namespace, version } => Delta::Bookmark { namespace, version },
        }
    }
}
