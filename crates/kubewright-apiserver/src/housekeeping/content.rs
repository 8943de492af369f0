//! Schedules the deletion of the contents of namespaces and definitions.
//!
//! A container (a namespace or a definition) is examined once the log is followed to its end. After
//! each deleted object would be too often, because an examination lists all remaining objects.
//! `namespaces` and `definitions` do the work.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kubewright_core::{Str, Value};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::deletions::Deletions;
use super::{definitions, namespaces};
use crate::registry::Registry;
use kubewright_objects::object::Meta;
use kubewright_storage::Key;

pub(super) const NAMESPACES: &str = "namespaces";
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Maximum age of the reported remaining content.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Number of objects processed before yielding.
const YIELD_AFTER: usize = 64;

/// Terminating namespaces and definitions that still have content.
#[derive(Default)]
pub(super) struct ContentCleanup {
    waiting: HashMap<Key, RemainingContent>,
    /// Containers to examine now.
    due: BTreeSet<Key>,
    /// Containers whose report may be updated at `refresh`.
    stale: BTreeSet<Key>,
    refresh: Option<Instant>,
}

/// The progress of one container.
#[derive(Debug, Default, Clone)]
pub(super) struct RemainingContent {
    /// Number of objects at the last examination, minus those deleted since.
    pub(super) left: usize,
    /// Examine the container again at this number of objects. It is half of those that stayed, so
    /// that many single deletions do not trigger a count each.
    pub(super) examine_at: usize,
    /// The version that this task wrote itself, which triggers no examination.
    pub(super) own_version: Str,
}

impl RemainingContent {
    /// The state after finding `found` objects, of which `staying` could not be deleted yet.
    pub(super) fn new(found: usize, staying: usize, own_version: Str) -> Self {
        RemainingContent { left: found, examine_at: staying / 2, own_version }
    }
}

impl ContentCleanup {
    /// Records a write.
    pub(super) fn written(&mut self, key: &Key, value: &Value, is_new: bool) {
        if matches!(key.resource(), NAMESPACES | DEFINITIONS) && value.is_being_deleted() {
            let is_own = |waiting: &RemainingContent| *waiting.own_version == *value.resource_version();
            if !self.waiting.get(key).is_some_and(is_own) {
                self.due.insert(key.clone());
            }
        }
        for container in self.waiting_for(key) {
            if is_new {
                self.due.insert(container);
            } else {
                self.mark_stale(container);
            }
        }
    }

    /// Records a deletion.
    pub(super) fn deleted(&mut self, key: &Key) {
        self.waiting.remove(key);
        for container in self.waiting_for(key) {
            let Some(waiting) = self.waiting.get_mut(&container) else { continue };
            waiting.left = waiting.left.saturating_sub(1);
            if waiting.left <= waiting.examine_at {
                self.due.insert(container);
            } else {
                self.mark_stale(container);
            }
        }
    }

    /// The terminating namespace and definition that contain an object.
    fn waiting_for(&self, key: &Key) -> Vec<Key> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let namespace = key.namespace().map(|namespace| Key::cluster(NAMESPACES, namespace));
        let definition = Key::cluster(DEFINITIONS, key.resource());
        namespace.into_iter().chain([definition]).filter(|container| self.waiting.contains_key(container)).collect()
    }

    fn mark_stale(&mut self, container: Key) {
        self.stale.insert(container);
        self.refresh.get_or_insert_with(|| Instant::now() + MAX_AGE);
    }

    /// Records the outcome of a webhook call for an object. It may be one of many, so the report
    /// can wait.
    pub(super) fn reconsider(&mut self, key: &Key) {
        if let Some(namespace) = key.namespace() {
            self.mark_stale(Key::cluster(NAMESPACES, namespace));
        }
    }

    /// Whether a container has to be examined.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Waits until outdated reports are due. Cancel safe.
    pub(super) async fn refresh_due(&self) {
        match self.refresh {
            Some(refresh) => sleep_until(refresh).await,
            None => std::future::pending().await,
        }
    }

    /// Marks outdated reports as due.
    pub(super) fn refresh(&mut self) {
        self.refresh = None;
        self.due.append(&mut self.stale);
    }

    /// Examines each due container once.
    pub(super) async fn process_due(&mut self, registry: &Registry, deletions: &mut Deletions) {
        for key in std::mem::take(&mut self.due) {
            self.stale.remove(&key);
            let waiting = match key.resource() {
                NAMESPACES => namespaces::empty(registry, deletions, &key).await,
                _ => definitions::empty(registry, &key).await,
            };
            match waiting {
                Some(waiting) => drop(self.waiting.insert(key, waiting)),
                None => drop(self.waiting.remove(&key)),
            }
        }
    }
}

/// Yields after every [`YIELD_AFTER`] objects.
pub(super) async fn yield_regularly(count: usize) {
    if count.is_multiple_of(YIELD_AFTER) {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn remaining_objects_are_counted_each_time_they_halve() {
        let shop = Key::cluster(NAMESPACES, "shop");
        let mut content = ContentCleanup::default();
        content.waiting.insert(shop.clone(), RemainingContent::new(1500, 1000, Str::new()));
        let go = |content: &mut ContentCleanup, count: usize| {
            (0..count).for_each(|pod| content.deleted(&Key::namespaced("pods", "shop", &pod.to_string())));
            content.is_due()
        };
        // The scan found 1500 objects and deleted 500 of them at once.
        assert!(!go(&mut content, 500) && !go(&mut content, 499) && go(&mut content, 1));
        content.due.clear();
        content.waiting.insert(shop.clone(), RemainingContent::new(500, 500, Str::new()));
        assert!(!go(&mut content, 3));
        content.deleted(&Key::namespaced("pods", "elsewhere", "a"));
        // The report catches up eventually.
        let start = Instant::now();
        content.refresh_due().await;
        assert_eq!(start.elapsed().as_secs(), MAX_AGE.as_secs());
        content.refresh();
        assert_eq!(content.due, BTreeSet::from([shop]));
    }

    #[test]
    fn own_writes_do_not_trigger_an_examination() {
        let shop = Key::cluster(NAMESPACES, "shop");
        let value = |version: &str| -> Value {
            let meta = format!(r#"{{"metadata":{{"deletionTimestamp":"x","resourceVersion":"{version}"}}}}"#);
            meta.parse().expect("valid JSON")
        };
        let mut content = ContentCleanup::default();
        content.waiting.insert(shop.clone(), RemainingContent::new(1, 1, "7".into()));
        content.written(&shop, &value("7"), false);
        assert!(!content.is_due());
        content.written(&Key::namespaced("pods", "shop", "late"), &Value::Null, true);
        assert!(content.is_due());
        content.due.clear();
        content.written(&shop, &value("8"), false);
        assert!(content.is_due());
    }
}
