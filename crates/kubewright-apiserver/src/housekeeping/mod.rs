//! The controllers that the server runs itself, driven by the log of writes: garbage collection,
//! namespace and definition cleanup, claim protection, event expiry, quota status and, if enabled,
//! default service accounts.
//!
//! Without controllers (`ApiServer::without_controllers`) only the parts of kube-apiserver itself
//! remain: definition cleanup and event expiry.
//!
//! A single task follows the log in order, so equal writes have equal consequences. Only webhook
//! calls run in other tasks (`deletions`). `content` waits until the log is followed to its end.

mod accounts;
mod claims;
mod content;
mod definitions;
mod deletions;
mod expiry;
mod garbage;
mod namespaces;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{Str, Value};
use tokio::sync::watch;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::admission::accounts::DEFAULT;
use crate::admission::plugins::AdmissionPlugin;
use crate::admission::quota;
use crate::admission::state::ClusterState;
use crate::registry::{Registry, SharedDatabase};
use content::{ContentCleanup, yield_regularly};
use deletions::{DeletingController, Deletion, Deletions};
use expiry::EventExpiry;
use garbage::GarbageCollector;
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_storage::{EventKind, Key, KeyRange, Recovery, StoreEvent, StoreListOptions, VersionedValue, Watcher};

/// Period of trimming old events from the log, in addition to each write.
const COMPACTION_PERIOD: Duration = Duration::from_secs(30);

/// Period in which lists of the past expire, as the compaction of etcd in a cluster.
const LIST_EXPIRY_PERIOD: Duration = Duration::from_secs(300);

/// Number of events followed and of tasks run before yielding.
const BATCH: usize = 64;

/// Resources whose spec or status matters to a controller of this module.
const EXAMINED_WHOLE: [&str; 5] = ["events", "persistentvolumeclaims", "persistentvolumes", "pods", "resourcequotas"];

/// Why following the log ended.
enum FollowEnd {
    /// The server stops.
    Stopped,
    /// The log dropped events that had not been followed yet.
    Compacted,
    /// Writes are possible again after the disk was full.
    Recovered,
}

/// Runs until `stop` is set.
///
/// If the housekeeper falls behind the log, it lists all objects again. Queued work is kept, so
/// that every round makes progress.
pub(crate) async fn run(registry: Arc<Registry>, recovery: Option<Recovery>, mut stop: watch::Receiver<bool>) {
    let mut housekeeper = Housekeeper::new(Arc::clone(&registry));
    loop {
        let store = registry.store.clone();
        let Ok(mut watcher) = store.watch(&KeyRange::everything(), store.current_revision()) else { continue };
        // Listing all objects may take long, so do it on a blocking thread.
        let listed = spawn_blocking(move || store.list(&KeyRange::everything(), StoreListOptions::default())).await;
        let Ok(Ok(page)) = listed else { return };
        housekeeper.listed = page.revision;
        let end = tokio::select! {
            end = async {
                housekeeper.begin(page.entries).await;
                housekeeper.follow_log(&mut watcher, recovery.as_ref()).await
            } => end,
            _ = stop.wait_for(|stopped| *stopped) => FollowEnd::Stopped,
        };
        match end {
            FollowEnd::Stopped => return,
            FollowEnd::Compacted => {}
            // The rejected writes are unknown, so all objects are examined again.
            FollowEnd::Recovered => housekeeper.garbage = GarbageCollector::default(),
        }
    }
}

