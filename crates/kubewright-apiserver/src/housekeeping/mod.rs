//! What a cluster tidies up by itself, driven by the log of writes: dependents of deleted objects, the content of
//! deleted namespaces, the objects of deleted definitions, claims that nobody uses any more, events that have become old, and what quotas
//! count of it.
//! Where service accounts are wanted, each namespace gets its own.
//!
//! One task does all of it, in the order of the log, so that the same writes always have the same consequences. Only webhooks are asked
//! aside, by `deletions`, and `content` waits until the log has been followed to its end.

mod claims;
mod content;
mod definitions;
mod deletions;
mod expiry;
mod garbage;
mod namespaces;

use std::sync::Arc;
use std::time::Duration;

use kubewright_core::Value;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval};

use crate::admission::{accounts, quota};
use crate::object::{Meta, StoredObject};
use crate::registry::Registry;
use crate::storage::{Entry, Event, EventKind, Key, ListOptions, Recovery, Scope};
use content::Content;
use deletions::{Controller, Deletion, Deletions};
use expiry::Expiry;
use garbage::Garbage;

/// How often to look for writes that have become too old to be remembered: each write does as well.
const AGEING: Duration = Duration::from_secs(30);

/// So many events are followed before what follows from all of them has its turn.
const BATCH: usize = 256;

/// Tidies up until told to stop. After writes were refused that could not reach the disk, all is looked at again when they can.
pub(crate) async fn run(registry: Arc<Registry>, recovery: Option<Recovery>, mut stop: watch::Receiver<bool>) {
    let mut ageing = interval(AGEING);
    ageing.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut keeper = Keeper::new(registry);
    loop {
        let registry = Arc::clone(&keeper.registry);
        let Ok(page) = registry.store.list(&Scope::everything(), ListOptions::default()) else { return };
        let Ok(mut watcher) = registry.store.watch(&Scope::everything(), page.revision) else { continue };
        keeper.begin(page.entries);
        let mut followed = 0;
        loop {
            // Too slow for the log: look at everything again.
            let Ok(event) = watcher.try_next() else { break };
            if let Some(event) = event {
                keeper.follow(&event);
                followed += 1;
                if followed < BATCH {
                    continue;
                }
                yield_now().await;
            }
            followed = 0;
            if keeper.content.is_due() {
                keeper.content.tidy(&registry, &mut keeper.deletions).await;
                continue;
            }
            tokio::select! {
                event = watcher.next() => match event {
                    Ok(event) => keeper.follow(&event),
                    Err(_) => break,
                },
                deletion = keeper.deletions.next() => keeper.reconsider(&deletion),
                () = keeper.expiry.due() => keeper.expiry.expire(&registry),
                () = keeper.content.outdated() => keeper.content.refresh(),
                () = recovered(recovery.as_ref()) => break,
                _ = ageing.tick() => registry.store.age(),
                _ = stop.wait_for(|stopped| *stopped) => return,
            }
        }
    }
}

async fn recovered(recovery: Option<&Recovery>) {
    match recovery {
        Some(recovery) => recovery.recovered().await,
        None => std::future::pending().await,
    }
}

/// What is known of the objects, as far as the log has been followed.
struct Keeper {
    registry: Arc<Registry>,
    garbage: Garbage,
    content: Content,
    deletions: Deletions,
    expiry: Expiry,
}

impl Keeper {
    fn new(registry: Arc<Registry>) -> Self {
        let (deletions, expiry) = (Deletions::new(Arc::clone(&registry)), Expiry::new(registry.event_ttl));
        Keeper { registry, garbage: Garbage::default(), content: Content::default(), deletions, expiry }
    }

    /// Looks at all objects that there are.
    fn begin(&mut self, entries: Vec<(Key, Entry<StoredObject>)>) {
        (self.garbage, self.content) = (Garbage::default(), Content::default());
        self.deletions.forget_all();
        entries.iter().for_each(|(key, entry)| self.garbage.learn(key, &entry.object.tree()));
        // Given away one by one: whoever held them would keep what is written over.
        for (key, entry) in entries {
            let value = entry.object.tree();
            self.expiry.found(&key, entry.revision, &value);
            self.look_at(&key, &value, false);
        }
    }

    /// Does what follows from a write.
    fn follow(&mut self, event: &Event<StoredObject>) {
        let (key, value) = (&event.key, &*event.object.tree());
        let is_new = match event.kind {
            EventKind::Deleted => return self.let_go(key, value),
            EventKind::Created => true,
            EventKind::Modified => false,
        };
        self.expiry.written(key, event.revision);
        self.garbage.learn(key, value);
        self.look_at(key, value, is_new);
    }

