//! Deletes events that have not been written for a while.
//!
//! In a cluster, etcd leases do this. Here each event waits in a queue ordered by deadline, so no
//! scan is needed. After a restart, the deadline follows from the timestamps in the event.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kubewright_core::{Time, Value};
use kubewright_net::clock;
use tokio::time::{Instant, sleep_until};

use crate::registry::Registry;
use kubewright_objects::object::tree;
use kubewright_storage::Key;

/// The storage name of events of both groups.
const EVENTS: &str = "events";
/// Number of events deleted before yielding.
const YIELD_AFTER: usize = 256;

/// Events with their deadlines, soonest first.
pub(super) struct EventExpiry {
    /// How long an event is kept. Zero keeps it forever.
    time_to_live: Duration,
    /// Invariant: holds `(deadline, key)` exactly when `known[key]` has that deadline.
    by_deadline: BTreeSet<(Instant, Key)>,
    /// The deadline of each event, and the revision that it must still have then.
    known: HashMap<Key, (Instant, u64)>,
}

impl EventExpiry {
    pub(super) fn new(time_to_live: Duration) -> Self {
        EventExpiry { time_to_live, by_deadline: BTreeSet::new(), known: HashMap::new() }
    }

    /// Records a write that just happened.
    pub(super) fn written(&mut self, key: &Key, revision: u64) {
        self.schedule(key, revision, Duration::ZERO);
    }

    /// Records an object found in a list.
    pub(super) fn found(&mut self, key: &Key, revision: u64, value: &Value) {
        if key.resource() == EVENTS && self.known.get(key).is_none_or(|(_, known)| *known != revision) {
            self.schedule(key, revision, age(value));
        }
    }

    fn schedule(&mut self, key: &Key, revision: u64, age: Duration) {
        if key.resource() != EVENTS || self.time_to_live.is_zero() {
            return;
        }
        self.forget(key);
        // A deadline beyond the range of the clock never comes.
        let Some(deadline) = Instant::now().checked_add(self.time_to_live.saturating_sub(age)) else { return };
        self.known.insert(key.clone(), (deadline, revision));
        self.by_deadline.insert((deadline, key.clone()));
    }

    /// Drops a deleted object.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some((deadline, _)) = self.known.remove(key) {
            self.by_deadline.remove(&(deadline, key.clone()));
        }
    }

    /// Waits for the next deadline, if there is one. Cancel safe.
    pub(super) async fn due(&self) {
        match self.by_deadline.first() {
            Some((deadline, _)) => sleep_until(*deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Deletes expired events.
    pub(super) fn expire(&mut self, registry: &Registry) {
        for _ in 0..YIELD_AFTER {
            let Some((deadline, key)) = self.by_deadline.first() else { return };
            if *deadline > Instant::now() {
                return;
            }
            let key = key.clone();
            let revision = self.known.get(&key).map(|(_, revision)| *revision).unwrap_or_default();
            self.forget(&key);
            // If the event was written meanwhile, this does nothing, and the log schedules it
            // again.
            registry.remove(&key, revision);
        }
    }
}

/// The time since the last write of an event, by its own timestamps.
fn age(event: &Value) -> Duration {
    let own =
        [&["lastTimestamp"][..], &["eventTime"], &["series", "lastObservedTime"], &["metadata", "creationTimestamp"]];
    let own = own.into_iter().map(|path| tree::text(event, path));
    let writes = tree::items(event, &["metadata", "managedFields"]).iter().map(|entry| tree::text(entry, &["time"]));
    let last = own.chain(writes).filter_map(|time| Time::parse(time.as_bytes()).ok()).max();
    last.and_then(|last| clock::now().duration_since(last)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_an_event_counts_from_the_last_time_that_it_names() {
        let ago = |seconds: u64| Time::now().checked_sub(Duration::from_secs(seconds)).expect("a time").to_string();
        let micro = ago(100).replace('Z', ".123456Z");
        for (event, want) in [
            (format!(r#"{{"metadata":{{"creationTimestamp":"{}"}},"eventTime":null}}"#, ago(300)), 300),
            (format!(r#"{{"metadata":{{"creationTimestamp":"{}"}},"lastTimestamp":"{}"}}"#, ago(300), ago(200)), 200),
            (format!(r#"{{"series":{{"lastObservedTime":"{micro}"}},"lastTimestamp":"{}"}}"#, ago(200)), 100),
            (format!(r#"{{"metadata":{{"managedFields":[{{"time":"{}"}},{{"time":"{}"}}]}}}}"#, ago(90), ago(50)), 50),
            (r#"{"lastTimestamp":"2999-01-01T00:00:00Z"}"#.to_owned(), 0),
            ("{}".to_owned(), 0),
        ] {
            let age = age(&event.parse().expect("valid JSON")).as_secs();
            assert!((want..want + 3).contains(&age), "{age} {event}");
        }
    }
}
