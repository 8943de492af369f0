//! Counts each ended pod exactly once.
//!
//! The uid of an ended pod is added to the status, then its finalizer is removed, then the uid is
//! replaced by a count: each step can be resumed after an interruption.

use std::collections::HashSet;
use std::sync::Arc;

use kubewright_api::batch::v1::{JobSpec, JobStatus, UncountedTerminatedPods};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::Patch;
use kubewright_core::{List, Object, ObjectKey, Str};

use super::outcome::{JobOutcome, PodCounts};
use super::{Jobs, failure_policy, indexed};
use crate::batches::all_at_once;
use crate::error::Error;
use crate::indices;
use crate::owner_events::controller;
use crate::pods::{node_name, phase};

/// The finalizer of pods until they are counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// How an ended pod counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodOutcome {
    Succeeded,
    Failed,
    /// Not by uid: its index is in the completed list, or its failure is ignored.
    NotListed,
}

/// Maximum number of uncounted pods in the status, to bound its size.
#[doc(alias = "MaxUncountedPods")]
const MAX_UNCOUNTED: usize = 500;

/// Moves released pods to the counts; returns the counts with all ended pods. Succeeded pods of an
/// indexed job are in its index list already.
pub(super) fn settle(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> PodCounts {
    let mut uncounted = take_uncounted(status);
    let held: HashSet<&str> = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.uid()).collect();
    let settle = |uids: &mut List<Str>, number: &mut Option<i32>| {
        let before = uids.len();
        uids.retain(|uid| held.contains(uid.as_str()));
        *number = Some(number.unwrap_or_default() + number_of(before - uids.len())).filter(|number| *number > 0);
    };
    settle(&mut uncounted.succeeded, &mut status.succeeded);
    settle(&mut uncounted.failed, &mut status.failed);
    let listed = listed(&uncounted);
    let fresh: Vec<PodOutcome> = pods
        .iter()
        .filter(|pod| is_tracked(pod) && !listed.contains(pod.uid()))
        .filter_map(|pod| end_of(pod, spec))
        .collect();
    let total = |uids: &List<Str>, number: Option<i32>, end: PodOutcome| {
        number.unwrap_or_default() + number_of(uids.len() + fresh.iter().filter(|one| **one == end).count())
    };
    let counts = PodCounts {
        succeeded: total(&uncounted.succeeded, status.succeeded, PodOutcome::Succeeded),
        failed: total(&uncounted.failed, status.failed, PodOutcome::Failed),
    };
    put_uncounted(status, uncounted);
    counts
}

/// How ended pods count in the current state of a job.
pub(super) struct CountingRules<'a> {
    pub(super) spec: &'a JobSpec,
    /// Once a job is decided, active pods count as surplus, or as failed with the job.
    pub(super) outcome: Option<&'a JobOutcome>,
    /// Pods that are not counted yet, because their replacements need their failure count.
    pub(super) awaiting: HashSet<&'a str>,
}

impl CountingRules<'_> {
    /// Adds ended pods to the status, up to the limit; the others follow when these are released.
    #[doc(alias = "trackJobStatusAndRemoveFinalizers")]
    pub(super) fn list(&self, status: &mut JobStatus, pods: &[Arc<Pod>]) {
        let mut uncounted = take_uncounted(status);
        let listed = listed(&uncounted);
        for pod in pods.iter().filter(|pod| is_tracked(pod) && !listed.contains(pod.uid())) {
            if uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                break;
            }
            match self.end_of(pod) {
                Some(PodOutcome::Succeeded) => uncounted.succeeded.push(pod.uid().into()),
                Some(PodOutcome::Failed) => uncounted.failed.push(pod.uid().into()),
                Some(PodOutcome::NotListed) | None => {}
            }
        }
        put_uncounted(status, uncounted);
    }

    /// Whether the end of a pod is fully recorded in the status.
    pub(super) fn is_told(&self, status: &JobStatus) -> impl Fn(&Pod) -> bool + Send {
        let listed = status.uncounted_terminated_pods.as_deref().map(listed).unwrap_or_default();
        move |pod| listed.contains(pod.uid()) || self.end_of(pod) == Some(PodOutcome::NotListed)
    }

    fn end_of(&self, pod: &Pod) -> Option<PodOutcome> {
        match (end_of(pod, self.spec), self.outcome) {
            (Some(_), None) if self.awaiting.contains(pod.uid()) => None,
            (None, Some(outcome)) if outcome.is_success => Some(PodOutcome::NotListed),
            (None, Some(_)) => Some(failure_of(pod, self.spec)),
            (end, _) => end,
        }
    }
}

