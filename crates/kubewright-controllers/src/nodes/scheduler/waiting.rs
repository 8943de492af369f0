//! Unschedulable pods.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kubewright_core::ObjectKey;

/// Pods that wait for a change of the cluster.
#[derive(Debug, Default)]
pub(in crate::nodes) struct WaitingPods {
    /// Whether the arrival of a pod may help, too.
    pods: Mutex<HashMap<ObjectKey, bool>>,
}

impl WaitingPods {
    pub(in crate::nodes) fn add(&self, key: ObjectKey, waits_for_pods: bool) {
        self.lock().insert(key, waits_for_pods);
    }

    pub(in crate::nodes) fn remove(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Takes the pods that a leaving pod or a changed node may help.
    pub(in crate::nodes) fn take_all(&self) -> Vec<ObjectKey> {
        self.lock().drain().map(|(key, _)| key).collect()
    }

    /// Takes the pods that a new pod on a node may help.
    pub(in crate::nodes) fn take_for_arrival(&self) -> Vec<ObjectKey> {
        self.lock().extract_if(|_, waits_for_pods| *waits_for_pods).map(|(key, _)| key).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, bool>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
