//! What a cluster tidies up by itself, driven by the log of writes: dependents of deleted objects, the content of
//! deleted namespaces, and the objects of deleted definitions.
//!
//! One task does all of it, in the order of the log, so that the same writes always have the same consequences.

mod content;
mod garbage;

use std::sync::Arc;

use tokio::sync::watch;

use crate::registry::Registry;
use crate::storage::{EventKind, ListOptions, Scope};
use garbage::Garbage;

/// Tidies up until told to stop.
pub(crate) async fn run(registry: Arc<Registry>, mut stop: watch::Receiver<bool>) {
    loop {
        let mut garbage = Garbage::default();
        let Ok(page) = registry.store.list(&Scope::everything(), ListOptions::default()) else { return };
        let Ok(mut watcher) = registry.store.watch(&Scope::everything(), page.revision) else { continue };
        page.entries.iter().for_each(|(key, entry)| garbage.learn(key, &entry.object.value));
        for (key, entry) in &page.entries {
            garbage.look_after(&registry, key, &entry.object.value);
            content::look_after(&registry, key, &entry.object.value);
        }
        loop {
            let event = tokio::select! {
                event = watcher.next() => event,
                _ = stop.wait_for(|stopped| *stopped) => return,
            };
            // Too slow for the log: look at everything again.
            let Ok(event) = event else { break };
            let value = &event.object.value;
            match event.kind {
                EventKind::Deleted => {
                    let orphans = garbage.forget(&event.key, value);
                    garbage.collect(&registry, value, orphans);
                    content::after_deletion(&registry, &event.key);
                }
                EventKind::Created | EventKind::Modified => {
                    garbage.learn(&event.key, value);
                    garbage.look_after(&registry, &event.key, value);
                    content::look_after(&registry, &event.key, value);
                }
            }
        }
    }
}
