//! How many pods each node has, counting those that were given it a moment ago.
//!
//! The cache alone would not do: while it is behind, several pods would be given the last place of a node.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Str};

use crate::pods::{is_finished, node_name};

/// The node of each pod that has one and has not ended.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// By the uid of the pod.
    node_of: HashMap<Str, Str>,
    /// Invariant: how many values of `node_of` are this node.
    count_of: HashMap<Str, usize>,
}

impl Seats {
    /// Takes a place on a node for a pod that is about to be given it, unless it has so many already.
    pub(super) fn reserve(&self, pod: &Pod, node: &str, limit: usize) -> bool {
        let mut taken = self.lock();
        let is_free = taken.count_of.get(node).copied().unwrap_or_default() < limit;
        if is_free {
            taken.sit(pod, node);
        }
        is_free
    }

    /// Notes where a pod is, as an event shows it. One that has no node yet may have been given one meanwhile.
    pub(super) fn note(&self, pod: &Pod) {
        match (is_finished(pod), node_name(pod)) {
            (true, _) => self.release(pod),
            (false, "") => {}
            (false, node) => self.lock().sit(pod, node),
        }
    }

    /// Gives back the place of a pod that is gone, or could not be given its node.
    pub(super) fn release(&self, pod: &Pod) {
        self.lock().stand(pod.uid());
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn sit(&mut self, pod: &Pod, node: &str) {
        if self.node_of.get(pod.uid()).is_some_and(|known| *known == *node) {
            return;
        }
        self.stand(pod.uid());
        *self.count_of.entry(node.into()).or_default() += 1;
        self.node_of.insert(pod.uid().into(), node.into());
    }

    fn stand(&mut self, uid: &str) {
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
        // What the cache still shows of it takes nothing back.
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
