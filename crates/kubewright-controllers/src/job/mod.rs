//! Jobs: pods that run to their end, so many at a time, until enough have succeeded.
//!
//! Pods carry a finalizer until their end has been counted, so that none is counted twice, nor lost when it is deleted;
//! `tracking` counts, `indexed` knows pods with numbers, `pods` creates and deletes, `outcome` decides when a job is over. Limits of
//! failures for each index are not done.

mod indexed;
mod outcome;
mod pods;
mod tracking;

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use kubewright_api::core::v1::Pod;
use kubewright_cache::{Event, InformerHandle};
use kubewright_client::{Api, Client};
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Str};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::own_writes::OwnWrites;
use crate::owner_events::controller;
use crate::pods::{is_active, is_ready};
use crate::worker::{self, Reconcile, Synced, work};
use outcome::Outcome;

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("batch", "v1", "Job");

struct Jobs {
    client: Client,
    jobs: InformerHandle<Job>,
    pods: InformerHandle<Pod>,
    own_writes: OwnWrites,
    own_statuses: OwnWrites,
    clock: Clock,
    events: EventRecorder,
}

/// Runs jobs until `stop` is cancelled, with so many workers.
///
/// Returns when the last worker has finished the job in hand.
///
/// # Errors
/// If the caches stop before they were complete.
#[doc(alias = "JobController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Jobs::NAME);
    let (jobs, pods) = (factory.informer::<Job>(), factory.informer::<Pod>());
    indices::by_controller(&pods);
    let reconcile = Arc::new(Jobs {
        client: client.clone(),
        jobs: jobs.clone(),
        pods: pods.clone(),
        own_writes: OwnWrites::default(),
        own_statuses: OwnWrites::default(),
        clock: Clock::new(),
        events: context.recorder("job-controller"),
    });
    let of_jobs = jobs.add_handler({
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        move |event: &Event<Job>| {
            if let Event::Deleted(deleted) = event
                && let Some(job) = deleted.object()
            {
                reconcile.own_writes.forget(job.uid());
                reconcile.own_statuses.forget(job.uid());
            }
            queue.add(event.key());
        }
    })?;
    let of_pods = pods.add_handler({
        let queue = queue.clone();
        move |event: &Event<Pod>| {
            // Also where the job is gone: its pods are then let go.
            if let Some(pod) = event.object().filter(|_| !event.is_reminder())
                && let Some(reference) = controller(pod).filter(|reference| reference.kind == "Job")
            {
                queue.add(ObjectKey::namespaced(pod.namespace(), reference.name));
            }
        }
    })?;
    factory.start(stop);
    if of_jobs.synced().await && of_pods.synced().await {
        work(reconcile, &queue, context, stop).await;
    }
    of_jobs.remove();
    of_pods.remove();
    Ok(())
}

impl Reconcile for Jobs {
    const NAME: &'static str = "job";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let job = self.jobs.lister().namespace(key.namespace().clone()).get(key.name());
        self.let_go_of_strangers(key, job.as_deref()).await?;
        let Some(job) = job else { return Ok(None) };
        let Some(spec) = &job.spec else { return Ok(None) };
        let pods = indices::controlled_by(&self.pods.lister(), job.uid());
        if job.is_being_deleted() {
            return self.let_go(&pods, |_| true).await.map(|()| None);
        }
        if finished(&job).is_some() {
            self.let_go(&pods, |_| true).await?;
            return self.expire(&job, spec).await;
        }
        // What was counted is in the status, so an older one would lead to pods too many; the newer one wakes us again.
        if !self.own_statuses.are_seen(job.uid(), self.jobs.store()) {
            return Ok(None);
        }
        self.run(&job, spec, &pods).await
    }
}

