//! Whether the first list has come out of a queue.

/// Counts what the first list put in, down to nothing.
#[derive(Debug, Default)]
pub(super) struct Populated {
    is_populated: bool,
    pending: usize,
}

impl Populated {
    /// A change came by itself; before any list, there is then none to wait for.
    pub(super) fn by_change(&mut self) {
        self.is_populated = true;
    }

    /// A list came that put in `count`, which counts only if it is the first thing to come.
    pub(super) fn by_list(&mut self, count: usize) {
        if !self.is_populated {
            self.is_populated = true;
            self.pending = count;
        }
    }

    pub(super) fn popped(&mut self, count: usize) {
        self.pending = self.pending.saturating_sub(count);
    }

    /// How much of the first list is still in.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    pub(super) fn has_synced(&self) -> bool {
        self.is_populated && self.pending == 0
    }
}
