//! The keys of a `DeltaFifo` with their changes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use kubewright_core::{ObjectKey, ResourceVersion};

use super::super::initial_list::InitialList;
use crate::{AnyObject, Delta};

pub(super) struct DeltaFifoState<T: ?Sized> {
    /// Invariant: has the keys of `line`, each with at least one delta.
    pub(super) items: HashMap<ObjectKey, Vec<Delta<T>>>,
    pub(super) line: VecDeque<ObjectKey>,
    /// Bookmarks, each with the number of keys to pop before it takes effect.
    pub(super) marks: VecDeque<(usize, Delta<T>)>,
    pub(super) initial_list: InitialList,
    pub(super) is_closed: bool,
}

impl<T: ?Sized> DeltaFifoState<T> {
    /// Queues a bookmark after everything that is queued now.
    pub(super) fn mark(&mut self, namespace: &str, version: ResourceVersion) {
        if !version.is_empty() {
            self.marks.push_back((self.line.len(), Delta::Bookmark { namespace: namespace.into(), version }));
        }
    }

    /// Counts down one popped key, if there was one, and returns the bookmarks that are reached.
    pub(super) fn pass_marks(&mut self) -> Vec<Delta<T>> {
        self.marks.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
        let reached = self.marks.iter().take_while(|(left, _)| *left == 0).count();
        self.marks.drain(..reached).map(|(_, bookmark)| bookmark).collect()
    }
}

impl<T: AnyObject + ?Sized> DeltaFifoState<T> {
    pub(super) fn append(&mut self, delta: Delta<T>) {
        let key = delta.key().expect("only changes of one object get here");
        match self.items.entry(key) {
            Entry::Occupied(mut deltas) => {
                deltas.get_mut().push(delta);
                collapse_deletions(deltas.get_mut());
            }
            Entry::Vacant(vacant) => {
                self.line.push_back(vacant.key().clone());
                vacant.insert(vec![delta]);
            }
        }
    }
}

/// Merges two consecutive deletions. The one with the final state wins, else the one with a state,
/// else the later one.
fn collapse_deletions<T: AnyObject + ?Sized>(deltas: &mut Vec<Delta<T>>) {
    if let [.., Delta::Deleted(older), Delta::Deleted(newer)] = &deltas[..] {
        let is_older_better = older.is_final() || !newer.is_final() && newer.object().is_none();
        let redundant = if is_older_better { deltas.len() - 1 } else { deltas.len() - 2 };
        deltas.remove(redundant);
    }
}
