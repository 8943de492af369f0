//! The record of real deletions and of reconciles, against which the claims of processes are
//! checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use kubewright_core::ObjectKey;

/// The record of one history. A handle: clones are the same record.
#[derive(Clone, Default)]
pub struct Truth(Arc<Mutex<Record>>);

#[derive(Default)]
struct Record {
    deleted: BTreeSet<String>,
    reconciled: BTreeMap<ObjectKey, Option<String>>,
    violations: Vec<String>,
    trace: Vec<String>,
}

impl Truth {
    /// Records the deletion of the object with this uid. Called before the request, because
    /// handlers may see the deletion before the caller has the response.
    pub fn delete(&self, uid: &str) {
        self.record().deleted.insert(uid.to_owned());
    }

    /// A process acts on the deletion of the object with this uid.
    pub fn claim_deleted(&self, claimant: &str, key: &ObjectKey, uid: &str) {
        let mut record = self.record();
        if !record.deleted.contains(uid) {
            record.violations.push(format!("{claimant}: {key} ({uid}) counts as deleted, but it was never deleted"));
        }
    }

    /// A reconcile of this key has succeeded, which saw this version of the object, or none.
    pub fn reconciled(&self, key: &ObjectKey, version: Option<&str>) {
        self.record().reconciled.insert(key.clone(), version.map(str::to_owned));
    }

    /// The version that the last successful reconcile of this key saw.
    pub fn last_reconciled(&self, key: &ObjectKey) -> Option<String> {
        self.record().reconciled.get(key).cloned().flatten()
    }

    pub fn violation(&self, what: String) {
        self.record().violations.push(what);
    }

    pub fn violations(&self) -> Vec<String> {
        self.record().violations.clone()
    }

    /// Records a step, printed if the history fails.
    pub fn trace(&self, what: String) {
        self.record().trace.push(what);
    }

    pub fn story(&self) -> String {
        self.record().trace.join("\n")
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap()
    }
}
