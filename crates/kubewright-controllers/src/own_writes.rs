//! Writes of a controller that its cache does not show yet.
//!
//! A controller that counts pods in a stale cache would repeat creations and deletions. client-go
//! counts events against expectations; here the cache itself is checked, so that lost, merged or
//! repeated events do no harm.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_cache::Store;
use kubewright_core::{Object, ObjectKey, ResourceVersion, Str};
use tokio::time::Instant;

/// After this time the cache is trusted in any case.
pub(crate) const CACHE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Unseen writes per owner.
///
/// By the key of the owner. One worker handles a key at a time; it removes the entry of a deleted
/// owner. If another owner of the same name waits for these writes too, that does no harm.
#[derive(Debug, Default)]
#[doc(alias = "ControllerExpectations")]
#[doc(alias = "ConsistencyStore")]
pub(crate) struct OwnWrites {
    writes_of: Mutex<HashMap<ObjectKey, Writes>>,
}

#[derive(Debug)]
struct Writes {
    /// The versions of written objects.
    written: Vec<ResourceVersion>,
    deleted: Vec<(ObjectKey, Str)>,
    last: Instant,
}

impl OwnWrites {
    /// Records an object created or changed for `owner`, as the server returned it.
    pub(crate) fn written(&self, owner: &ObjectKey, object: &impl Object) {
        let version = ResourceVersion::from(object.resource_version());
        self.change(owner, |writes| writes.written.push(version));
    }

    /// Records an object deleted for `owner`.
    pub(crate) fn deleted(&self, owner: &ObjectKey, object: &impl Object) {
        self.change(owner, |writes| writes.deleted.push((object.key(), object.uid().into())));
    }

    /// Removes the entry of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.lock().remove(owner);
    }

    /// Whether there is no entry of an owner.
    #[cfg(test)]
    pub(crate) fn is_forgotten(&self, owner: &ObjectKey) -> bool {
        !self.lock().contains_key(owner)
    }

    /// Whether the cache shows all writes for `owner`.
    pub(crate) fn are_seen<T: Object>(&self, owner: &ObjectKey, store: &Store<T>) -> bool {
        let mut writes_of = self.lock();
        let Some(writes) = writes_of.get_mut(owner) else { return true };
        let snapshot = store.snapshot();
        let version = snapshot.resource_version();
        // A version that cannot be compared counts as seen, to guarantee progress.
        writes.written.retain(|written| version.partial_cmp(written).is_some_and(|order| order.is_lt()));
        writes.deleted.retain(|(key, uid)| {
            snapshot.get_by_key(key).is_some_and(|object| object.uid() == *uid && !object.is_being_deleted())
        });
        if writes.written.is_empty() && writes.deleted.is_empty() {
            writes_of.remove(owner);
            return true;
        }
        let is_late = writes.last.elapsed() >= CACHE_TIMEOUT;
        if is_late {
            tracing::warn!(%owner, ?writes, "the cache never showed these writes");
            writes_of.remove(owner);
        }
        is_late
    }

    fn change(&self, owner: &ObjectKey, change: impl FnOnce(&mut Writes)) {
        let mut writes_of = self.lock();
        let writes = writes_of.entry(owner.clone()).or_insert_with(|| Writes {
            written: Vec::new(),
            deleted: Vec::new(),
            last: Instant::now(),
        });
        writes.last = Instant::now();
        change(writes);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Writes>> {
        self.writes_of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::Pod;
    use kubewright_cache::Indexers;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("default", name)
    }

    fn pod(name: &str, version: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.into());
        pod.metadata.uid = Some(format!("uid-{name}").into());
        pod.metadata.resource_version = Some(version.into());
        pod
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_seen_when_the_cache_has_passed_its_version() {
        // RS-2, RS-6
        let (writes, store) = (OwnWrites::default(), Store::new(Indexers::<Pod>::new()));
        store.replace([], "5");
        assert!(writes.are_seen(&key("set"), &store));
        writes.written(&key("set"), &pod("a", "7"));
        assert!(!writes.are_seen(&key("set"), &store) && writes.are_seen(&key("other"), &store));
        store.bookmark("7");
        assert!(writes.are_seen(&key("set"), &store));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_observed_when_the_pod_terminates() {
        // RS-2
        let (writes, store) = (OwnWrites::default(), Store::new(Indexers::<Pod>::new()));
        store.add(pod("a", "3"));
        writes.deleted(&key("set"), &pod("a", "3"));
        assert!(!writes.are_seen(&key("set"), &store));
        let mut going = pod("a", "4");
        going.metadata.deletion_timestamp = Some(kubewright_core::Time::now());
        store.update(going);
        assert!(writes.are_seen(&key("set"), &store));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_never_seen_is_given_up() {
        // RS-2
        let (writes, store) = (OwnWrites::default(), Store::new(Indexers::<Pod>::new()));
        store.replace([], "5");
        writes.written(&key("set"), &pod("a", "7"));
        tokio::time::sleep(CACHE_TIMEOUT - Duration::from_secs(1)).await;
        assert!(!writes.are_seen(&key("set"), &store));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(writes.are_seen(&key("set"), &store));
    }
}
