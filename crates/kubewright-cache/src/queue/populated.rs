//! Whether the first list has come out of a queue.

use kubewright_core::Str;

/// Counts what the first list put in, down to nothing.
#[derive(Debug, Default)]
pub(super) struct Populated {
    is_populated: bool,
    pending: usize,
    /// Namespaces whose first lists have not come, where each has its own.
    awaited: Vec<Str>,
}

impl Populated {
    /// There is a first list of each of these namespaces.
    pub(super) fn await_lists_of(&mut self, namespaces: Vec<Str>) {
        self.awaited = namespaces;
    }

    /// A change came by itself; before any list, there is then none to wait for.
    pub(super) fn by_change(&mut self) {
        self.is_populated = true;
    }

    /// A list came, with which there are `count` in, which counts only if it is the first thing to come.
    pub(super) fn by_list(&mut self, namespace: &str, count: usize) {
        let is_first = match self.awaited.iter().position(|awaited| *awaited == *namespace) {
            Some(place) => {
                self.awaited.swap_remove(place);
                true
            }
            None => !self.is_populated,
        };
        if is_first {
            self.is_populated = true;
            self.pending = count;
        }
    }

    pub(super) fn popped(&mut self, count: usize) {
        self.pending = self.pending.saturating_sub(count);
    }

    /// Part of the first list was put back, and is among the next `pending` that are popped.
    pub(super) fn requeued(&mut self, pending: usize) {
        self.pending = self.pending.max(pending);
    }

    /// How much of the first list is still in.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn has_synced(&self) -> bool {
        self.is_populated && self.pending == 0 && self.awaited.is_empty()
    }
}
