//! Namespaces and definitions that are deleted: their content goes first, then they do.
//!
//! Each is looked at when the log has been followed to its end, once for all that has happened to it meanwhile: whoever looked after each
//! object that goes would go through all of its neighbours each time. `namespaces` and `definitions` say what is done then.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kubewright_core::{Str, Value};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::deletions::Deletions;
use super::{definitions, namespaces};
use crate::object::Meta;
use crate::registry::Registry;
use crate::storage::Key;

pub(super) const NAMESPACES: &str = "namespaces";
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What is told of the content that is left is no older than this.
const REFRESH: Duration = Duration::from_secs(1);
/// So many objects are looked at before others have their turn.
const TURN: usize = 64;

/// Namespaces and definitions that wait for their content to go.
#[derive(Default)]
pub(super) struct Content {
    waiting: HashMap<Key, Waiting>,
    /// Those that have to be looked at.
    due: BTreeSet<Key>,
    /// Those of which something has changed that can wait until `refresh`.
    stale: BTreeSet<Key>,
    refresh: Option<Instant>,
}

/// How far the deletion of some content has come.
#[derive(Debug, Default, Clone)]
pub(super) struct Waiting {
    /// How many objects there were when we looked last, less those of which we have heard since that they are gone.
    pub(super) left: usize,
    /// It is time to look again when no more than this many are left: half of those that stayed, so that many objects which go one by one
    /// are not counted each time.
    pub(super) look_at: usize,
    /// The version that we wrote ourselves, which is no reason to look.
    pub(super) own_version: Str,
}

impl Waiting {
    /// After a look that found so many objects, of which so many stay for now.
    pub(super) fn new(found: usize, staying: usize, own_version: Str) -> Self {
        Waiting { left: found, look_at: staying / 2, own_version }
    }
}

impl Content {
    /// Notes that an object has come or has been changed.
    pub(super) fn written(&mut self, key: &Key, value: &Value, is_new: bool) {
        if matches!(key.resource(), NAMESPACES | DEFINITIONS) && value.is_being_deleted() {
            let is_own = |waiting: &Waiting| *waiting.own_version == *value.resource_version();
            if !self.waiting.get(key).is_some_and(is_own) {
                self.due.insert(key.clone());
            }
        }
        for container in self.waiting_for(key) {
            match is_new {
                true => drop(self.due.insert(container)),
                false => self.outdate(container),
            }
        }
    }

    /// Notes that an object is gone.
    pub(super) fn deleted(&mut self, key: &Key) {
        self.waiting.remove(key);
        for container in self.waiting_for(key) {
            let Some(waiting) = self.waiting.get_mut(&container) else { continue };
            waiting.left = waiting.left.saturating_sub(1);
            match waiting.left <= waiting.look_at {
                true => drop(self.due.insert(container)),
                false => self.outdate(container),
            }
        }
    }

    /// The namespace and the definition that wait for an object.
    fn waiting_for(&self, key: &Key) -> Vec<Key> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let namespace = key.namespace().map(|namespace| Key::cluster(NAMESPACES, namespace));
        let definition = Key::cluster(DEFINITIONS, key.resource());
        namespace.into_iter().chain([definition]).filter(|container| self.waiting.contains_key(container)).collect()
    }

    fn outdate(&mut self, container: Key) {
        self.stale.insert(container);
        self.refresh.get_or_insert_with(|| Instant::now() + REFRESH);
    }

    /// Notes that the deletion of an object has been decided, or should be tried again. There may be many, so that it can wait.
    pub(super) fn reconsider(&mut self, key: &Key) {
        if let Some(namespace) = key.namespace() {
            self.outdate(Key::cluster(NAMESPACES, namespace));
        }
    }

    /// Whether anything has to be looked at.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Waits until what can wait is due, if there is any. Cancel safe.
    pub(super) async fn outdated(&self) {
        match self.refresh {
            Some(refresh) => sleep_until(refresh).await,
            None => std::future::pending().await,
        }
    }

    /// Makes due what could wait.
    pub(super) fn refresh(&mut self) {
        self.refresh = None;
        self.due.append(&mut self.stale);
    }

    /// Looks at all that is due, each once.
    pub(super) async fn tidy(&mut self, registry: &Registry, deletions: &mut Deletions) {
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

/// Lets others have their turn, each so many objects.
pub(super) async fn pace(count: usize) {
    if count.is_multiple_of(TURN) {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn objects_that_go_one_by_one_are_counted_each_time_that_half_of_them_are_gone() {
        let shop = Key::cluster(NAMESPACES, "shop");
        let mut content = Content::default();
        content.waiting.insert(shop.clone(), Waiting::new(1500, 1000, Str::new()));
        let go = |content: &mut Content, count: usize| {
            (0..count).for_each(|pod| content.deleted(&Key::namespaced("pods", "shop", &pod.to_string())));
            content.is_due()
        };
        // Five hundred went at once when it was looked at.
        assert!(!go(&mut content, 500) && !go(&mut content, 499) && go(&mut content, 1));
        content.due.clear();
        content.waiting.insert(shop.clone(), Waiting::new(500, 500, Str::new()));
        assert!(!go(&mut content, 3));
        content.deleted(&Key::namespaced("pods", "elsewhere", "a"));
        // What is told of it is not left behind.
        let start = Instant::now();
        content.outdated().await;
        assert_eq!(start.elapsed().as_secs(), REFRESH.as_secs());
        content.refresh();
        assert_eq!(content.due, BTreeSet::from([shop]));
    }

    #[test]
    fn what_we_write_ourselves_is_no_reason_to_look_again() {
        let shop = Key::cluster(NAMESPACES, "shop");
        let value = |version: &str| -> Value {
            let meta = format!(r#"{{"metadata":{{"deletionTimestamp":"x","resourceVersion":"{version}"}}}}"#);
            meta.parse().expect("valid JSON")
        };
        let mut content = Content::default();
        content.waiting.insert(shop.clone(), Waiting::new(1, 1, "7".into()));
        content.written(&shop, &value("7"), false);
        assert!(!content.is_due());
        content.written(&Key::namespaced("pods", "shop", "late"), &Value::Null, true);
        assert!(content.is_due());
        content.due.clear();
        content.written(&shop, &value("8"), false);
        assert!(content.is_due());
    }
}