/// Whether a pod has failed: also if it is deleted before its end, unless the job waits for the
/// end.
///
/// A pod without a node never ends by itself.
#[doc(alias = "isPodFailed")]
pub(super) fn is_failed(pod: &Pod, spec: &JobSpec) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_being_deleted() && (!waits_for_the_end(spec) || node_name(pod).is_empty()),
    }
}

/// Whether a pod is replaced only after it has failed, not when it starts terminating.
#[doc(alias = "onlyReplaceFailedPods")]
pub(super) fn waits_for_the_end(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}

fn end_of(pod: &Pod, spec: &JobSpec) -> Option<PodOutcome> {
    match phase(pod) {
        "Succeeded" if indexed::completions(spec).is_some() => Some(PodOutcome::NotListed),
        "Succeeded" => Some(PodOutcome::Succeeded),
        _ => is_failed(pod, spec).then(|| failure_of(pod, spec)),
    }
}

/// How an unsuccessful pod counts. A pod without a valid index does not belong to the job.
fn failure_of(pod: &Pod, spec: &JobSpec) -> PodOutcome {
    let belongs = indexed::completions(spec).is_none_or(|count| indexed::index_of(pod, count).is_some());
    if belongs && failure_policy::is_counted(spec, pod) { PodOutcome::Failed } else { PodOutcome::NotListed }
}

fn number_of(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn take_uncounted(status: &mut JobStatus) -> UncountedTerminatedPods {
    status.uncounted_terminated_pods.take().map(|uncounted| uncounted.into_inner()).unwrap_or_default()
}

fn put_uncounted(status: &mut JobStatus, uncounted: UncountedTerminatedPods) {
    let is_empty = uncounted.succeeded.is_empty() && uncounted.failed.is_empty();
    status.uncounted_terminated_pods = (!is_empty).then(|| uncounted.into());
}

/// The listed uids as a set, because there may be thousands.
fn listed(uncounted: &UncountedTerminatedPods) -> HashSet<String> {
    uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| uid.to_string()).collect()
}

/// Whether a pod has the finalizer.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

