//! Per-index failures of an indexed job (`backoffLimitPerIndex`).
//!
//! The number of failures of an index is an annotation of its pods, so the last failed pod is kept
//! until its replacement has been created with the next count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::batch::v1::{JobSpec, JobStatus};
use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, Str, Time};

use super::backoff::{finished_at, pause};
use super::tracking::{is_failed, is_tracked};
use super::{failure_policy, indexed};
use crate::pods::is_active;

/// Failures of the index before this pod.
#[doc(alias = "JobIndexFailureCountAnnotation")]
const COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Ignored failures of the index, which count for the back-off only.
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The back-off limit per index, if there is one.
#[doc(alias = "hasBackoffLimitPerIndex")]
pub(super) fn limit(spec: &JobSpec) -> Option<i32> {
    spec.backoff_limit_per_index.filter(|_| indexed::completions(spec).is_some())
}

/// Records permanently failed indexes.
#[doc(alias = "calculateFailedIndexes")]
pub(super) fn note_failed(
    status: &mut JobStatus,
    spec: &JobSpec,
    completions: i32,
    pods: &[Arc<Pod>],
) -> Option<BTreeSet<i32>> {
    let limit = limit(spec)?;
    let mut failed = indexed::parse(status.failed_indexes.as_deref().unwrap_or_default(), completions);
    let lost = pods.iter().filter(|pod| is_tracked(pod) && is_lost(pod, spec, limit));
    failed.extend(lost.filter_map(|pod| indexed::index_of(pod, completions)));
    status.failed_indexes = Some(indexed::format(&failed).into());
    Some(failed)
}

/// Whether this was the last allowed failure of the pod's index.
#[doc(alias = "isIndexFailed")]
fn is_lost(pod: &Pod, spec: &JobSpec, limit: i32) -> bool {
    is_failed(pod, spec)
        && (failure_policy::fails_index(spec, pod)
            || failure_policy::is_counted(spec, pod) && count(pod, COUNT) >= limit)
}

/// The last failed pod of each index that awaits a retry.
#[doc(alias = "getPodsWithDelayedDeletionPerIndex")]
pub(super) fn awaiting(
    spec: &JobSpec,
    completions: i32,
    settled: impl Fn(i32) -> bool,
    pods: &[Arc<Pod>],
) -> BTreeMap<i32, Arc<Pod>> {
    let mut last_of: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
    if limit(spec).is_none() {
        return last_of;
    }
    let index = |pod: &Arc<Pod>| indexed::index_of(pod, completions);
    let active: BTreeSet<i32> = pods.iter().filter(|pod| is_active(pod)).filter_map(index).collect();
    let rank = |pod: &Pod| (failures(pod), finished_at(pod));
    for pod in pods.iter().filter(|pod| is_tracked(pod) && is_failed(pod, spec)) {
        let Some(index) = index(pod).filter(|index| !settled(*index) && !active.contains(index)) else { continue };
        if last_of.get(&index).is_none_or(|known| rank(known) <= rank(pod)) {
            last_of.insert(index, pod.clone());
        }
    }
    last_of
}

/// The indexes that are due for a retry, or the time until the first one.
#[doc(alias = "getPodCreationInfoForIndependentIndexes")]
pub(super) fn due(indexes: Vec<i32>, last_of: &BTreeMap<i32, Arc<Pod>>, now: Time) -> (Vec<i32>, Option<Duration>) {
    let wait = |index: &i32| {
        let last = last_of.get(index)?;
        pause(u32::try_from(failures(last)).unwrap_or_default() + 1, finished_at(last)?, now)
    };
    let soonest = indexes.iter().filter_map(wait).min();
    let due: Vec<i32> = indexes.into_iter().filter(|index| wait(index).is_none()).collect();
    let wait = soonest.filter(|_| due.is_empty());
    (due, wait)
}

