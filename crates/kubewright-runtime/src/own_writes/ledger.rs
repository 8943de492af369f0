//! Writes of each key that the controller's caches do not show yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

use kubewright_core::ObjectKey;

use super::write::{ExpectedEffect, OwnWrite};

/// The pending writes of one controller, by the reconciled key.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<LedgerState>,
    /// Number of keys with writes, and of awaited objects, readable without the lock.
    keys: AtomicUsize,
    objects: AtomicUsize,
}

#[derive(Debug, Default)]
struct LedgerState {
    writes_of: HashMap<ObjectKey, Vec<OwnWrite>>,
    /// Keys put aside by a worker, by the object that must appear in the cache.
    waiting_for: HashMap<ObjectKey, Vec<ObjectKey>>,
}

impl Ledger {
    /// Whether no write is pending. Called for each key, so it must be cheap.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.load(Ordering::Acquire) == 0
    }

    /// Whether a key waits to be woken. Called for each event.
    pub(crate) fn is_anybody_waiting(&self) -> bool {
        // Ordered after the cache update; see `settle`.
        fence(Ordering::SeqCst);
        self.objects.load(Ordering::Acquire) > 0
    }

    /// Records a write of `key`, which replaces an earlier one of the same object. A deletion does
    /// not replace it: a cache without the object may not have seen its creation yet.
    #[inline]
    pub(crate) fn note(&self, key: &ObjectKey, write: OwnWrite) {
        self.change(|state| {
            let writes = state.writes_of.entry(key.clone()).or_default();
            let is_past = |other: &OwnWrite| {
                matches!((&other.effect, &write.effect), (ExpectedEffect::Version(_), ExpectedEffect::Gone(_)))
            };
            writes.retain(|other| other.relation != write.relation || other.object != write.object || is_past(other));
            writes.push(write);
        });
    }

    /// Removes the writes that `has_seen`. Returns true if none of `key` is left; otherwise the key
    /// waits to be woken.
    ///
    /// `has_seen` is called under the lock, which events need too: an event that it misses finds
    /// the key waiting. The key is registered as waiting before `has_seen` is called, or an event
    /// in between would be missed.
    pub(crate) fn settle(&self, key: &ObjectKey, has_seen: impl Fn(&OwnWrite) -> bool) -> bool {
        self.change(|state| {
            self.objects.store(state.waiting_for.len() + 1, Ordering::Release);
            fence(Ordering::SeqCst);
            let Some(writes) = state.writes_of.get_mut(key) else { return true };
            for seen in writes.extract_if(.., |write| has_seen(write)) {
                // An event may never come, for example for an object outside of the cache's
                // selector.
                stop_waiting(&mut state.waiting_for, &seen.object, key);
            }
            for write in &*writes {
                let waiting = state.waiting_for.entry(write.object.clone()).or_default();
                if !waiting.contains(key) {
                    waiting.push(key.clone());
                }
            }
            let is_all = writes.is_empty();
            if is_all {
                state.writes_of.remove(key);
            }
            is_all
        })
    }

    /// Removes all writes of `key`, which then waits for nothing.
    #[inline]
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.change(|state| {
            for write in state.writes_of.remove(key).unwrap_or_default() {
                stop_waiting(&mut state.waiting_for, &write.object, key);
            }
        });
    }

    /// The pending writes of `key`.
    #[inline]
    pub(crate) fn writes_of(&self, key: &ObjectKey) -> Vec<OwnWrite> {
        self.change(|state| state.writes_of.get(key).cloned().unwrap_or_default())
    }

    /// The keys with a write for which `is_lost` returns true.
    pub(crate) fn keys_that_lost(&self, is_lost: impl Fn(&OwnWrite) -> bool) -> Vec<ObjectKey> {
        self.change(|state| {
            let lost = state.writes_of.iter().filter(|(_, writes)| writes.iter().any(&is_lost));
            lost.map(|(key, _)| key.clone()).collect()
        })
    }

    /// Removes and returns the keys that wait for `object`.
    pub(crate) fn take_waiting_for(&self, object: &ObjectKey) -> Vec<ObjectKey> {
        self.change(|state| state.waiting_for.remove(object).unwrap_or_default())
    }

    fn change<R>(&self, change: impl FnOnce(&mut LedgerState) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.keys.store(state.writes_of.len(), Ordering::Release);
        self.objects.store(state.waiting_for.len(), Ordering::Release);
        result
    }
}

