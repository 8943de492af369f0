//! Back-off of a job after failed pods.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, ObjectKey, Str, Time};

use super::tracking::{is_failed, is_tracked};
use crate::pods::{condition, phase};

/// Minimum and maximum delay; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Failure state per job, because failed pods may be deleted during the back-off.
///
/// By the key of the job. One worker handles a key at a time; it removes the entry of a deleted
/// job.
#[derive(Debug, Default)]
#[doc(alias = "backoffStore")]
pub(super) struct Backoffs {
    records: Mutex<HashMap<ObjectKey, FailureHistory>>,
}

/// Failures of a job since its last success.
#[derive(Debug, Clone, Default)]
struct FailureHistory {
    /// The uid of the job: another job of its name starts over.
    uid: Str,
    failures: u32,
    last_failure: Option<Time>,
    /// Pods that are already counted, while they exist.
    known: HashSet<Str>,
}

impl Backoffs {
    /// Records ended pods; returns the remaining back-off.
    pub(super) fn wait(&self, job: &Job, spec: &JobSpec, pods: &[Arc<Pod>], now: Time) -> Option<Duration> {
        let (failures, last_failure) = self.note(job, spec, pods);
        pause(failures, last_failure?, now)
    }

    /// Records ended pods, which may be released before the job is reconciled.
    ///
    /// Returns the number of failures since the last success, and the time of the last one.
    pub(super) fn note(&self, job: &Job, spec: &JobSpec, pods: &[Arc<Pod>]) -> (u32, Option<Time>) {
        let mut records = self.lock();
        let record = records.entry(job.key()).or_default();
        if record.uid != job.uid() {
            *record = FailureHistory { uid: job.uid().into(), ..FailureHistory::default() };
        }
        record.note(spec, pods);
        (record.failures, record.last_failure)
    }

    /// Removes the entry of a deleted job.
    pub(super) fn forget(&self, job: &ObjectKey) {
        self.lock().remove(job);
    }

    /// Whether there is no entry of a job.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self, job: &ObjectKey) -> bool {
        !self.lock().contains_key(job)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, FailureHistory>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailureHistory {
    #[doc(alias = "newBackoffRecord")]
    fn note(&mut self, spec: &JobSpec, pods: &[Arc<Pod>]) {
        let held = pods.iter().filter(|pod| is_tracked(pod));
        let (succeeded, others) = held.partition::<Vec<_>, _>(|pod| phase(pod) == "Succeeded");
        let failed: Vec<_> = others.into_iter().filter(|pod| is_failed(pod, spec)).collect();
        let is_new = |pod: &&&Arc<Pod>| !self.known.contains(pod.uid());
        let last_success = succeeded.iter().filter(is_new).filter_map(|pod| finished_at(pod)).max();
        let mut failures: Vec<Time> = failed.iter().filter(is_new).filter_map(|pod| finished_at(pod)).collect();
        if let Some(success) = last_success {
            // Only later failures count.
            (self.failures, self.last_failure) = (0, None);
            failures.retain(|failure| *failure > success);
        }
        self.failures = self.failures.saturating_add(u32::try_from(failures.len()).unwrap_or(u32::MAX));
        self.last_failure = self.last_failure.max(failures.into_iter().max());
        self.known = succeeded.iter().chain(&failed).map(|pod| pod.uid().into()).collect();
    }
}

/// The remaining back-off after this many failures.
#[doc(alias = "getRemainingTimeForFailuresCount")]
pub(super) fn pause(failures: u32, last_failure: Time, now: Time) -> Option<Duration> {
    let doublings = failures.checked_sub(1)?;
    let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(doublings)).min(LONGEST_PAUSE);
    let passed = now.duration_since(last_failure).unwrap_or_default();
    Some(pause.saturating_sub(passed)).filter(|wait| !wait.is_zero())
}

/// When a pod ended: the end of its last container, or when it became unready, or its deletion.
#[doc(alias = "getFinishedTime")]
pub(super) fn finished_at(pod: &Pod) -> Option<Time> {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter());
    let ends: Option<Vec<Time>> =
        containers.map(|container| container.state.as_ref()?.terminated.as_ref()?.finished_at).collect();
    let unready = || condition(pod, "Ready").filter(|ready| ready.status == "False")?.last_transition_time;
    let deleted = || {
        let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default()).unwrap_or_default();
        pod.metadata.deletion_timestamp?.checked_sub(Duration::from_secs(grace))
    };
    let ended = ends.and_then(|ends| ends.into_iter().max());
    ended.or_else(unready).or_else(deleted).or_else(|| pod.creation_timestamp())
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

    fn pod(uid: &str, phase: &str, ended: i64) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.into());
        pod.metadata.finalizers = [FINALIZER.into()].into();
        let conditions = [new_condition("Ready", false, time(ended))].into();
        pod.status = Some(PodStatus { phase: Some(phase.into()), conditions, ..Default::default() });
        Arc::new(pod)
    }

    #[test]
    fn each_failure_since_the_last_success_doubles_the_wait() {
        let (backoffs, spec, job) = (Backoffs::default(), JobSpec::default(), Job::default());
        let wait = |pods: &[Arc<Pod>], now| backoffs.wait(&job, &spec, pods, time(now)).map(|wait| wait.as_secs());
        assert_eq!(wait(&[], 0), None);
        assert_eq!(wait(&[pod("a", "Failed", 0)], 1), Some(9));
        assert_eq!(wait(&[pod("a", "Failed", 0)], 1), Some(9), "none is counted twice");
        // Deleting the pods does not shorten the back-off.
        assert_eq!((wait(&[], 2), wait(&[], 10)), (Some(8), None));
        assert_eq!(wait(&[pod("b", "Failed", 20), pod("c", "Failed", 21)], 21), Some(40));
        assert_eq!(wait(&[pod("d", "Succeeded", 30)], 30), None);
        assert_eq!(wait(&[pod("e", "Failed", 31), pod("f", "Succeeded", 32), pod("g", "Failed", 33)], 33), Some(10));
        let many: Vec<_> = (0..40).map(|number| pod(&number.to_string(), "Failed", 40)).collect();
        assert_eq!(wait(&many, 40), Some(600));
        let mut another = Job::default();
        another.metadata.uid = Some("another".into());
        assert_eq!(backoffs.wait(&another, &spec, &[], time(40)), None, "one that was deleted had its name");
        backoffs.note(&another, &spec, &many);
        backoffs.forget(&another.key());
        assert_eq!(backoffs.wait(&another, &spec, &[], time(40)), None);
    }

    #[test]
    fn a_pod_that_is_deleted_before_its_end_has_ended_when_it_was() {
        let mut pod = Pod::default();
        pod.metadata.creation_timestamp = Some(time(0));
        assert_eq!(finished_at(&pod), Some(time(0)));
        pod.metadata.deletion_timestamp = Some(time(40));
        pod.metadata.deletion_grace_period_seconds = Some(30);
        assert_eq!(finished_at(&pod), Some(time(10)));
    }
}
