//! Counting each pod that ends exactly once.
//!
//! The uid of an ended pod goes into the status, then the pod's finalizer goes, then the uid turns into a number: whatever is
//! interrupted can be taken up again from what is written.

use std::sync::Arc;

use kubewright_api::batch::v1::{Job, JobStatus, UncountedTerminatedPods};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::Patch;
use kubewright_core::{List, Object, ObjectKey, Selector, Str};

use super::Jobs;
use super::outcome::Counts;
use crate::error::Error;
use crate::owner_events::controller;
use crate::pods::phase;

/// What holds a pod until its end has been counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// Moves pods that have ended into the status, and those that were let go since into its numbers. Pods of an indexed job that have
/// succeeded are in its list of indexes already.
pub(super) fn count(status: &mut JobStatus, pods: &[Arc<Pod>], is_indexed: bool) -> Counts {
    let mut uncounted =
        status.uncounted_terminated_pods.take().map(|uncounted| uncounted.into_inner()).unwrap_or_default();
    let is_held = |uid: &Str| pods.iter().any(|pod| pod.uid() == *uid && is_tracked(pod));
    let settle = |uids: &mut List<Str>, number: &mut Option<i32>| {
        let before = uids.len();
        uids.retain(is_held);
        let settled = i32::try_from(before - uids.len()).unwrap_or_default();
        *number = Some(number.unwrap_or_default() + settled).filter(|number| *number > 0);
    };
    settle(&mut uncounted.succeeded, &mut status.succeeded);
    settle(&mut uncounted.failed, &mut status.failed);
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        if has(&uncounted, pod) {
            continue;
        }
        let uid = Str::from(pod.uid());
        match phase(pod) {
            "Succeeded" if is_indexed => {}
            "Succeeded" => uncounted.succeeded.push(uid),
            "Failed" => uncounted.failed.push(uid),
            // What is deleted before its end will never succeed.
            _ if pod.is_being_deleted() => uncounted.failed.push(uid),
            _ => {}
        }
    }
    let total = |uids: &List<Str>, number: Option<i32>| {
        number.unwrap_or_default() + i32::try_from(uids.len()).unwrap_or_default()
    };
    let counts = Counts {
        succeeded: total(&uncounted.succeeded, status.succeeded),
        failed: total(&uncounted.failed, status.failed),
    };
    let is_empty = uncounted.succeeded.is_empty() && uncounted.failed.is_empty();
    status.uncounted_terminated_pods = (!is_empty).then(|| uncounted.into());
    counts
}

/// Whether a pod is in the lists.
pub(super) fn has(uncounted: &UncountedTerminatedPods, pod: &Pod) -> bool {
    uncounted.succeeded.iter().chain(&uncounted.failed).any(|uid| pod.uid() == *uid)
}

fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

impl Jobs {
    /// Takes the finalizer from those pods that are not needed any more.
    pub(super) async fn let_go(&self, pods: &[Arc<Pod>], which: impl Fn(&Pod) -> bool + Send) -> Result<(), Error> {
        let patch = format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{FINALIZER}"]}}}}"#);
        for pod in pods {
            if !is_tracked(pod) || !which(pod) {
                continue;
            }
            let api = Api::<Pod>::namespaced(&self.client, pod.namespace());
            match api.patch(pod.name(), Patch::Strategic(patch.clone().into_bytes())).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets pods go whose job of this name is gone.
    pub(super) async fn let_go_of_strangers(&self, key: &ObjectKey, job: Option<&Job>) -> Result<(), Error> {
        if job.is_some() {
            return Ok(());
        }
        let mut pods = self.pods.lister().namespace(key.namespace().clone()).list(&Selector::everything());
        pods.retain(|pod| controller(pod).is_some_and(|owner| owner.kind == "Job" && owner.name == **key.name()));
        self.let_go(&pods, |_| true).await
    }
}
