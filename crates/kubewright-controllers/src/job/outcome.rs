//! The outcome of a job.

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::batch::v1::{JobCondition, JobSpec, JobStatus};
use kubewright_api::core::v1::Pod;
use kubewright_core::{Str, Time};

use super::failure_policy;
use super::indexed::Indexes;
use crate::pods::phase;

/// Number of ended pods, including uncounted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodCounts {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// The outcome of a job. It is decided first; the job is finished when its last pod has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobOutcome {
    pub(super) is_success: bool,
    pub(super) reason: Str,
    pub(super) message: Str,
}

impl JobOutcome {
    pub(super) fn success(reason: &str, message: &str) -> Self {
        JobOutcome { is_success: true, reason: reason.into(), message: message.into() }
    }

    fn failure(reason: &str, message: &str) -> Self {
        JobOutcome { is_success: false, reason: reason.into(), message: message.into() }
    }

    /// An earlier decision, which is final.
    pub(super) fn decided(status: &JobStatus) -> Option<Self> {
        let find = |type_: &str| status.conditions.iter().find(|one| one.type_ == type_ && one.status == "True");
        let outcome = |condition: &JobCondition, is_success| JobOutcome {
            is_success,
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        };
        let success = find("SuccessCriteriaMet").map(|condition| outcome(condition, true));
        success.or_else(|| find("FailureTarget").map(|condition| outcome(condition, false)))
    }

    /// The condition for the decision.
    pub(super) fn decision(&self) -> &'static str {
        if self.is_success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition for the end.
    pub(super) fn end(&self) -> &'static str {
        if self.is_success { "Complete" } else { "Failed" }
    }
}

