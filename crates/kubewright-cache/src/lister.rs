//! Reads a cache with the API's verbs.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kubewright_core::meta::v1::Status;
use kubewright_core::{
    CanBeClusterScoped, CanBeNamespaced, GroupResource, Map, Object, ObjectKey, Selector, Str, StringMap,
};

use crate::store::{NAMESPACE_INDEX, Query, Snapshot, Store, UnknownIndex};

/// Reads the objects of one resource from a cache. A handle: clones read the same cache.
///
/// ```
/// # use kubewright_cache::{Indexers, Lister, Store};
/// # use kubewright_core::{DynamicObject, Object};
/// # let store = Store::new(Indexers::by_namespace());
/// # store.add(r#"{"metadata": {"namespace": "default", "name": "web", "labels": {"app": "web"}}}"#.parse::<DynamicObject>()?);
/// let lister = Lister::new(store);
/// assert!(lister.namespace("default").get("web").is_some());
/// assert_eq!(lister.list(&"app=web".parse()?).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "GenericLister")]
pub struct Lister<T> {
    store: Store<T>,
    /// Keeps the informer of the cache running.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// Reads the objects of one namespace.
pub struct NamespaceLister<T> {
    lister: Lister<T>,
    namespace: Str,
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Lister { store: self.store.clone(), kept: self.kept.clone() }
    }
}

impl<T: Object> Lister<T> {
    /// A lister over this store.
    pub fn new(store: Store<T>) -> Self {
        Lister { store, kept: None }
    }

    /// Also keeps `kept` alive.
    pub(crate) fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// The cluster-scoped object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>>
    where
        T::Scope: CanBeClusterScoped,
    {
        self.store.find("", name)
    }

    /// Like [`get`](Self::get), with the error that a server would return.
    ///
    /// # Errors
    /// Not found; or an internal error if the object exists and none of its states could be
    /// decoded.
    pub fn require(&self, resource: &GroupResource, name: &str) -> Result<Arc<T>, Box<Status>>
    where
        T::Scope: CanBeClusterScoped,
    {
        self.get(name).ok_or_else(|| self.missing(resource, "", name))
    }

    /// Whether the newest state of this object could not be decoded or transformed; see
    /// [`Store::is_undecodable`].
    pub fn is_undecodable(&self, key: &ObjectKey) -> bool {
        self.store.is_undecodable(key)
    }

    fn missing(&self, resource: &GroupResource, namespace: &str, name: &str) -> Box<Status> {
        let key = ObjectKey::namespaced(namespace, name);
        if self.is_undecodable(&key) {
            return Box::new(Status::internal(format!("object {key} exists and cannot be decoded")));
        }
        Box::new(Status::not_found(resource, name))
    }

    /// All objects that match the selector.
    #[doc(alias = "List")]
    pub fn list(&self, selector: &Selector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let snapshot = self.store.snapshot();
        if selector.is_everything() {
            return snapshot.to_vec();
        }
        snapshot.iter().filter(|object| selects(selector, &***object)).cloned().collect()
    }

    /// All objects, without copying them into a list.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.snapshot()
    }

    /// The keys of all objects, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.store.list_keys();
        keys.sort();
        keys.iter().map(ToString::to_string).collect()
    }

    /// The objects of one namespace.
    #[doc(alias = "Pods")]
    pub fn namespace(&self, namespace: impl Into<Str>) -> NamespaceLister<T>
    where
        T::Scope: CanBeNamespaced,
    {
        NamespaceLister::new(self.clone(), namespace.into())
    }

    /// Objects with this value in an index.
    ///
    /// # Errors
    /// If there is no such index.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.store.by_index(name, value)
    }

    /// Objects that match a query over several indices.
    ///
    /// # Errors
    /// If an index does not exist.
    pub fn select(&self, query: &Query) -> Result<Vec<Arc<T>>, UnknownIndex> {
        self.store.select(query)
    }
}

impl<T: Object> NamespaceLister<T> {
    /// The objects of one namespace, for code that is generic over the scope. Otherwise
    /// [`Lister::namespace`] rejects cluster-scoped kinds at compile time.
    pub fn new(lister: Lister<T>, namespace: Str) -> Self {
        NamespaceLister { lister, namespace }
    }

    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.lister.store.find(&self.namespace, name)
    }

    /// Like [`get`](Self::get), with the error that a server would return.
    ///
    /// # Errors
    /// Not found; or an internal error if the object exists and none of its states could be
    /// decoded.
    pub fn require(&self, resource: &GroupResource, name: &str) -> Result<Arc<T>, Box<Status>> {
        self.get(name).ok_or_else(|| self.lister.missing(resource, &self.namespace, name))
    }

    /// All objects of the namespace that match the selector. Uses the index `namespace`, or a full
    /// scan if there is none.
    pub fn list(&self, selector: &Selector) -> Vec<Arc<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let snapshot = self.lister.store.snapshot();
        let is_selected = |object: &&Arc<T>| selector.is_everything() || selects(selector, &***object);
        match snapshot.by_index(NAMESPACE_INDEX, &self.namespace) {
            Ok(objects) => objects.filter(is_selected).cloned().collect(),
            Err(error) => {
                tracing::warn!(%error, "no namespace index; scanning all objects");
                let is_here = |object: &&Arc<T>| object.namespace() == self.namespace.as_str();
                snapshot.iter().filter(is_here).filter(is_selected).cloned().collect()
            }
        }
    }
}

/// Whether an object's labels match the selector.
fn selects(selector: &Selector, object: &impl Object) -> bool {
    match object.labels() {
        StringMap::Map(labels) => selector.matches(labels),
        other => {
            let labels: Map<Str> = other.iter().map(|(key, value)| (Str::from(key), Str::from(value))).collect();
            selector.matches(&labels)
        }
    }
}

impl<T: Object> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lister").field(&self.store).finish()
    }
}

impl<T: Object> fmt::Debug for NamespaceLister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
