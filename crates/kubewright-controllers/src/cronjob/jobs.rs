//! The jobs of a cron job: active, finished, and history limits.

use std::sync::Arc;

use kubewright_api::batch::v1::{CronJob, Job, JobCondition};
use kubewright_api::core::v1::ObjectReference;
use kubewright_client::Api;
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::{Object, Time, owner};

use super::{CronJobs, KIND};
use crate::error::Error;

/// The annotation with the scheduled time of a job.
#[doc(alias = "CronJobScheduledTimestampAnnotation")]
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The condition that marks a finished job.
pub(super) fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = &job.status.as_ref()?.conditions;
    conditions.iter().find(|one| matches!(&*one.type_, "Complete" | "Failed") && one.status == "True")
}

/// The name of the job for a scheduled time, which makes it unique.
#[doc(alias = "getJobName")]
pub(super) fn name(cron: &CronJob, at: Time) -> String {
    format!("{}-{}", cron.name(), at.as_unix() / 60)
}

/// A job from the template for a scheduled time.
#[doc(alias = "getJobFromTemplate2")]
pub(super) fn job(cron: &CronJob, at: Time) -> Job {
    let template = &cron.spec.job_template;
    let mut job = Job { spec: template.spec.clone(), ..Default::default() };
    job.metadata.name = Some(name(cron, at).into());
    job.metadata.namespace = cron.metadata.namespace.clone();
    job.metadata.labels = template.metadata.labels.clone();
    job.metadata.annotations = template.metadata.annotations.clone();
    job.metadata.annotations.insert(SCHEDULED, at.to_string().into());
    job.metadata.owner_references = [owner::new_controller_ref(&cron.metadata, &KIND)].into();
    job
}

/// A reference to an active job.
pub(super) fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..Default::default()
    }
}

fn is_about(reference: &ObjectReference, job: &Job) -> bool {
    reference.uid.as_deref() == Some(job.uid())
}

impl CronJobs {
    /// Updates the list of active jobs and the time of the last success.
    pub(super) fn note(&self, cron: &mut CronJob, jobs: &[Arc<Job>]) {
        let told = cron.clone();
        let status = cron.status.get_or_insert_default();
        for job in jobs {
            let is_active = status.active.iter().any(|one| is_about(one, job));
            match finished(job) {
                None if !is_active => {
                    let message = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                    self.events.warning(&told, "UnexpectedJob", message);
                }
                None => {}
                Some(end) => {
                    if is_active {
                        status.active.retain(|one| !is_about(one, job));
                        let message = format!("Saw completed job: {}, condition: {}", job.name(), end.type_);
                        self.events.normal(&told, "SawCompletedJob", message);
                    }
                    let succeeded = job.status.as_ref().and_then(|status| status.completion_time);
                    status.last_successful_time =
                        status.last_successful_time.max(succeeded.filter(|_| end.type_ == "Complete"));
                }
            }
        }
        let missing = |one: &ObjectReference| !jobs.iter().any(|job| is_about(one, job));
        for gone in status.active.iter().filter(|one| missing(one)) {
            let message = format!("Active job went missing: {}", gone.name.as_deref().unwrap_or_default());
            self.events.normal(&told, "MissingJob", message);
        }
        status.active.retain(|one| !missing(one));
    }

    /// Deletes the oldest finished jobs beyond the history limits.
    #[doc(alias = "cleanupFinishedJobs")]
    pub(super) async fn trim(&self, cron: &mut CronJob, jobs: &[Arc<Job>]) -> Result<(), Error> {
        let limits =
            [("Complete", cron.spec.successful_jobs_history_limit), ("Failed", cron.spec.failed_jobs_history_limit)];
        for (end, limit) in limits {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let is_such = |job: &&Arc<Job>| {
                !job.is_being_deleted() && finished(job).is_some_and(|condition| condition.type_ == end)
            };
            let mut ended: Vec<_> = jobs.iter().filter(is_such).collect();
            ended.sort_by(|a, b| {
                let start = |job: &Job| job.status.as_ref().and_then(|status| status.start_time);
                start(a).cmp(&start(b)).then_with(|| a.name().cmp(b.name()))
            });
            for job in ended.iter().take(ended.len().saturating_sub(limit)) {
                self.delete(cron, job.name(), job.uid()).await?;
            }
        }
        Ok(())
    }

    /// Deletes a job with its pods.
    #[doc(alias = "deleteJob")]
    pub(super) async fn delete(&self, cron: &mut CronJob, name: &str, uid: &str) -> Result<(), Error> {
        let options = DeleteOptions::default().propagation(PropagationPolicy::Background).uid(uid);
        match Api::<Job>::namespaced(&self.client, cron.namespace()).delete_with(name, &options).await {
            Ok(_) => self.events.normal(&*cron, "SuccessfulDelete", format!("Deleted job {name}")),
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => {
                self.events.warning(&*cron, "FailedDelete", format!("Deleted job: {error}"));
                return Err(error.into());
            }
        }
        let status = cron.status.get_or_insert_default();
        status.active.retain(|one| one.uid.as_deref() != Some(uid));
        Ok(())
    }
}
