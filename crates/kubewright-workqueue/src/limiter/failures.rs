//! Counts failures per key.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// A map up to this capacity keeps its memory when the last key is removed.
const RETAINED_CAPACITY: usize = 4096;

/// Number of failures of each key since it was last forgotten.
#[derive(Clone, Debug)]
pub(super) struct FailureCounts<T> {
    count_of: HashMap<T, u32, RandomState>,
}

impl<T: Clone + Eq + Hash> FailureCounts<T> {
    /// Counts one more failure of `key` and returns the total.
    pub(super) fn count(&mut self, key: &T) -> u32 {
        if let Some(count) = self.count_of.get_mut(key) {
            *count = count.saturating_add(1);
            return *count;
        }
        self.count_of.insert(key.clone(), 1);
        1
    }
}

impl<T: Eq + Hash> FailureCounts<T> {
    /// Number of failures of `key`.
    pub(super) fn of(&self, key: &T) -> u32 {
        self.count_of.get(key).copied().unwrap_or(0)
    }

    /// Resets the count of `key`.
    pub(super) fn forget(&mut self, key: &T) {
        self.count_of.remove(key);
        if self.count_of.is_empty() && self.count_of.capacity() > RETAINED_CAPACITY {
            *self = Self::default();
        }
    }
}

impl<T> Default for FailureCounts<T> {
    fn default() -> Self {
        Self { count_of: HashMap::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A key with one of few hashes, to provoke collisions.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Alike(u16);

    impl Hash for Alike {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            state.write_u16(self.0 % 7);
        }
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_map(steps in vec((0..4u8, 0..80u16), 0..600)) {
            let mut failures = FailureCounts::default();
            let mut model: BTreeMap<u16, u32> = BTreeMap::new();
            for (kind, key) in steps {
                if kind == 0 {
                    failures.forget(&Alike(key));
                    model.remove(&key);
                } else {
                    let count = model.entry(key).or_default();
                    *count += 1;
                    prop_assert_eq!(failures.count(&Alike(key)), *count);
                }
            }
            for key in 0..80 {
                prop_assert_eq!(failures.of(&Alike(key)), model.get(&key).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn memory_is_bounded_by_the_current_keys() {
        let mut failures = FailureCounts::default();
        for key in 0..100_000 {
            failures.count(&key);
            if key >= 100 {
                failures.forget(&(key - 100));
            }
        }
        assert!((100_000 - 100..100_000).all(|key| failures.of(&key) == 1));
        assert!(failures.count_of.capacity() <= 256);
    }

    // WQ-13
    #[test]
    fn a_forgotten_key_leaves_no_state() {
        let mut failures = FailureCounts::default();
        let key = Arc::new(7);
        failures.count(&key);
        failures.forget(&key);
        assert_eq!(Arc::strong_count(&key), 1);
        (0..10_000).map(Arc::new).for_each(|key| assert_eq!(failures.count(&key), 1));
        (0..10_000).map(Arc::new).for_each(|key| failures.forget(&key));
        assert_eq!(failures.count_of.capacity(), 0);
    }
}
