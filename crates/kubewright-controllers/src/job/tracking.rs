//! Counting each pod that ends exactly once.
//!
//! The uid of an ended pod goes into the status, then the pod's finalizer goes, then the uid turns into a number: whatever is
//! interrupted can be taken up again from what is written.

use std::collections::HashSet;
use std::sync::Arc;

use kubewright_api::batch::v1::{JobSpec, JobStatus, UncountedTerminatedPods};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::Patch;
use kubewright_core::{List, Object, ObjectKey, Str};

use super::outcome::{Counts, Outcome};
use super::{Jobs, failure_policy, indexed};
use crate::batches::all_at_once;
use crate::error::Error;
use crate::indices;
use crate::owner_events::controller;
use crate::pods::{node_name, phase};

/// What holds a pod until its end has been counted.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// How the end of a pod is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Succeeded,
    Failed,
    /// Not by its uid: its number is in the list of those that have succeeded, or its failure is to be ignored.
    Untold,
}

/// So many pods are in the status at the most, lest it grow beyond what the server takes.
#[doc(alias = "MaxUncountedPods")]
const MAX_UNCOUNTED: usize = 500;

/// Moves pods that were let go into the numbers of the status; returns these with all that have ended. Pods of an indexed job that
/// have succeeded are in its list of indexes already.
pub(super) fn settle(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> Counts {
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
    let fresh: Vec<End> = pods
        .iter()
        .filter(|pod| is_tracked(pod) && !listed.contains(pod.uid()))
        .filter_map(|pod| end_of(pod, spec))
        .collect();
    let total = |uids: &List<Str>, number: Option<i32>, end: End| {
        number.unwrap_or_default() + number_of(uids.len() + fresh.iter().filter(|one| **one == end).count())
    };
    let counts = Counts {
        succeeded: total(&uncounted.succeeded, status.succeeded, End::Succeeded),
        failed: total(&uncounted.failed, status.failed, End::Failed),
    };
    put_uncounted(status, uncounted);
    counts
}

/// How the ends of pods count as a job stands.
pub(super) struct Reckoning<'a> {
    pub(super) spec: &'a JobSpec,
    /// Once a job is decided, nothing is waited for: what has not ended is not needed, or has failed with the job.
    pub(super) outcome: Option<&'a Outcome>,
    /// Pods that are not counted yet since another has to learn from them how often they failed.
    pub(super) awaiting: HashSet<&'a str>,
}

impl Reckoning<'_> {
    /// Moves pods that have ended into the status, so many as there is room for; the others have their turn when these are let go.
    #[doc(alias = "trackJobStatusAndRemoveFinalizers")]
    pub(super) fn list(&self, status: &mut JobStatus, pods: &[Arc<Pod>]) {
        let mut uncounted = take_uncounted(status);
        let listed = listed(&uncounted);
        for pod in pods.iter().filter(|pod| is_tracked(pod) && !listed.contains(pod.uid())) {
            if uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED {
                break;
            }
            match self.end_of(pod) {
                Some(End::Succeeded) => uncounted.succeeded.push(pod.uid().into()),
                Some(End::Failed) => uncounted.failed.push(pod.uid().into()),
                Some(End::Untold) | None => {}
            }
        }
        put_uncounted(status, uncounted);
    }

    /// Tells of each pod whether all that has to be told of its end is in the status.
    pub(super) fn is_told(&self, status: &JobStatus) -> impl Fn(&Pod) -> bool + Send {
        let listed = status.uncounted_terminated_pods.as_deref().map(listed).unwrap_or_default();
        move |pod| listed.contains(pod.uid()) || self.end_of(pod) == Some(End::Untold)
    }

    fn end_of(&self, pod: &Pod) -> Option<End> {
        match (end_of(pod, self.spec), self.outcome) {
            (Some(_), None) if self.awaiting.contains(pod.uid()) => None,
            (None, Some(outcome)) if outcome.is_success => Some(End::Untold),
            (None, Some(_)) => Some(failure_of(pod, self.spec)),
            (end, _) => end,
        }
    }
}

/// Whether a pod has failed: also one that is deleted before its end, unless the job waits for that end.
///
/// A pod that never had a node will not come to an end that could be waited for.
#[doc(alias = "isPodFailed")]
pub(super) fn is_failed(pod: &Pod, spec: &JobSpec) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_being_deleted() && (!waits_for_the_end(spec) || node_name(pod).is_empty()),
    }
}

/// Whether a pod is replaced only when it has failed, not when it begins to stop.
#[doc(alias = "onlyReplaceFailedPods")]
pub(super) fn waits_for_the_end(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
}

fn end_of(pod: &Pod, spec: &JobSpec) -> Option<End> {
    match phase(pod) {
        "Succeeded" if indexed::completions(spec).is_some() => Some(End::Untold),
        "Succeeded" => Some(End::Succeeded),
        _ => is_failed(pod, spec).then(|| failure_of(pod, spec)),
    }
}

