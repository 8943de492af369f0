//! What a cluster tidies up by itself, driven by the log of writes: dependents of deleted objects, the content of
//! deleted namespaces, the objects of deleted definitions, claims that nobody uses any more, events that have become old, and what quotas
//! count of it.
//! Where service accounts are wanted, each namespace gets its own.
//!
//! One task does all of it, in the order of the log, so that the same writes always have the same consequences.

mod claims;
mod content;
mod expiry;
mod garbage;

use std::sync::Arc;
use std::time::Duration;

use kubewright_core::Value;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::admission::{accounts, quota};
use crate::object::Meta;
use crate::registry::Registry;
use crate::storage::{EventKind, Key, ListOptions, Scope};
use expiry::Expiry;
use garbage::Garbage;

/// How often to look for writes that have become too old to be remembered: each write does as well.
const AGEING: Duration = Duration::from_secs(30);

/// Tidies up until told to stop.
pub(crate) async fn run(registry: Arc<Registry>, mut stop: watch::Receiver<bool>) {
    let mut expiry = Expiry::new(registry.event_ttl);
    let mut ageing = interval(AGEING);
    ageing.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut garbage = Garbage::default();
        let Ok(page) = registry.store.list(&Scope::everything(), ListOptions::default()) else { return };
        let Ok(mut watcher) = registry.store.watch(&Scope::everything(), page.revision) else { continue };
        page.entries.iter().for_each(|(key, entry)| garbage.learn(key, &entry.object.tree()));
        // Given away one by one: whoever held them would keep what is written over.
        for (key, entry) in page.entries {
            let value = entry.object.tree();
            expiry.found(&key, entry.revision, &value);
            give_account(&registry, &key);
            garbage.look_after(&registry, &key, &value);
            content::look_after(&registry, &key, &value);
            claims::look_after(&registry, &key, &value);
            count(&registry, &key, &value);
        }
        loop {
            let event = tokio::select! {
                event = watcher.next() => event,
                () = expiry.due() => {
                    expiry.expire(&registry);
                    continue;
                }
                _ = ageing.tick() => {
                    registry.store.age();
                    continue;
                }
                _ = stop.wait_for(|stopped| *stopped) => return,
            };
            // Too slow for the log: look at everything again.
            let Ok(event) = event else { break };
            let value = &*event.object.tree();
            match event.kind {
                EventKind::Deleted => {
                    let orphans = garbage.forget(&event.key, value);
                    expiry.forget(&event.key);
                    if event.key.resource() == "serviceaccounts" && event.key.name() == accounts::DEFAULT {
                        accounts::create_default(&registry, event.key.namespace().unwrap_or_default());
                    }
                    garbage.collect(&registry, value, orphans);
                    content::after_deletion(&registry, &event.key);
                    claims::after_deletion(&registry, &event.key, value);
                    if let Some(namespace) = event.key.namespace() {
                        quota::recount(&registry, namespace);
                    }
                }
                EventKind::Created | EventKind::Modified => {
                    expiry.written(&event.key, event.revision);
                    give_account(&registry, &event.key);
                    garbage.learn(&event.key, value);
                    garbage.look_after(&registry, &event.key, value);
                    content::look_after(&registry, &event.key, value);
                    claims::look_after(&registry, &event.key, value);
                    count(&registry, &event.key, value);
                }
            }
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

// What has changed or gone meanwhile needs nothing from us any more, so refusals are left alone.

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
