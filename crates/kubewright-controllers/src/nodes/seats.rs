//! Number of pods per node, including recent assignments.
//!
//! The cache alone is not sufficient: while it is stale, several pods would get the last seat of a
//! node.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Str};

use crate::pods::{is_finished, node_name};

/// The node of each assigned pod that has not ended.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<SeatTable>,
}

#[derive(Debug, Default)]
struct SeatTable {
    /// By pod uid.
    node_of: HashMap<Str, Str>,
    /// Invariant: the number of values in `node_of` equal to this node.
    count_of: HashMap<Str, usize>,
}

impl Seats {
    /// Reserves a seat for a pod, unless the node has `limit` pods.
    pub(super) fn reserve(&self, pod: &Pod, node: &str, limit: usize) -> bool {
        let mut taken = self.lock();
        let is_free = taken.count_of.get(node).copied().unwrap_or_default() < limit;
        if is_free {
            taken.assign(pod, node);
        }
        is_free
    }

    /// Records the node of a pod from an event. A pod without a node may have been assigned since.
    pub(super) fn note(&self, pod: &Pod) {
        match (is_finished(pod), node_name(pod)) {
            (true, _) => self.release(pod),
            (false, "") => {}
            (false, node) => self.lock().assign(pod, node),
        }
    }

    /// Releases the seat of a pod that is deleted, or could not be assigned.
    pub(super) fn release(&self, pod: &Pod) {
        self.lock().release(pod.uid());
    }

    fn lock(&self) -> MutexGuard<'_, SeatTable> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeatTable {
    fn assign(&mut self, pod: &Pod, node: &str) {
        if self.node_of.get(pod.uid()).is_some_and(|known| *known == *node) {
            return;
        }
        self.release(pod.uid());
        *self.count_of.entry(node.into()).or_default() += 1;
        self.node_of.insert(pod.uid().into(), node.into());
    }

    fn release(&mut self, uid: &str) {
        if let Some(node) = self.node_of.remove(uid)
            && let Some(count) = self.count_of.get_mut(&node)
        {
            *count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, node: &str, phase: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.into());
        pod.spec.get_or_insert_default().node_name = (!node.is_empty()).then(|| node.into());
        pod.status.get_or_insert_default().phase = Some(phase.into());
        pod
    }

    #[test]
    fn a_place_is_given_once_until_it_is_given_back() {
        let seats = Seats::default();
        seats.note(&pod("a", "n", "Running"));
        assert!(seats.reserve(&pod("b", "", "Pending"), "n", 2));
        // A stale event of the pod releases nothing.
        seats.note(&pod("b", "", "Pending"));
        assert!(!seats.reserve(&pod("c", "", "Pending"), "n", 2));
        assert!(seats.reserve(&pod("c", "", "Pending"), "other", 2));
        seats.note(&pod("b", "n", "Running"));
        assert!(!seats.reserve(&pod("d", "", "Pending"), "n", 2));
        seats.note(&pod("b", "n", "Succeeded"));
        assert!(seats.reserve(&pod("d", "", "Pending"), "n", 2));
        seats.release(&pod("x", "n", "Running"));
        assert!(!seats.reserve(&pod("e", "", "Pending"), "n", 2));
        seats.release(&pod("d", "", "Pending"));
        assert!(seats.reserve(&pod("e", "", "Pending"), "n", 2));
        assert!(!seats.reserve(&pod("f", "", "Pending"), "new", 0));
    }
}