/// Runs until `stop` is set, while this server leads those that share its database. The log is
/// per server, so each of them keeps its own.
pub(crate) async fn run_shared(
    registry: Arc<Registry>,
    database: Arc<dyn SharedDatabase>,
    mut stop: watch::Receiver<bool>,
) {
    let stopped = stop.clone();
    let keep = async {
        loop {
            tokio::select! {
                () = keep_log(&registry) => {}
                () = database.lead() => {}
            }
            tokio::select! {
                () = run(Arc::clone(&registry), None, stopped.clone()) => return,
                () = database.leadership_lost() => {}
            }
        }
    };
    tokio::select! {
        () = keep => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
    database.stop_leading().await;
}

/// Trims the log and lets lists of the past expire, forever.
async fn keep_log(registry: &Registry) {
    let mut compaction = interval(COMPACTION_PERIOD);
    let mut list_expiry = interval(LIST_EXPIRY_PERIOD);
    loop {
        tokio::select! {
            _ = compaction.tick() => registry.store.age(),
            _ = list_expiry.tick() => registry.list_horizon.advance(registry.store.current_revision()),
        }
    }
}

async fn recovered(recovery: Option<&Recovery>) {
    match recovery {
        Some(recovery) => recovery.recovered().await,
        None => std::future::pending().await,
    }
}

/// The state of all controllers as of the followed log position.
struct Housekeeper {
    registry: Arc<Registry>,
    garbage: GarbageCollector,
    content: ContentCleanup,
    deletions: Deletions,
    expiry: EventExpiry,
    /// The revision of the last list. Events up to it are already known.
    listed: u64,
    /// Namespaces whose quota status may be outdated.
    stale_quotas: BTreeSet<Str>,
    compaction: Interval,
    list_expiry: Interval,
}

impl Housekeeper {
    fn new(registry: Arc<Registry>) -> Self {
        let mut compaction = interval(COMPACTION_PERIOD);
        compaction.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut list_expiry = interval(LIST_EXPIRY_PERIOD);
        list_expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Housekeeper {
            garbage: GarbageCollector::default(),
            content: ContentCleanup::default(),
            deletions: Deletions::new(Arc::clone(&registry)),
            // A shared database deletes events by itself.
            expiry: EventExpiry::new(if registry.database.is_some() { Duration::ZERO } else { registry.event_ttl }),
            listed: 0,
            stale_quotas: BTreeSet::new(),
            compaction,
            list_expiry,
            registry,
        }
    }

    /// Examines all objects of a list.
    async fn begin(&mut self, entries: Vec<(Key, VersionedValue<StoredObject>)>) {
        self.garbage.restart();
        self.content = ContentCleanup::default();
        self.deletions.forget_all();
        for (count, (key, entry)) in (1..).zip(&entries) {
            let references = entry.object.field(&["metadata", "ownerReferences"]);
            let references = references.as_ref().and_then(|list| list.as_array()).map_or(&[][..], |list| list);
            if self.registry.has_controllers {
                self.garbage.set_owners(key, references);
            }
            yield_regularly(count).await;
        }
        // Take the entries one by one: holding the list would keep overwritten objects alive.
        for (count, (key, entry)) in (1..).zip(entries) {
            let value = examined_part(&key, &entry.object);
            self.expiry.found(&key, entry.revision, &value);
            self.examine(&key, &value, &[], false);
            yield_regularly(count).await;
        }
    }

    /// Follows the log and does the resulting work, until a reason to end occurs.
    async fn follow_log(&mut self, watcher: &mut Watcher<StoredObject>, recovery: Option<&Recovery>) -> FollowEnd {
        let registry = Arc::clone(&self.registry);
        let mut is_busy = true;
        loop {
            tokio::select! {
                // Lowest priority: queued work must not delay anything that is ready.
                () = yield_now(), if is_busy => {}
                event = watcher.next(), if !is_busy => match event {
                    Ok(event) => self.follow(&event),
                    Err(_) => return FollowEnd::Compacted,
                },
                deletion = self.deletions.next() => self.reconsider(&deletion),
                () = self.expiry.due() => self.expiry.expire(&registry),
                () = self.content.refresh_due() => self.content.refresh(),
                () = recovered(recovery) => return FollowEnd::Recovered,
                _ = self.compaction.tick() => registry.store.age(),
                _ = self.list_expiry.tick() => {
                    registry.list_horizon.advance(registry.store.current_revision());
                    self.recount_charged_quotas();
                }
            }
            // Run tasks before reading the log, so that a housekeeper that always falls behind
            // makes progress.
            self.garbage.work(&registry, &mut self.deletions, BATCH);
            for namespace in std::mem::take(&mut self.stale_quotas) {
                quota::update_status(&*registry, &namespace);
            }
            if self.content.is_due() {
                self.content.process_due(&registry, &mut self.deletions).await;
            }
            let mut followed = 0;
            while followed < BATCH {
                match watcher.try_next() {
                    Ok(Some(event)) => self.follow(&event),
                    Ok(None) => break,
                    Err(_) => return FollowEnd::Compacted,
                }
                followed += 1;
            }
            let has_work = self.garbage.has_work() || self.content.is_due() || !self.stale_quotas.is_empty();
            is_busy = followed == BATCH || has_work;
        }
    }

    /// Corrects quotas that another server has charged for objects which it then did not store.
    fn recount_charged_quotas(&mut self) {
        if self.registry.database.is_some() {
            let quotas = self.registry.all(&KeyRange::resource("resourcequotas"));
            self.stale_quotas.extend(quotas.iter().map(|entry| Str::from(entry.object.tree().namespace())));
        }
    }

    /// Reacts to a write.
    fn follow(&mut self, event: &StoreEvent<StoredObject>) {
        if event.revision <= self.listed {
            return;
        }
        let (key, value) = (&event.key, &*event.object.tree());
        let is_new = match event.kind {
            EventKind::Deleted => return self.follow_deletion(key, value),
            EventKind::Created => true,
            EventKind::Modified => false,
        };
        self.expiry.written(key, event.revision);
        let has_controllers = self.registry.has_controllers;
        let owners = if has_controllers { self.garbage.set_owners(key, value.owner_references()) } else { Vec::new() };
        self.examine(key, value, &owners, is_new);
    }

    fn examine(&mut self, key: &Key, value: &Value, owners_before: &[Str], is_new: bool) {
        let registry = &*self.registry;
        if !registry.has_controllers {
            // The contents of a definition are deleted by kube-apiserver itself.
            if key.resource() != content::NAMESPACES {
                self.content.written(key, value, is_new);
            }
            return;
        }
        ensure_default_account(registry, key);
        self.garbage.update(registry, key, value, owners_before);
        self.content.written(key, value, is_new);
        claims::release_unused(registry, key, value);
        // The write may lower the usage, or the quota may be new.
        self.stale_quotas
            .extend(key.namespace().filter(|_| quota::may_free(&*self.registry, key, value)).map(Str::from));
    }

    /// Examines an object again after its deletion completed or became due for a retry.
    fn reconsider(&mut self, Deletion { by, key, gone, .. }: &Deletion) {
        match by {
            DeletingController::GarbageCollector => self.garbage.check(key, gone),
            DeletingController::Namespaces => self.content.reconsider(key),
        }
    }

    fn follow_deletion(&mut self, key: &Key, value: &Value) {
        let registry = &*self.registry;
        self.expiry.forget(key);
        if !registry.has_controllers {
            return self.content.deleted(key);
        }
        self.garbage.forget(registry, key, value);
        self.deletions.forget(key);
        if key.resource() == "serviceaccounts" && key.name() == DEFAULT {
            accounts::create_default(registry, key.namespace().unwrap_or_default());
        }
        self.content.deleted(key);
        claims::after_deletion(registry, key, value);
        self.stale_quotas.extend(key.namespace().map(Str::from));
    }
}

/// The object, or only its metadata if that is all that [`Housekeeper::examine`] reads.
fn examined_part<'o>(key: &Key, object: &'o StoredObject) -> Cow<'o, Value> {
    if EXAMINED_WHOLE.contains(&key.resource()) {
        return object.tree();
    }
    let metadata = object.field(&["metadata"]).map(Cow::into_owned).unwrap_or_default();
    Cow::Owned(tree::map([("metadata", metadata)]))
}