    fn look_at(&mut self, key: &Key, value: &Value, is_new: bool) {
        let registry = &*self.registry;
        give_account(registry, key);
        self.garbage.look_after(registry, &mut self.deletions, key, value);
        self.content.written(key, value, is_new);
        claims::look_after(registry, key, value);
        count(registry, key, value);
    }

    /// Looks again at an object whose deletion has been decided, or should be tried again.
    fn reconsider(&mut self, Deletion { by, key, gone, .. }: &Deletion) {
        match by {
            Controller::GarbageCollector => {
                self.garbage.check_owners(&self.registry, &mut self.deletions, key, gone);
            }
            Controller::Namespaces => self.content.reconsider(key),
        }
    }

    fn let_go(&mut self, key: &Key, value: &Value) {
        let registry = &*self.registry;
        let orphans = self.garbage.forget(key, value);
        self.expiry.forget(key);
        self.deletions.forget(key);
        if key.resource() == "serviceaccounts" && key.name() == accounts::DEFAULT {
            accounts::create_default(registry, key.namespace().unwrap_or_default());
        }
        self.garbage.collect(registry, &mut self.deletions, value, orphans);
        self.content.deleted(key);
        claims::after_deletion(registry, key, value);
        if let Some(namespace) = key.namespace() {
            quota::recount(registry, namespace);
        }
    }
}

/// Shows in quotas what there is, where a change may mean that it is less, or the quota is new.
fn count(registry: &Registry, key: &Key, value: &Value) {
    if let Some(namespace) = key.namespace().filter(|_| quota::may_free(key, value)) {
        quota::recount(registry, namespace);
    }
}

/// Sees to it that a namespace has its account, also after somebody deleted it.
fn give_account(registry: &Registry, key: &Key) {
    if registry.assigns_accounts && key.resource() == "namespaces" {
        accounts::create_default(registry, key.name());
    }
}

// What has changed or gone meanwhile needs nothing from us any more, and after a disk that failed all is looked at again, so refusals are
// left alone.

fn remove_finalizer(registry: &Registry, key: &Key, value: &Value, finalizer: &str) {
    let uid = value.uid();
    change(registry, key, |value| {
        if value.uid() == uid {
            let mut finalizers = value.finalizers();
            finalizers.retain(|have| have != finalizer);
            value.set_finalizers(&finalizers);
        }
    });
}

fn change(registry: &Registry, key: &Key, mut change: impl FnMut(&mut Value)) {
    let Some(resource) = registry.catalog().of_storage(key.resource()).cloned() else { return };
    let _ = registry.change(&resource, key.namespace().unwrap_or_default(), key.name(), |value| {
        let mut value = value.clone();
        change(&mut value);
        Ok(value)
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use kubewright_core::options::DeleteOptions;

    use super::*;
    use crate::registry::{CreateRequest, Deleted, Ownership};
    use crate::storage::{Directory, Disk, StoreOptions};

    fn create(registry: &Registry, storage: &str, namespace: &str, object: &str) -> Arc<StoredObject> {
        let (catalog, value) = (registry.catalog(), object.parse().expect("valid JSON"));
        let resource = catalog.of_storage(storage).expect("it is built in");
        let (control, ownership, dry_run) = (None, Ownership::Keep, false);
        let made = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
        made.unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    #[tokio::test]
    async fn what_could_not_be_written_while_the_disk_was_full_is_done_when_it_is_not() {
        let (directory, is_full) = (Directory::new("tidy"), Arc::new(AtomicBool::new(false)));
        let (disk, found) = Disk::crowded(&directory.0, &is_full).expect("it opens");
        let (stop, stopped) = watch::channel(false);
        let registry = Registry::restored(StoreOptions::default(), &disk, found, stopped.clone()).expect("it is new");
        let registry = Arc::new(registry);
        create(&registry, "namespaces", "", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}"#);
        let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},
            "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
        create(&registry, "persistentvolumeclaims", "default", claim);
        // Otherwise the failure of this write would refuse the deletion.
        disk.wait(registry.store.current_revision()).await.expect("there is room");
        is_full.store(true, Ordering::SeqCst);
        let claims = registry.catalog().of_storage("persistentvolumeclaims").cloned().expect("it is built in");
        let deleted = registry.delete(&claims, "default", "data", &DeleteOptions::default(), &mut Vec::new(), None);
        assert!(matches!(deleted, Ok(Deleted::Pending(_))), "it is protected");
        disk.wait(registry.store.current_revision()).await.expect_err("there is no room");

        let tidying = tokio::spawn(run(Arc::clone(&registry), Some(disk.recovery()), stopped));
        while !disk.recovery().has_refused() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let key = claims.key("default", "data");
        assert!(registry.store.get(&key).is_some());
        is_full.store(false, Ordering::SeqCst);
        let is_gone = async {
            while registry.store.get(&key).is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_gone).await.expect("it is tried again");
        stop.send_replace(true);
        tidying.await.expect("no panic");
    }
}