/// How a pod counts that has not succeeded. One of no valid number never was of the job.
fn failure_of(pod: &Pod, spec: &JobSpec) -> End {
    let belongs = indexed::completions(spec).is_none_or(|count| indexed::index_of(pod, count).is_some());
    if belongs && failure_policy::is_counted(spec, pod) { End::Failed } else { End::Untold }
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

/// All that is in the lists: there may be thousands, and each pod is looked for.
fn listed(uncounted: &UncountedTerminatedPods) -> HashSet<String> {
    uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| uid.to_string()).collect()
}

/// Whether a pod is held until its end has been counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

impl Jobs {
    /// Takes the finalizer from those pods that are not needed any more.
    pub(super) async fn let_go(&self, pods: &[Arc<Pod>], which: impl Fn(&Pod) -> bool + Send) -> Result<(), Error> {
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

    /// Lets pods go whose job of this name is gone, whether or not another has its name; the uid is of that one.
    pub(super) async fn let_go_of_strangers(&self, key: &ObjectKey, uid: Option<&str>) -> Result<(), Error> {
        let mut pods = indices::of_job(&self.pods.lister(), key);
        pods.retain(|pod| controller(pod).is_some_and(|owner| uid.is_none_or(|uid| owner.uid != *uid)));
        self.let_go(&pods, |_| true).await
    }

    /// Lets a pod go that no job controls any more.
    #[doc(alias = "syncOrphanPod")]
    pub(super) async fn let_go_of_orphan(&self, key: &ObjectKey) -> Result<(), Error> {
        let pod = self.pods.lister().namespace(key.namespace().clone()).get(key.name());
        let orphan: Vec<Arc<Pod>> = pod.into_iter().filter(|pod| controller(pod).is_none()).collect();
        self.let_go(&orphan, |_| true).await
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

    fn reckoning(spec: &JobSpec) -> Reckoning<'_> {
        Reckoning { spec, outcome: None, awaiting: HashSet::new() }
    }

    /// Counts and lists, as a look at a job does.
    fn count(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> Counts {
        let counts = settle(status, spec, pods);
        reckoning(spec).list(status, pods);
        counts
    }

    #[test]
    fn a_pod_is_counted_once_it_was_let_go() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let held = [pod("a", "Succeeded", false, Some("n")), pod("b", "Failed", false, Some("n"))];
        assert_eq!(count(&mut status, &spec, &held), Counts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed), (None, None));
        assert!(held.iter().all(|pod| reckoning(&spec).is_told(&status)(pod)));
        // Looked at again before the finalizers are seen to be gone: nothing changes.
        assert_eq!(count(&mut status, &spec, &held), Counts { succeeded: 1, failed: 1 });
        assert_eq!(count(&mut status, &spec, &held[1..]), Counts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed), (Some(1), None));
        assert_eq!(count(&mut status, &spec, &[]), Counts { succeeded: 1, failed: 1 });
        assert_eq!((status.succeeded, status.failed, status.uncounted_terminated_pods), (Some(1), Some(1), None));
    }

    #[test]
    fn the_status_takes_so_many_pods_at_a_time() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let mut pods: Vec<_> = (0..1200).map(|n| pod(&n.to_string(), "Succeeded", false, Some("n"))).collect();
        for (told, succeeded) in [(500, None), (500, Some(500)), (200, Some(1000)), (0, Some(1200))] {
            // All that have ended are known from the first look on, whether or not there is room for them.
            assert_eq!(count(&mut status, &spec, &pods).succeeded, 1200);
            let reckoning = reckoning(&spec);
            let is_told = reckoning.is_told(&status);
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
        let mut reckoning = Reckoning { awaiting: HashSet::from(["a"]), ..reckoning(&spec) };
        assert_eq!(settle(&mut status, &spec, &pods).failed, 1);
        reckoning.list(&mut status, &pods);
        assert!(status.uncounted_terminated_pods.is_none() && !reckoning.is_told(&status)(&pods[0]));
        let end = Outcome::success("Because", "");
        reckoning.outcome = Some(&end);
        reckoning.list(&mut status, &pods);
        assert!(reckoning.is_told(&status)(&pods[0]));
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
    fn what_a_failed_job_still_runs_has_failed() {
        let (spec, mut status) = (JobSpec::default(), JobStatus::default());
        let pods = [pod("a", "Running", false, Some("n")), pod("b", "Succeeded", false, Some("n"))];
        let end = Outcome::decided(&JobStatus {
            conditions: [kubewright_api::batch::v1::JobCondition {
                type_: "FailureTarget".into(),
                status: "True".into(),
                ..Default::default()
            }]
            .into(),
            ..Default::default()
        });
        let reckoning = Reckoning { outcome: end.as_ref(), ..reckoning(&spec) };
        reckoning.list(&mut status, &pods);
        reckoning.list(&mut status, &pods);
        let uncounted = status.uncounted_terminated_pods.as_deref().unwrap();
        assert_eq!((&uncounted.succeeded[..], &uncounted.failed[..]), (&["b".into()][..], &["a".into()][..]));
    }
}