impl Jobs {
    /// Counts what has ended, decides whether the job is over, and starts what is missing.
    async fn run(&self, job: &Arc<Job>, spec: &JobSpec, pods: &[Arc<Pod>]) -> Synced {
        let now = self.clock.now();
        let is_current = self.own_writes.are_seen(job.uid(), self.pods.store());
        let mut status = job.status.clone().unwrap_or_default();
        let is_suspended = spec.suspend == Some(true);
        if status.start_time.is_none() && !is_suspended {
            status.start_time = Some(now);
        }
        let indexes = indexed::completions(spec);
        let completed = indexes.map(|indexes| indexed::note_completed(&mut status, indexes, pods));
        let counts = tracking::count(&mut status, pods, indexes.is_some());
        let mut active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
        let outcome = outcome::decide(spec, &status, counts, active.len(), now);
        let mut again = None;
        let mut failure = None;
        if is_suspended || outcome.is_some() {
            self.delete(job, &active).await?;
            active.clear();
        } else if is_current {
            match self.manage(job, spec, counts, completed.as_ref(), &mut active, pods).await {
                Ok(wait) => again = wait,
                Err(error) => failure = Some(error),
            }
        }
        status.active = told(active.len());
        status.ready = Some(number(active.iter().filter(|pod| is_ready(pod)).count()));
        status.terminating =
            Some(number(pods.iter().filter(|pod| pod.is_being_deleted() && !crate::pods::is_finished(pod)).count()));
        self.note_suspension(job, spec, &mut status).await;
        // All ends are counted before the job is over, or some would be lost.
        if let Some(outcome) = outcome.filter(|_| status.uncounted_terminated_pods.is_none()) {
            self.conclude(job, &mut status, &outcome).await;
        }
        if job.status.as_ref() != Some(&status) {
            let changed = Job { status: Some(status.clone()), ..(**job).clone() };
            let written = Api::<Job>::namespaced(&self.client, job.namespace()).update_status(&changed).await?;
            self.own_statuses.written(job.uid(), &written);
        }
        let uncounted = status.uncounted_terminated_pods.as_deref();
        let is_told = |pod: &Pod| {
            let is_completed = indexes.is_some() && crate::pods::phase(pod) == "Succeeded";
            is_completed || uncounted.is_some_and(|uncounted| tracking::has(uncounted, pod))
        };
        self.let_go(pods, is_told).await?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok([again, outcome::until_deadline(spec, &status, now)].into_iter().flatten().min())
    }

    async fn conclude(&self, job: &Job, status: &mut JobStatus, outcome: &Outcome) {
        let now = self.clock.now();
        for type_ in outcome.conditions() {
            status.conditions.push(JobCondition {
                type_: type_.into(),
                status: "True".into(),
                last_probe_time: Some(now),
                last_transition_time: Some(now),
                reason: Some(outcome.reason().into()),
                message: Some(outcome.message().into()),
            });
        }
        match outcome {
            Outcome::Completed => {
                status.completion_time = Some(now);
                self.events.normal(job, "Completed", "Job completed");
            }
            _ => self.events.warning(job, outcome.reason(), outcome.message()),
        }
    }

    async fn note_suspension(&self, job: &Job, spec: &JobSpec, status: &mut JobStatus) {
        let is_suspended = spec.suspend == Some(true);
        let now = self.clock.now();
        let known = status.conditions.iter_mut().find(|condition| condition.type_ == "Suspended");
        let word: Str = if is_suspended { "True".into() } else { "False".into() };
        let (reason, message) =
            if is_suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        match known {
            Some(condition) if condition.status == word => return,
            None if !is_suspended => return,
            Some(condition) => {
                condition.status = word;
                condition.last_transition_time = Some(now);
                (condition.reason, condition.message) = (Some(reason.into()), Some(message.into()));
            }
            None => status.conditions.push(JobCondition {
                type_: "Suspended".into(),
                status: word,
                last_probe_time: Some(now),
                last_transition_time: Some(now),
                reason: Some(reason.into()),
                message: Some(message.into()),
            }),
        }
        // A job that goes on begins anew, as far as its deadline is concerned.
        status.start_time = (!is_suspended).then_some(now);
        self.events.normal(job, if is_suspended { "Suspended" } else { "Resumed" }, message);
    }

    /// Deletes a job that is over when its time has come.
    async fn expire(&self, job: &Job, spec: &JobSpec) -> Synced {
        let Some(seconds) = spec.ttl_seconds_after_finished.and_then(|seconds| u64::try_from(seconds).ok()) else {
            return Ok(None);
        };
        let since = finished(job).and_then(|condition| condition.last_transition_time).unwrap_or(self.clock.now());
        let age = self.clock.now().duration_since(since).unwrap_or_default();
        let left = Duration::from_secs(seconds).saturating_sub(age);
        if !left.is_zero() {
            return Ok(Some(left));
        }
        let options = DeleteOptions::default().propagation(PropagationPolicy::Background).uid(job.uid());
        match Api::<Job>::namespaced(&self.client, job.namespace()).delete_with(job.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(None),
        }
    }
}

/// The condition that says that a job is over.
fn finished(job: &Job) -> Option<&JobCondition> {
    let conditions = &job.status.as_ref()?.conditions;
    conditions.iter().find(|one| matches!(&*one.type_, "Complete" | "Failed") && one.status == "True")
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn told(count: usize) -> Option<i32> {
    (count != 0).then(|| number(count))
}
