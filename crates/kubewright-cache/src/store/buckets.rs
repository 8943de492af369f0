//! The slots of objects by value, whatever the objects are.

use kubewright_core::{Str, hash};

use super::numbers::Numbers;
use super::trie::Trie;

/// Invariant: no bucket is empty.
#[derive(Clone, Default)]
pub(super) struct Buckets {
    buckets: Trie<Bucket>,
}

/// The slots of the objects of one value.
#[derive(Clone)]
struct Bucket {
    value: Str,
    members: Numbers,
}

impl Buckets {
    pub(super) fn members(&self, value: &str) -> Option<&Numbers> {
        self.buckets.find(hash::text(value), |bucket| (bucket.value == *value).then_some(&bucket.members))
    }

    /// All values that have members.
    pub(super) fn values(&self) -> impl Iterator<Item = &Str> {
        self.buckets.iter().map(|bucket| &bucket.value)
    }

    /// Adds a slot under a value.
    pub(super) fn enter(&mut self, value: Str, slot: u32) {
        let hash = hash::text(&value);
        match self.buckets.get_mut(hash, |bucket| bucket.value == value) {
            Some(bucket) => bucket.members.insert(slot),
            None => {
                let mut members = Numbers::default();
                members.insert(slot);
                self.buckets.add(hash, Bucket { value, members });
            }
        }
    }

    /// Removes a slot from under a value.
    pub(super) fn leave(&mut self, value: &Str, slot: u32) {
        let hash = hash::text(value);
        let Some(bucket) = self.buckets.get_mut(hash, |bucket| bucket.value == *value) else { return };
        bucket.members.remove(slot);
        if bucket.members.is_empty() {
            self.buckets.remove(hash, |bucket| bucket.value == *value);
        }
    }
}
