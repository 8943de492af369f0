//! A bounded cache of decisions that expire.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::lru::Lru;

/// Maximum number of cached decisions.
const LIMIT: usize = 1024;

/// Decisions by request. The least recently written one is evicted.
pub(super) struct DecisionCache<K, V>(Mutex<Lru<K, (V, Instant)>>);

impl<K: Clone + Eq + Hash, V: Clone> DecisionCache<K, V> {
    pub(super) fn new() -> Self {
        DecisionCache(Mutex::new(Lru::new(LIMIT)))
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let mut decisions = self.lock();
        let (decision, expires) = decisions.get_mut(key)?;
        (*expires > Instant::now()).then(|| decision.clone())
    }

    pub(super) fn insert(&self, key: &K, decision: V, lifetime: Duration) {
        let entry = (decision, Instant::now() + lifetime);
        *self.lock().get_or_insert_with(key, || entry.clone()) = entry.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Lru<K, (V, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn decisions_expire_and_are_bounded() {
        let cache = DecisionCache::new();
        cache.insert(&0, "yes", Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(cache.get(&0), Some("yes"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&0), None);
        cache.insert(&0, "no", Duration::from_secs(60));
        assert_eq!(cache.get(&0), Some("no"));
        for key in 1..=LIMIT {
            cache.insert(&key, "other", Duration::from_secs(60));
        }
        assert_eq!((cache.get(&0), cache.get(&LIMIT)), (None, Some("other")));
    }
}