/// Records the failures of an index in its new pod, from the one that it replaces.
#[doc(alias = "addIndexFailureCountAnnotation")]
pub(super) fn note_count(pod: &mut Pod, spec: &JobSpec, replaced: Option<&Pod>) {
    let (mut counted, mut ignored) = replaced.map(|pod| (count(pod, COUNT), count(pod, IGNORED))).unwrap_or_default();
    match replaced.map(|replaced| failure_policy::is_counted(spec, replaced)) {
        Some(true) => counted += 1,
        Some(false) => ignored += 1,
        None => {}
    }
    pod.metadata.annotations.insert(COUNT, Str::from(counted.to_string()));
    if ignored > 0 {
        pod.metadata.annotations.insert(IGNORED, Str::from(ignored.to_string()));
    }
}

/// All failures of the index before this pod, counted or ignored.
#[doc(alias = "getIndexAbsoluteFailureCount")]
fn failures(pod: &Pod) -> i32 {
    count(pod, COUNT).saturating_add(count(pod, IGNORED))
}

fn count(pod: &Pod, annotation: &str) -> i32 {
    let count: Option<i32> = pod.annotations().get(annotation).and_then(|text| text.parse().ok());
    count.unwrap_or_default().max(0)
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::PodStatus;

    use super::super::tracking::FINALIZER;
    use super::*;
    use crate::pods::new_condition;

    fn time(seconds: i64) -> Time {
        Time::from_unix(1_700_000_000 + seconds).unwrap()
    }

    fn pod(index: i32, phase: &str, count: i32, ended: i64) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(format!("{index}-{count}").into());
        pod.metadata.finalizers = [FINALIZER.into()].into();
        pod.metadata.annotations.insert(indexed::INDEX, index.to_string().into());
        pod.metadata.annotations.insert(COUNT, count.to_string().into());
        let conditions = [new_condition("Ready", false, time(ended))].into();
        pod.status = Some(PodStatus { phase: Some(phase.into()), conditions, ..Default::default() });
        Arc::new(pod)
    }

    fn spec(limit: i32) -> JobSpec {
        JobSpec {
            completions: Some(6),
            completion_mode: Some("Indexed".into()),
            backoff_limit_per_index: Some(limit),
            ..Default::default()
        }
    }

    #[test]
    fn a_number_is_given_up_when_it_has_failed_more_often_than_it_may() {
        let pods = [pod(0, "Failed", 0, 0), pod(1, "Failed", 1, 0), pod(2, "Running", 5, 0), pod(9, "Failed", 9, 0)];
        let mut status = JobStatus { failed_indexes: Some("3,8".into()), ..Default::default() };
        assert_eq!(note_failed(&mut status, &spec(1), 6, &pods), Some(BTreeSet::from([1, 3])));
        assert_eq!(status.failed_indexes.as_deref(), Some("1,3"));
        let mut status = JobStatus::default();
        assert_eq!(note_failed(&mut status, &JobSpec { backoff_limit_per_index: None, ..spec(1) }, 6, &pods), None);
        assert_eq!(status.failed_indexes, None);
    }

    #[test]
    fn the_last_failure_of_each_number_waits_for_its_successor() {
        let pods = [
            pod(0, "Failed", 0, 0),
            pod(0, "Failed", 1, 5),
            pod(1, "Failed", 0, 0),
            pod(1, "Running", 1, 0),
            pod(2, "Failed", 0, 8),
            pod(3, "Failed", 0, 0),
        ];
        let last_of = awaiting(&spec(3), 6, |index| index == 3, &pods);
        let uids: Vec<_> = last_of.values().map(|pod| pod.uid().to_owned()).collect();
        assert_eq!(uids, ["0-1", "2-0"]);
        // 20 s after the second failure of one, 10 s after the first of the other.
        assert_eq!(due(vec![0, 2], &last_of, time(10)), (vec![], Some(Duration::from_secs(8))));
        assert_eq!(due(vec![0, 2, 4], &last_of, time(18)), (vec![2, 4], None));
        assert_eq!(due(vec![0], &last_of, time(25)), (vec![0], None));
        let mut next = Pod::default();
        note_count(&mut next, &spec(3), last_of.get(&0).map(|pod| &**pod));
        assert_eq!((count(&next, COUNT), next.annotations().get(IGNORED)), (2, None));
    }
}