/// Whether a job has failed.
pub(super) fn failed(
    spec: &JobSpec,
    status: &JobStatus,
    counts: PodCounts,
    pods: &[Arc<Pod>],
    now: Time,
) -> Option<JobOutcome> {
    if let Some(message) = failure_policy::failure(spec, pods) {
        return Some(JobOutcome::failure("PodFailurePolicy", &message));
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    if counts.failed > limit || has_restarted_too_often(spec, limit, pods) {
        return Some(JobOutcome::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let is_late = deadline(spec, status).is_some_and(|deadline| now >= deadline);
    is_late.then(|| JobOutcome::failure("DeadlineExceeded", "Job was active longer than specified deadline"))
}

/// Whether a job has failed because of its indexes: too many failed, or all others have succeeded.
pub(super) fn failed_indexes(spec: &JobSpec, indexes: Option<&Indexes>) -> Option<JobOutcome> {
    let indexes = indexes?;
    let failed = indexes.failed.as_ref().filter(|failed| !failed.is_empty())?.len();
    let is_over = |limit: i32| usize::try_from(limit).is_ok_and(|limit| failed > limit);
    if spec.max_failed_indexes.is_some_and(is_over) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(JobOutcome::failure("MaxFailedIndexesExceeded", message));
    }
    let settled = failed + indexes.completed.len();
    let is_all = usize::try_from(indexes.completions).is_ok_and(|completions| settled >= completions);
    is_all.then(|| JobOutcome::failure("FailedIndexes", "Job has failed indexes"))
}

/// Whether enough pods have succeeded, and none is active.
pub(super) fn completed(spec: &JobSpec, counts: PodCounts, active: usize) -> Option<JobOutcome> {
    // Without completions, the first success suffices.
    let is_enough = counts.succeeded >= spec.completions.unwrap_or(1);
    (is_enough && active == 0)
        .then(|| JobOutcome::success("CompletionsReached", "Reached expected number of succeeded pods"))
}

/// Whether containers restarted in place too often, which does not fail a pod.
#[doc(alias = "pastBackoffLimitOnFailure")]
fn has_restarted_too_often(spec: &JobSpec, limit: i32, pods: &[Arc<Pod>]) -> bool {
    if spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let alive = pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let statuses = alive.filter_map(|pod| pod.status.as_ref());
    let containers =
        statuses.flat_map(|status| status.init_container_statuses.iter().chain(status.container_statuses.iter()));
    let restarts = containers.fold(0i32, |sum, container| sum.saturating_add(container.restart_count));
    restarts >= limit.max(1)
}

/// The time until the deadline.
pub(super) fn until_deadline(spec: &JobSpec, status: &JobStatus, now: Time) -> Option<Duration> {
    let left = deadline(spec, status)?.duration_since(now)?;
    Some(left + Duration::from_secs(1))
}

/// The deadline; none while the job is suspended.
fn deadline(spec: &JobSpec, status: &JobStatus) -> Option<Time> {
    let seconds = u64::try_from(spec.active_deadline_seconds.filter(|_| spec.suspend != Some(true))?).ok()?;
    status.start_time?.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use kubewright_api::core::v1::{ContainerStatus, PodStatus};

    use super::*;

    fn reason(outcome: Option<JobOutcome>) -> Option<String> {
        outcome.map(|outcome| outcome.reason.to_string())
    }

    #[test]
    fn a_job_fails_by_failures_or_by_its_deadline() {
        let now = Time::from_unix(1_700_000_000).unwrap();
        let status = JobStatus { start_time: now.checked_sub(Duration::from_secs(60)), ..Default::default() };
        for (deadline, suspend, failed_pods, want) in [
            (None, None, 6, None),
            (None, None, 7, Some("BackoffLimitExceeded")),
            (Some(60), None, 0, Some("DeadlineExceeded")),
            (Some(60), Some(true), 0, None),
            (Some(61), None, 0, None),
        ] {
            let spec = JobSpec { active_deadline_seconds: deadline, suspend, ..Default::default() };
            let counts = PodCounts { succeeded: 2, failed: failed_pods };
            let got = reason(failed(&spec, &status, counts, &[], now));
            assert_eq!(got.as_deref(), want, "{deadline:?} {suspend:?} {failed_pods}");
        }
    }

    #[test]
    fn a_job_is_complete_when_enough_have_succeeded_and_none_runs() {
        for (completions, succeeded, active, want) in [
            (Some(3), 2, 0, false),
            (Some(3), 3, 1, false),
            (Some(3), 3, 0, true),
            (Some(0), 0, 0, true),
            (None, 1, 1, false),
            (None, 1, 0, true),
            (None, 0, 0, false),
        ] {
            let spec = JobSpec { completions, ..Default::default() };
            let got = completed(&spec, PodCounts { succeeded, failed: 0 }, active);
            assert_eq!(got.is_some(), want, "{completions:?} {succeeded} {active}");
        }
    }

    #[test]
    fn restarts_of_all_containers_that_are_alive_count_together() {
        let pod = |phase: &str, of_init: i32, of_main: i32| {
            let status = |restart_count| ContainerStatus { restart_count, ..Default::default() };
            let mut pod_status = PodStatus { phase: Some(phase.into()), ..Default::default() };
            pod_status.init_container_statuses = [status(of_init)].into();
            pod_status.container_statuses = [status(of_main)].into();
            Arc::new(Pod { status: Some(pod_status), ..Default::default() })
        };
        let pods = [pod("Running", 1, 1), pod("Pending", 1, 0), pod("Failed", 5, 5)];
        for (policy, limit, pods, want) in [
            ("OnFailure", 4, &pods[..], false),
            ("OnFailure", 3, &pods[..], true),
            ("OnFailure", 0, &pods[1..], true),
            ("OnFailure", 0, &pods[2..], false),
            ("Never", 0, &pods[..], false),
        ] {
            let mut spec = JobSpec::default();
            spec.template.spec.get_or_insert_default().restart_policy = Some(policy.into());
            assert_eq!(has_restarted_too_often(&spec, limit, pods), want, "{policy} {limit} {}", pods.len());
        }
    }

    #[test]
    fn a_decided_outcome_does_not_change() {
        let condition = |type_: &str, status: &str| JobCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some("Because".into()),
            ..Default::default()
        };
        let decided = |conditions: &[JobCondition]| {
            JobOutcome::decided(&JobStatus { conditions: conditions.iter().cloned().collect(), ..Default::default() })
        };
        assert_eq!(decided(&[condition("FailureTarget", "False"), condition("Suspended", "True")]), None);
        assert_eq!(decided(&[condition("FailureTarget", "True")]), Some(JobOutcome::failure("Because", "")));
        assert_eq!(decided(&[condition("SuccessCriteriaMet", "True")]), Some(JobOutcome::success("Because", "")));
    }
}
