//! When a job is over, and how.

use std::time::Duration;

use kubewright_api::batch::v1::{JobSpec, JobStatus};
use kubewright_core::Time;

/// How many pods have ended, those not yet in the status included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Completed,
    TooManyFailures,
    TooLate,
}

impl Outcome {
    /// What is true of the job: that it is decided, and that it is over.
    pub(super) fn conditions(&self) -> [&'static str; 2] {
        match self {
            Outcome::Completed => ["SuccessCriteriaMet", "Complete"],
            _ => ["FailureTarget", "Failed"],
        }
    }

    pub(super) fn reason(&self) -> &'static str {
        match self {
            Outcome::Completed => "CompletionsReached",
            Outcome::TooManyFailures => "BackoffLimitExceeded",
            Outcome::TooLate => "DeadlineExceeded",
        }
    }

    pub(super) fn message(&self) -> &'static str {
        match self {
            Outcome::Completed => "Reached expected number of succeeded pods",
            Outcome::TooManyFailures => "Job has reached the specified backoff limit",
            Outcome::TooLate => "Job was active longer than specified deadline",
        }
    }
}

/// Whether a job is over.
pub(super) fn decide(spec: &JobSpec, status: &JobStatus, counts: Counts, active: usize, now: Time) -> Option<Outcome> {
    if counts.failed > spec.backoff_limit.unwrap_or(6) {
        return Some(Outcome::TooManyFailures);
    }
    if deadline(spec, status).is_some_and(|deadline| now >= deadline) {
        return Some(Outcome::TooLate);
    }
    let is_complete = match spec.completions {
        Some(completions) => counts.succeeded >= completions,
        // Without a number, the first success is the last pod to be started.
        None => counts.succeeded > 0 && active == 0,
    };
    (is_complete && spec.suspend != Some(true)).then_some(Outcome::Completed)
}

/// How long a job has until it is too late.
pub(super) fn until_deadline(spec: &JobSpec, status: &JobStatus, now: Time) -> Option<Duration> {
    let left = deadline(spec, status)?.duration_since(now)?;
    Some(left + Duration::from_secs(1))
}

fn deadline(spec: &JobSpec, status: &JobStatus) -> Option<Time> {
    let seconds = u64::try_from(spec.active_deadline_seconds?).ok()?;
    status.start_time?.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_by_success_by_failures_or_by_its_deadline() {
        let now = Time::from_unix(1_700_000_000).unwrap();
        let status = JobStatus { start_time: now.checked_sub(Duration::from_secs(60)), ..Default::default() };
        let counted = |succeeded, failed| Counts { succeeded, failed };
        for (completions, deadline, counts, active, want) in [
            (Some(3), None, counted(2, 0), 1, None),
            (Some(3), None, counted(3, 6), 0, Some(Outcome::Completed)),
            (Some(3), None, counted(2, 7), 0, Some(Outcome::TooManyFailures)),
            (Some(3), Some(60), counted(2, 0), 1, Some(Outcome::TooLate)),
            (Some(3), Some(61), counted(2, 0), 1, None),
            (None, None, counted(1, 0), 1, None),
            (None, None, counted(1, 0), 0, Some(Outcome::Completed)),
            (None, None, counted(0, 0), 0, None),
        ] {
            let spec = JobSpec { completions, active_deadline_seconds: deadline, ..Default::default() };
            assert_eq!(decide(&spec, &status, counts, active, now), want, "{completions:?} {deadline:?} {counts:?}");
        }
    }
}
