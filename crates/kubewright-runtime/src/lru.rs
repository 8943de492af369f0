//! An LRU map.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Holds at most `limit` entries.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    /// Invariant: holds `(use, value)` for a key exactly when `key_of[use]` is the key.
    entries: HashMap<K, (u64, V)>,
    key_of: BTreeMap<u64, K>,
    uses: u64,
    limit: usize,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    pub(crate) fn new(limit: usize) -> Self {
        Lru { entries: HashMap::new(), key_of: BTreeMap::new(), uses: 0, limit }
    }

    /// The value of `key`, created if absent; marks it as most recently used.
    pub(crate) fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        match self.entries.get_mut(key) {
            Some((used, _)) => {
                self.key_of.remove(used);
                *used = self.uses;
            }
            None => {
                if self.entries.len() >= self.limit
                    && let Some((_, oldest)) = self.key_of.pop_first()
                {
                    self.entries.remove(&oldest);
                }
                self.entries.insert(key.clone(), (self.uses, make()));
            }
        }
        self.key_of.insert(self.uses, key.clone());
        &mut self.entries.get_mut(key).expect("inserted above, or there before").1
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Keeps entries for which `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let key_of = &mut self.key_of;
        self.entries.retain(|key, (used, value)| {
            let stays = keep(key, value);
            if !stays {
                key_of.remove(used);
            }
            stays
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        // EV-4
        let mut lru = Lru::new(2);
        for key in ["a", "b", "a", "c"] {
            *lru.get_or_insert_with(&key, || 0) += 1;
        }
        assert_eq!(lru.get_mut(&"a"), Some(&mut 2));
        assert_eq!(lru.len(), 2);
        assert_eq!(lru.get_mut(&"b"), None);
        lru.retain(|key, _| *key == "c");
        assert_eq!((lru.len(), lru.key_of.len()), (1, 1));
    }
}
