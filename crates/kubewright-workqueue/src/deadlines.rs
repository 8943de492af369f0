//! Orders delayed keys by the moment they fall due.
//!
//! A key whose deadline moves leaves its old element behind. Such elements are told by the deadline in the key's entry,
//! which the caller looks up, and swept before they can outnumber the valid ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Heaps up to this size are not swept, and keep their memory when emptied.
const UNSWEPT: usize = 1024;

/// Numbers of keys, soonest deadline first, in order of arrival where deadlines are equal.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Deadline, arrival, number of the key. Arrivals are half a word, because a million keys may wait: after four
    /// thousand million the count starts anew, and equal deadlines on either side of that moment change places.
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    arrivals: u32,
    /// How many elements count; the rest of the heap is outdated.
    live: usize,
}

impl Deadlines {
    /// Whether no key is delayed.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How many keys are delayed.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Notes that the key with this number, not delayed until now, falls due at `deadline`.
    pub(crate) fn push(&mut self, deadline: u64, number: u32) {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.live += 1;
        self.heap.push(Reverse((deadline, self.arrivals, number)));
    }

    /// Notes that a delayed key falls due at `deadline` instead. `is_valid` tells by deadline and number which elements
    /// still count.
    pub(crate) fn change(&mut self, deadline: u64, number: u32, is_valid: impl Fn(u64, u32) -> bool) {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.heap.push(Reverse((deadline, self.arrivals, number)));
        if self.heap.len() > UNSWEPT && self.heap.len() > self.live * 2 {
            self.heap.retain(|&Reverse((deadline, _, number))| is_valid(deadline, number));
        }
    }

    /// The soonest deadline; drops outdated elements before it.
    pub(crate) fn soonest(&mut self, is_valid: impl Fn(u64, u32) -> bool) -> Option<(u64, u32)> {
        while let Some(&Reverse((deadline, _, number))) = self.heap.peek() {
            if is_valid(deadline, number) {
                return Some((deadline, number));
            }
            self.heap.pop();
        }
        if self.heap.capacity() > UNSWEPT {
            self.heap = BinaryHeap::new();
        }
        None
    }

    /// Removes the element that `soonest` has just shown.
    pub(crate) fn pop(&mut self) {
        self.heap.pop();
        self.live -= 1;
    }

    /// Every element, in no order, outdated ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.heap.iter().map(|&Reverse((deadline, _, number))| (deadline, number))
    }

    /// Forgets all deadlines.
    pub(crate) fn clear(&mut self) {
        self.heap = BinaryHeap::new();
        self.live = 0;
    }
}
