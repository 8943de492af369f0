//! Where the object of a key lies.
//!
//! Knows nothing of objects, so that stores of all types share its code: whoever looks says how to recognise a key.

use std::num::NonZeroU32;

use super::trie::Trie;

/// Places by the hash of a key. Cloning is O(1).
#[derive(Clone, Default)]
pub(crate) struct Table {
    places: Trie<Place>,
}

/// A place with its hash is eight bytes: a table is what a look-up by key should find in the processor's own memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(NonZeroU32);

impl Place {
    fn new(place: u32) -> Self {
        Place(NonZeroU32::MIN.saturating_add(place))
    }

    #[inline]
    fn get(self) -> u32 {
        self.0.get() - 1
    }
}

impl Table {
    /// A place of this hash: the only one, as good as always.
    #[inline]
    pub(super) fn first(&self, hash: u32) -> Option<u32> {
        Some(self.places.first(hash)?.get())
    }

    /// The place of this hash that `is_it` recognises.
    pub(crate) fn find(&self, hash: u32, is_it: &dyn Fn(u32) -> bool) -> Option<u32> {
        self.places.find(hash, |place| is_it(place.get()).then_some(place.get()))
    }

    /// Adds a place.
    pub(crate) fn add(&mut self, hash: u32, place: u32) {
        self.places.add(hash, Place::new(place));
    }

    /// Takes a place out.
    pub(crate) fn remove(&mut self, hash: u32, place: u32) {
        self.places.remove(hash, |other| *other == Place::new(place));
    }
}