/// Stops waking `key` for `object`.
fn stop_waiting(waiting_for: &mut HashMap<ObjectKey, Vec<ObjectKey>>, object: &ObjectKey, key: &ObjectKey) {
    let Some(waiting) = waiting_for.get_mut(object) else { return };
    waiting.retain(|other| other != key);
    if waiting.is_empty() {
        waiting_for.remove(object);
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::DynamicObject;
    use tokio::time::Instant;

    use super::*;
    use crate::own_writes::Coverage;

    fn write(relation: usize, object: &str) -> OwnWrite {
        let (object, effect) = (ObjectKey::cluster(object), ExpectedEffect::Gone("uid".into()));
        OwnWrite { relation, object, effect, kept: Coverage::Yes, at: Instant::now() }
    }

    #[test]
    fn a_key_whose_writes_are_cached_without_an_event_stops_waiting() {
        let (ledger, one, two) = (Ledger::default(), ObjectKey::cluster("one"), ObjectKey::cluster("two"));
        for key in [&one, &two] {
            ledger.note(key, write(0, "web"));
            assert!(!ledger.settle(key, |_| false));
        }
        assert!(ledger.settle(&one, |_| true) && ledger.is_anybody_waiting());
        assert_eq!(ledger.take_waiting_for(&ObjectKey::cluster("web")), std::slice::from_ref(&two));
        assert!(!ledger.settle(&two, |_| false));
        assert!(ledger.settle(&two, |_| true) && !ledger.is_anybody_waiting() && ledger.is_empty());
    }

    #[test]
    fn writes_of_a_forgotten_key_are_dropped() {
        let (ledger, one, two) = (Ledger::default(), ObjectKey::cluster("one"), ObjectKey::cluster("two"));
        for key in [&one, &two] {
            ledger.note(key, write(0, "web"));
            assert!(!ledger.settle(key, |_| false));
        }
        ledger.forget(&one);
        assert!(ledger.writes_of(&one).is_empty() && ledger.is_anybody_waiting());
        assert_eq!(ledger.take_waiting_for(&ObjectKey::cluster("web")), std::slice::from_ref(&two));
        ledger.forget(&two);
        assert!(ledger.is_empty() && !ledger.is_anybody_waiting());
    }

    // An event arrives between the check of the cache and the registration of the waiter.
    #[test]
    fn a_key_is_registered_as_waiting_before_its_check() {
        let (ledger, key) = (Ledger::default(), ObjectKey::cluster("one"));
        ledger.note(&key, write(0, "web"));
        let looks = std::cell::Cell::new(false);
        ledger.settle(&key, |_| {
            looks.set(ledger.is_anybody_waiting());
            false
        });
        assert!(looks.get(), "whoever looks now takes the lock, and waits for the note");
    }

    #[test]
    fn a_created_and_deleted_object_is_observed_when_both_events_are() {
        let (ledger, key) = (Ledger::default(), ObjectKey::cluster("one"));
        let mut created = write(0, "web");
        created.effect = ExpectedEffect::Version("10".into());
        ledger.note(&key, created.clone());
        ledger.note(&key, write(0, "web"));
        let is_in_cache_at = |version: &str| {
            let version = version.into();
            ledger.settle(&key, |write| write.is_in(None::<&DynamicObject>, &version))
        };
        assert!(!is_in_cache_at("9"), "the cache has yet to hear that it was there");
        assert!(is_in_cache_at("11"));
        // Only writes after a deletion are still pending.
        ledger.note(&key, write(0, "web"));
        ledger.note(&key, created);
        assert_eq!(ledger.writes_of(&key).len(), 1);
    }

    #[test]
    fn a_key_with_writes_of_two_relations_waits_for_both() {
        let (ledger, key) = (Ledger::default(), ObjectKey::cluster("one"));
        ledger.note(&key, write(0, "web"));
        ledger.note(&key, write(1, "web"));
        assert!(!ledger.settle(&key, |_| false));
        assert!(!ledger.settle(&key, |write| write.relation == 0));
        assert_eq!(ledger.take_waiting_for(&ObjectKey::cluster("web")), [key]);
    }
}
