//! Tracks whether the initial list has been popped.

use kubewright_core::Str;

/// Counts the queued part of the initial list.
#[derive(Debug, Default)]
pub(super) struct InitialList {
    is_populated: bool,
    pending: usize,
    /// Namespaces whose initial lists are missing, if each has its own list.
    awaited: Vec<Str>,
}

impl InitialList {
    /// Declares one initial list per namespace.
    pub(super) fn await_lists_of(&mut self, namespaces: Vec<Str>) {
        self.awaited = namespaces;
    }

    /// Records a change. If it comes before any list, there is no initial list to wait for.
    pub(super) fn note_change(&mut self) {
        self.is_populated = true;
    }

    /// Records a list, after which `count` elements are queued. It counts only if it is the first
    /// input.
    pub(super) fn note_list(&mut self, namespace: &str, count: usize) {
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

    /// Part of the initial list was put back, among the next `pending` elements to pop.
    pub(super) fn requeued(&mut self, pending: usize) {
        self.pending = self.pending.max(pending);
    }

    /// How much of the initial list is still queued.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn has_synced(&self) -> bool {
        self.is_populated && self.pending == 0 && self.awaited.is_empty()
    }
}
