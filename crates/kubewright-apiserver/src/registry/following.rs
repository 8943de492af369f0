//! How a registry follows a database that several servers share.

use std::sync::Arc;

use tokio::sync::watch as channel;

use super::{DEFINITIONS, Indices, Registry, bounded};
use kubewright_objects::object::StoredObject;
use kubewright_storage::{Key, Primary, Store, StoreOptions, VersionedValue};

/// The end of the storage names of webhook configurations and policies.
const HOOKS_SUFFIX: &str = ".admissionregistration.k8s.io";

/// All objects of the database at one revision.
pub(crate) struct ListedObjects {
    pub(crate) revision: u64,
    pub(crate) entries: Vec<(Key, VersionedValue<StoredObject>)>,
    /// Objects that cannot be decoded, with the reasons.
    pub(crate) unreadable: Vec<(Key, String)>,
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

    /// Reacts to a write that the store has followed, of this server or another.
    pub(crate) fn followed(&self, key: &Key) {
        if key.resource() == DEFINITIONS {
            self.refresh_catalog(key.name());
        } else if key.resource().ends_with(HOOKS_SUFFIX) {
            self.hook_cache.invalidate();
        }
    }
}
