//! Objects in a database that several servers share.
//!
//! The store then follows the database, and its writes block until they are executed there. So
//! everything that writes runs on threads that may block.

use std::sync::Arc;

use kubewright_net::task::BoxFuture;
use tokio::sync::watch as channel;

use super::{DEFINITIONS, Indices, Registry, bounded};
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_storage::{Key, Primary, Store, StoreOptions, VersionedValue};

/// The end of the storage names of webhook configurations and policies.
const HOOKS_SUFFIX: &str = ".admissionregistration.k8s.io";
/// Maximum number of writes that wait for the database at a time.
pub(super) const CONCURRENT_WRITES: usize = 256;

/// All objects of the database at one revision.
pub(crate) struct ListedObjects {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<(Key, VersionedValue<StoredObject>)>,
    /// Objects that cannot be decoded, with the reasons.
    pub(crate) unreadable: Vec<(Key, String)>,
}

/// A database that several servers share.
pub(crate) trait SharedDatabase: Send + Sync {
    /// Waits until the store shows all writes that were acknowledged before, by any server.
    fn barrier(&self) -> BoxFuture<'_, Result<(), Rejection>>;

    /// Waits until this server may do the background work of all servers.
    fn lead(&self) -> BoxFuture<'_, ()>;

    /// Waits until another server may do it. Only while this one [leads](Self::lead).
    fn leadership_lost(&self) -> BoxFuture<'_, ()>;

    /// Why the database cannot be followed at present, if it cannot.
    fn failure(&self) -> Option<Arc<str>>;
}

impl Registry {
    /// A registry with the objects of a database, whose writes go to `primary`.
    pub(crate) fn over_database(
        options: StoreOptions<StoredObject>,
        primary: impl Primary<StoredObject> + 'static,
        listed: ListedObjects,
        stop: channel::Receiver<bool>,
    ) -> Self {
        let indices = Arc::<Indices>::default();
        for (key, entry) in &listed.entries {
            indices.restore(key, &entry.object, entry.revision);
        }
        let options = bounded(options.primary(primary).observer(Arc::clone(&indices)));
        let store = Store::restore(options, listed.revision, listed.entries, []);
        let registry = Registry::over(store, indices, stop);
        listed.unreadable.into_iter().for_each(|(key, reason)| registry.unreadable.add(key, reason));
        registry.load_catalog();
        registry
    }

    /// Replaces all objects by those of a list, because events were lost.
    pub(crate) fn follow_list(&self, listed: ListedObjects) {
        self.unreadable.replace_all(listed.unreadable);
        self.store.follow_list(listed.revision, listed.entries);
        self.load_catalog();
        self.hook_cache.invalidate();
    }

    /// Runs work that writes. If writes wait for a database, it runs on threads that may block.
    ///
    /// # Errors
    ///
    /// 500 if the work panics there.
    pub(crate) async fn run_writes<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Rejection> {
        if self.database.is_none() { Ok(work.await) } else { self.writes.drive(work).await }
    }

    /// Reacts to a write that the store has followed, of this server or another.
    pub(crate) fn followed(&self, key: &Key) {
        if key.resource() == DEFINITIONS {
            self.refresh_catalog(key.name());
        } else if key.resource().ends_with(HOOKS_SUFFIX) {
            self.hook_cache.invalidate();
        }
    }
}
