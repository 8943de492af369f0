//! Job conditions.

use kubewright_api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use kubewright_client::clock;
use kubewright_core::{Str, Time};

use super::Jobs;
use super::outcome::JobOutcome;

/// The condition that marks a finished job.
#[doc(alias = "IsJobFinished")]
pub(super) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = &job.status.as_ref()?.conditions;
    conditions.iter().find(|one| matches!(&*one.type_, "Complete" | "Failed") && one.status == "True")
}

/// Adds the condition that a job's outcome is decided, or that it is finished.
pub(super) fn conclude(status: &mut JobStatus, type_: &str, outcome: &JobOutcome, now: Time) {
    status.conditions.retain(|condition| condition.type_ != type_);
    status.conditions.push(condition(type_, "True", &outcome.reason, &outcome.message, now));
    if type_ == "Complete" {
        status.completion_time = Some(now);
    }
}

impl Jobs {
    /// Updates the suspension condition, once the job was ever suspended.
    pub(super) fn note_suspension(&self, job: &Job, spec: &JobSpec, status: &mut JobStatus) {
        let is_suspended = spec.suspend == Some(true);
        let now = clock::now();
        let known = status.conditions.iter_mut().find(|condition| condition.type_ == "Suspended");
        let word = if is_suspended { "True" } else { "False" };
        let (reason, message) =
            if is_suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        match known {
            Some(known) if known.status == word => return,
            None if !is_suspended => return,
            Some(known) => *known = condition("Suspended", word, reason, message, now),
            None => status.conditions.push(condition("Suspended", word, reason, message, now)),
        }
        // The deadline restarts when a job is resumed.
        status.start_time = (!is_suspended).then_some(now);
        self.events.normal(job, if is_suspended { "Suspended" } else { "Resumed" }, message);
    }

    /// Records the event of a finished job.
    pub(super) fn tell_end(&self, job: &Job, outcome: &JobOutcome) {
        if outcome.is_success {
            self.events.normal(job, "Completed", "Job completed")
        } else {
            self.events.warning(job, outcome.reason.clone(), outcome.message.clone())
        }
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, now: Time) -> JobCondition {
    JobCondition {
        type_: type_.into(),
        status: status.into(),
        last_probe_time: Some(now),
        last_transition_time: Some(now),
        reason: Some(Str::from(reason)),
        message: Some(Str::from(message)),
    }
}