impl Jobs {
    /// Removes the finalizer of matching pods.
    pub(super) async fn release(&self, pods: &[Arc<Pod>], which: impl Fn(&Pod) -> bool + Send) -> Result<(), Error> {
        let patch = format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{FINALIZER}"]}}}}"#);
        let held: Vec<_> = pods.iter().filter(|pod| is_tracked(pod) && which(pod)).cloned().collect();
        let answers = all_at_once(held.into_iter().map(|pod| {
            let (api, patch) = (Api::<Pod>::namespaced(&self.client, pod.namespace()), patch.clone().into_bytes());
            async move { api.patch(pod.name(), Patch::Strategic(patch)).await.map(drop) }
        }))
        .await;
        let failed = answers.into_iter().filter_map(Result::err).find(|error| !error.is_not_found());
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Releases pods of a deleted job of this name; `uid` is that of its successor, if any.
    pub(super) async fn release_pods_of_deleted_job(&self, key: &ObjectKey, uid: Option<&str>) -> Result<(), Error> {
        let mut pods = indices::of_job(&self.pods.lister(), key);
        pods.retain(|pod| controller(pod).is_some_and(|owner| uid.is_none_or(|uid| owner.uid != *uid)));
        self.release(&pods, |_| true).await
    }

    /// Releases a pod without a job.
    #[doc(alias = "syncOrphanPod")]
    pub(super) async fn release_orphan(&self, key: &ObjectKey) -> Result<(), Error> {
        let pod = self.pods.lister().namespace(key.namespace().clone()).get(key.name());
        let orphan: Vec<Arc<Pod>> = pod.into_iter().filter(|pod| controller(pod).is_none()).collect();
        self.release(&orphan, |_| true).await
    }
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::PodStatus;

    use super::*;

    fn pod(uid: &str, phase: &str, is_going: bool, node: Option<&str>) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.into());
        pod.metadata.finalizers = [FINALIZER.into()].into();
        pod.metadata.deletion_timestamp = is_going.then(kubewright_core::Time::now);
        pod.spec.get_or_insert_default().node_name = node.map(Into::into);
        pod.status = Some(PodStatus { phase: Some(phase.into()), ..Default::default() });
        Arc::new(pod)
    }

    fn rules(spec: &JobSpec) -> CountingRules<'_> {
        CountingRules { spec, outcome: None, awaiting: HashSet::new() }
    }

    /// Counts and lists, as a reconcile does.
    fn count(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> PodCounts {
        let counts = settle(status, spec, pods);
        rules(spec).list(status, pods);
        counts
    }

    #[test]
    fn a_pod_is_counted_once_its_finalizer_is_removed() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let held = [pod("a", "Succeeded", false, Some("n")), pod("b", "Failed", false, Some("n"))];
        assert_eq!(count(&mut status, &spec, &held), PodCounts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed), (None, None));
        assert!(held.iter().all(|pod| rules(&spec).is_told(&status)(pod)));
        // Reconciled again before the finalizers are removed: nothing changes.
        assert_eq!(count(&mut status, &spec, &held), PodCounts { succeeded: 1, failed: 1 });
        assert_eq!(count(&mut status, &spec, &held[1..]), PodCounts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed), (Some(1), None));
        assert_eq!(count(&mut status, &spec, &[]), PodCounts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed, status.uncounted_terminated_pods), (Some(1), Some(1), None));
    }

    #[test]
    fn the_status_takes_so_many_pods_at_a_time() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let mut pods: Vec<_> = (0..1200).map(|n| pod(&n.to_string(), "Succeeded", false, Some("n"))).collect();
        for (told, succeeded) in [(500, None), (500, Some(500)), (200, Some(1000)), (0, Some(1200))] {
            // All ended pods are counted at once, even without room for their uids.
            assert_eq!(count(&mut status, &spec, &pods).succeeded, 1200);
            let rules = rules(&spec);
            let is_told = rules.is_told(&status);
            let before = pods.len();
            pods.retain(|pod| !is_told(pod));
            assert_eq!((before - pods.len(), status.succeeded), (told, succeeded));
        }
        assert_eq!(status.uncounted_terminated_pods, None);
    }

    #[test]
    fn a_pod_that_another_has_to_learn_from_is_held_until_the_job_is_decided() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let pods = [pod("a", "Failed", false, Some("n"))];
        let mut rules = CountingRules { awaiting: HashSet::from(["a"]), ..rules(&spec) };
        assert_eq!(settle(&mut status, &spec, &pods).failed, 1);
        rules.list(&mut status, &pods);
        assert!(status.uncounted_terminated_pods.is_none() && !rules.is_told(&status)(&pods[0]));
        let end = JobOutcome::success("Because", "");
        rules.outcome = Some(&end);
        rules.list(&mut status, &pods);
        assert!(rules.is_told(&status)(&pods[0]));
    }

    #[test]
    fn a_job_that_waits_for_the_end_counts_no_pod_that_is_only_going() {
        let waits = JobSpec { pod_replacement_policy: Some("Failed".into()), ..Default::default() };
        for (spec, phase, is_going, node, want) in [
            (JobSpec::default(), "Running", false, Some("n"), false),
            (JobSpec::default(), "Running", true, Some("n"), true),
            (JobSpec::default(), "Succeeded", true, Some("n"), false),
            (waits.clone(), "Running", true, Some("n"), false),
            (waits.clone(), "Failed", true, Some("n"), true),
            (waits.clone(), "Pending", true, None, true),
            (waits.clone(), "Pending", false, None, false),
        ] {
            let got = is_failed(&pod("a", phase, is_going, node), &spec);
            assert_eq!(got, want, "{:?} {phase} {is_going}", spec.pod_replacement_policy);
        }
    }

    #[test]
    fn running_pods_of_a_failed_job_count_as_failed() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let pods = [pod("a", "Running", false, Some("n")), pod("b", "Succeeded", false, Some("n"))];
        let end = JobOutcome::decided(&JobStatus {
            conditions: [kubewright_api::batch::v1::JobCondition {
                type_: "FailureTarget".into(),
                status: "True".into(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        });
        let rules = CountingRules { outcome: end.as_ref(), ..rules(&spec) };
        rules.list(&mut status, &pods);
        rules.list(&mut status, &pods);
        let uncounted = status.uncounted_terminated_pods.as_deref().unwrap();
        assert_eq!((&uncounted.succeeded[..], &uncounted.failed[..]), (&["b".into()][..], &["a".into()][..]));
    }
}
