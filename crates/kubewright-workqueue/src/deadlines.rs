//! Orders delayed keys by deadline.
//!
//! When the deadline of a key changes, its old heap element stays behind as a stale element. An
//! element is stale if its deadline differs from the one in the key's entry, which the caller looks
//! up. Stale elements are swept before they outnumber the valid ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Heaps up to this size are not swept and keep their memory when emptied.
const SWEEP_THRESHOLD: usize = 1024;

/// Numbers of delayed keys by deadline; equal deadlines in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Deadline, arrival, number of the key.
    ///
    /// Arrivals are 32 bits wide to keep elements small. After the counter wraps, two equal
    /// deadlines on either side of the wrap swap their order.
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    arrivals: u32,
    /// Number of valid elements; the rest of the heap is stale.
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

    /// Schedules a key that is not delayed yet.
    pub(crate) fn push(&mut self, deadline: u64, number: u32) {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.live += 1;
        self.heap.push(Reverse((deadline, self.arrivals, number)));
    }

    /// Moves a delayed key to another deadline. `is_valid` reports whether an element, given by
    /// deadline and number, is valid.
    pub(crate) fn change(&mut self, deadline: u64, number: u32, is_valid: impl Fn(u64, u32) -> bool) {
        self.arrivals = self.arrivals.wrapping_add(1);
        self.heap.push(Reverse((deadline, self.arrivals, number)));
        if self.heap.len() > SWEEP_THRESHOLD && self.heap.len() > self.live * 2 {
            self.heap.retain(|&Reverse((deadline, _, number))| is_valid(deadline, number));
        }
    }

    /// The earliest deadline and its key. Removes stale elements before it.
    pub(crate) fn soonest(&mut self, is_valid: impl Fn(u64, u32) -> bool) -> Option<(u64, u32)> {
        while let Some(&Reverse((deadline, _, number))) = self.heap.peek() {
            if is_valid(deadline, number) {
                return Some((deadline, number));
            }
            self.heap.pop();
        }
        if self.heap.capacity() > SWEEP_THRESHOLD {
            self.heap = BinaryHeap::new();
        }
        None
    }

    /// Removes the element that `soonest` returned.
    pub(crate) fn pop(&mut self) {
        self.heap.pop();
        self.live -= 1;
    }

    /// All elements in arbitrary order, including stale ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.heap.iter().map(|&Reverse((deadline, _, number))| (deadline, number))
    }

    /// Removes all deadlines.
    pub(crate) fn clear(&mut self) {
        self.heap = BinaryHeap::new();
        self.live = 0;
    }
}