/// Creates the default account of a namespace, also after its deletion.
fn ensure_default_account(registry: &Registry, key: &Key) {
    if registry.has_plugin(AdmissionPlugin::ServiceAccount) && key.resource() == "namespaces" {
        accounts::create_default(registry, key.name());
    }
}

// Failures of the writes below are ignored. A changed or deleted object causes another event, and
// after a full disk all objects are examined again.

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

    use kubewright_core::options::{DeleteOptions, PropagationPolicy};

    use super::*;
    use crate::registry::{CreateRequest, DeleteOutcome, Ownership};
    use kubewright_storage::{Directory, Durability, OpenDisk, StoreOptions};
    use kubewright_testing::{assert_linear, processor_time};

    fn create(registry: &Registry, storage: &str, namespace: &str, object: &str) -> Arc<StoredObject> {
        let (catalog, value) = (registry.catalog(), object.parse().expect("valid JSON"));
        let resource = catalog.of_storage(storage).expect("it is built in");
        let (control, ownership, dry_run) = (None, Ownership::Keep, false);
        let made = registry.create(CreateRequest { resource, namespace, value, control, ownership, dry_run });
        made.unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    #[tokio::test]
    async fn failed_work_is_done_after_the_disk_recovers() {
        let (directory, is_full) = (Directory::new("tidy"), Arc::new(AtomicBool::new(false)));
        let opened = OpenDisk::on_full_disk(&directory.0, Durability::Immediate, &is_full);
        let (disk, contents) = opened.expect("it opens");
        let (stop, stopped) = watch::channel(false);
        let registry = Registry::restored(StoreOptions::default(), &disk, contents, stopped.clone());
        let registry = Arc::new(registry);
        let disk = disk.start(Arc::clone(&registry)).expect("a thread can be started");
        create(&registry, "namespaces", "", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}"#);
        let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},
            "spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
        create(&registry, "persistentvolumeclaims", "default", claim);
        let claims = registry.catalog().of_storage("persistentvolumeclaims").cloned().expect("it is built in");
        let deleted = registry.delete(&claims, "default", "data", &DeleteOptions::default(), &mut Vec::new(), None);
        assert!(matches!(deleted, Ok(DeleteOutcome::Pending(_))), "it is protected");
        disk.wait(0, registry.store.newest_revision()).await.expect("there is room");

        is_full.store(true, Ordering::SeqCst);
        let tidying = tokio::spawn(run(Arc::clone(&registry), Some(disk.recovery()), stopped));
        while !disk.recovery().has_failed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let key = claims.key("default", "data");
        assert!(registry.store.newest(&key).is_some());
        is_full.store(false, Ordering::SeqCst);
        let is_gone = async {
            while registry.store.newest(&key).is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_gone).await.expect("it is tried again");
        stop.send_replace(true);
        tidying.await.expect("no panic");
    }

    const DEFAULT: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}"#;

    fn registry() -> Arc<Registry> {
        let mut registry = Registry::new(StoreOptions::default(), watch::channel(false).1);
        registry.event_ttl = Duration::from_secs(1);
        create(&registry, "namespaces", "", DEFAULT);
        Arc::new(registry)
    }

    fn config_map(name: &str, metadata: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{metadata}}}}}"#)
    }

    /// Follows the log to its end and does all resulting work.
    fn settle(housekeeper: &mut Housekeeper, watcher: &mut Watcher<StoredObject>) {
        let registry = Arc::clone(&housekeeper.registry);
        loop {
            let event = watcher.try_next().expect("it is quick enough");
            event.iter().for_each(|event| housekeeper.follow(event));
            housekeeper.garbage.work(&registry, &mut housekeeper.deletions, BATCH);
            if event.is_none() && !housekeeper.garbage.has_work() {
                return;
            }
        }
    }

    /// Deletes an owner and its dependents one by one, with status writes in between. Returns the
    /// duration.
    fn delete_owner(policy: PropagationPolicy, dependents: usize) -> Duration {
        let registry = registry();
        let (mut housekeeper, start) = (Housekeeper::new(Arc::clone(&registry)), registry.store.current_revision());
        let mut watcher = registry.store.watch(&KeyRange::everything(), start).expect("it is now");
        let owner = create(&registry, "configmaps", "default", &config_map("owner", ""));
        let metadata = format!(
            r#","finalizers":["example.com/hold"],"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap",
            "name":"owner","uid":"{}","blockOwnerDeletion":true}}]"#,
            owner.value().uid()
        );
        let name = |number: usize| format!("d{number}");
        for number in 0..dependents {
            create(&registry, "configmaps", "default", &config_map(&name(number), &metadata));
        }
        settle(&mut housekeeper, &mut watcher);
        let maps = registry.catalog().of_storage("configmaps").cloned().expect("it is built in");
        let options = DeleteOptions { propagation_policy: Some(policy), ..DeleteOptions::default() };
        let begin = processor_time();
        let deleted = registry.delete(&maps, "default", "owner", &options, &mut Vec::new(), None);
        assert!(deleted.is_ok());
        settle(&mut housekeeper, &mut watcher);
        for number in 0..dependents {
            let write = |name: &str, change: &dyn Fn(&mut Value)| {
                let written = registry.change(&maps, "default", name, |value| {
                    let mut value = value.clone();
                    change(&mut value);
                    Ok(value)
                });
                drop(written);
            };
            write("owner", &|owner| {
                kubewright_objects::object::tree::set(owner, &["data", "left"], number.to_string())
            });
            write(&name(number), &|dependent| drop(dependent.remove_meta("finalizers")));
            settle(&mut housekeeper, &mut watcher);
        }
        assert!(registry.store.get(&maps.key("default", "owner")).is_none());
        let last = registry.store.get(&maps.key("default", &name(dependents - 1)));
        assert_eq!(last.is_some(), policy == PropagationPolicy::Orphan);
        begin
    }

    #[tokio::test]
    async fn the_deletion_of_an_owner_is_linear_in_its_dependents() {
        for policy in [PropagationPolicy::Foreground, PropagationPolicy::Background, PropagationPolicy::Orphan] {
            assert_linear(400, |count| delete_owner(policy, count));
        }
    }

    #[tokio::test]
    async fn a_removed_reference_no_longer_blocks_the_owner() {
        let registry = registry();
        let (mut housekeeper, start) = (Housekeeper::new(Arc::clone(&registry)), registry.store.current_revision());
        let mut watcher = registry.store.watch(&KeyRange::everything(), start).expect("it is now");
        let owner = create(&registry, "configmaps", "default", &config_map("owner", ""));
        let metadata = format!(
            r#","deletionGracePeriodSeconds":0,"finalizers":["example.com/hold"],"ownerReferences":[{{"apiVersion":"v1",
            "kind":"ConfigMap","name":"owner","uid":"{}","blockOwnerDeletion":true}}]"#,
            owner.value().uid()
        );
        create(&registry, "configmaps", "default", &config_map("held", &metadata));
        let maps = registry.catalog().of_storage("configmaps").cloned().expect("it is built in");
        let policy = Some(PropagationPolicy::Foreground);
        let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
        assert!(registry.delete(&maps, "default", "owner", &options, &mut Vec::new(), None).is_ok());
        settle(&mut housekeeper, &mut watcher);
        assert!(registry.store.get(&maps.key("default", "owner")).is_some(), "its dependent is held");
        let released = registry.change(&maps, "default", "held", |value| {
            let mut value = value.clone();
            value.remove_meta("ownerReferences");
            Ok(value)
        });
        assert!(released.is_ok());
        settle(&mut housekeeper, &mut watcher);
        assert!(registry.store.get(&maps.key("default", "owner")).is_none());
    }

    #[tokio::test]
    async fn a_cycle_of_owners_does_not_block_foreground_deletion() {
        let registry = registry();
        let (mut housekeeper, start) = (Housekeeper::new(Arc::clone(&registry)), registry.store.current_revision());
        let mut watcher = registry.store.watch(&KeyRange::everything(), start).expect("it is now");
        let maps = registry.catalog().of_storage("configmaps").cloned().expect("it is built in");
        let names = ["a", "b", "c"];
        let objects = names.map(|name| create(&registry, "configmaps", "default", &config_map(name, "")));
        for (at, name) in names.into_iter().enumerate() {
            let (owner, uid) = (names[(at + 1) % names.len()], objects[(at + 1) % names.len()].value().uid());
            let references = format!(
                r#"[{{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"{uid}","blockOwnerDeletion":true}}]"#
            );
            let references = Value::from_json(references.as_bytes()).expect("JSON");
            let changed = registry.change(&maps, "default", name, |value| {
                let mut value = value.clone();
                value.set_meta("ownerReferences", references.clone());
                Ok(value)
            });
            assert!(changed.is_ok());
        }
        settle(&mut housekeeper, &mut watcher);
        let policy = Some(PropagationPolicy::Foreground);
        let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
        assert!(registry.delete(&maps, "default", "a", &options, &mut Vec::new(), None).is_ok());
        settle(&mut housekeeper, &mut watcher);
        for name in names {
            assert!(registry.store.get(&maps.key("default", name)).is_none(), "{name} is gone");
        }
    }

    /// Keeps writing more than one batch until an object is gone.
    async fn write_until_gone(registry: &Registry, key: &Key) {
        let maps = registry.catalog().of_storage("configmaps").cloned().expect("it is built in");
        for number in 0..200_000 {
            if number % (5 * BATCH) == 0 {
                if registry.store.get(key).is_none() {
                    return;
                }
                yield_now().await;
            }
            let written = registry.change(&maps, "default", "busy", |value| {
                let mut value = value.clone();
                kubewright_objects::object::tree::set(&mut value, &["data", "n"], number.to_string());
                Ok(value)
            });
            assert!(written.is_ok());
        }
        panic!("{key} stays");
    }

    #[tokio::test]
    async fn queued_work_is_done_during_continuous_writes() {
        let (stop, stopped) = watch::channel(false);
        // With a short log, the housekeeper always falls behind.
        for window in [100_000, 100] {
            let mut registry = Registry::new(StoreOptions::default().window(window), stopped.clone());
            registry.event_ttl = Duration::from_secs(1);
            create(&registry, "namespaces", "", DEFAULT);
            create(&registry, "configmaps", "default", &config_map("busy", ""));
            let registry = Arc::new(registry);
            let keeping = tokio::spawn(run(Arc::clone(&registry), None, stopped.clone()));
            let event = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"reason":"r","type":"Normal",
                "involvedObject":{"kind":"Pod","namespace":"default","name":"p"}}"#;
            create(&registry, "events", "default", event);
            let absent = r#","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"1"}]"#;
            create(&registry, "configmaps", "default", &config_map("orphan", absent));
            write_until_gone(&registry, &Key::namespaced("configmaps", "default", "orphan")).await;
            write_until_gone(&registry, &Key::namespaced("events", "default", "e")).await;
            keeping.abort();
        }
        drop(stop);
    }
}
