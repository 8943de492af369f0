//! Jobs: pods that run to completion.
//!
//! Pods have a finalizer until their end has been counted, so that each one is counted exactly
//! once. `tracking` counts, `indexed` and `index_failures` handle indexed jobs, `pods` creates and
//! deletes pods with back-off (`backoff`), `outcome` decides how a job ends, with `failure_policy`
//! and `success_policy`, and `conditions` records it. The outcome of a job is decided first
//! (`FailureTarget`, `SuccessCriteriaMet`), then its pods stop, and then it is finished (`Failed`,
//! `Complete`).

mod backoff;
mod conditions;
mod failure_policy;
mod index_failures;
mod indexed;
mod outcome;
mod pods;
mod success_policy;
mod tracking;

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::Pod;
use kubewright_cache::{Event, InformerHandle};
use kubewright_client::{Api, Client};
use kubewright_core::options::{DeleteOptions, PropagationPolicy};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::claim::{Claimant, claim};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::own_writes::OwnWrites;
use crate::owner_events::{controller, owners_of};
use crate::pod_control::PodControl;
use crate::worker::{self, Reconcile, Synced, work};
use backoff::Backoffs;
use conditions::{conclude, finished};
use indexed::Indexes;
use kubewright_client::clock;
use outcome::JobOutcome;
use pods::Alive;
use tracking::CountingRules;

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("batch", "v1", "Job");

/// The default `managedBy`; jobs with another value are ignored.
#[doc(alias = "JobControllerName")]
const MANAGER: &str = "kubernetes.io/job-controller";

struct Jobs {
    client: Client,
    jobs: InformerHandle<Job>,
    pods: InformerHandle<Pod>,
    control: PodControl,
    own_statuses: OwnWrites,
    backoffs: Backoffs,
    events: EventRecorder,
}

/// A reconcile request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum JobRequest {
    Job(ObjectKey),
    /// A pod of a job without a controller.
    Orphan(ObjectKey),
}

/// Runs jobs until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "JobController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Jobs::NAME);
    let (jobs, pods) = (factory.informer::<Job>(), factory.informer::<Pod>());
    indices::by_controller(&pods);
    indices::by_job(&pods, tracking::is_tracked);
    let events = context.recorder("job-controller");
    let reconcile = Arc::new(Jobs {
        client: client.clone(),
        jobs: jobs.clone(),
        pods: pods.clone(),
        control: PodControl::new(client, &events),
        own_statuses: OwnWrites::default(),
        backoffs: Backoffs::default(),
        events,
    });
    let of_jobs = jobs.add_handler({
        let queue = queue.clone();
        move |event: &Event<Job>| queue.add(JobRequest::Job(event.key()))
    })?;
    let of_pods = pods.add_handler({
        let (queue, jobs) = (queue.clone(), jobs.lister());
        move |event: &Event<Pod>| {
            owners_of(event, &jobs, "Job", |job| selector(job).ok(), |key| queue.add(JobRequest::Job(key)));
            let Some(pod) = event.object().filter(|pod| !event.is_resync() && tracking::is_tracked(pod)) else {
                return;
            };
            match controller(pod) {
                // Also if the job is deleted: its pods are then released.
                Some(reference) if reference.kind == KIND.kind => {
                    queue.add(JobRequest::Job(ObjectKey::namespaced(pod.namespace(), reference.name)));
                }
                Some(_) => {}
                None => queue.add(JobRequest::Orphan(pod.key())),
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
    type Key = JobRequest;

    async fn sync(&self, key: &JobRequest) -> Synced {
        let key = match key {
            JobRequest::Job(key) => key,
            JobRequest::Orphan(key) => return self.release_orphan(key).await.map(|()| None),
        };
        let job = self.jobs.lister().namespace(key.namespace().clone()).get(key.name());
        self.release_pods_of_deleted_job(key, job.as_deref().map(Object::uid)).await?;
        let Some(job) = job else {
            self.forget(key);
            return Ok(None);
        };
        let Some(spec) = &job.spec else { return Ok(None) };
        if spec.managed_by.as_ref().is_some_and(|manager| *manager != MANAGER) {
            // The TTL still applies, as it is a separate controller elsewhere.
            return self.expire(&job, spec).await;
        }
        let pods = indices::controlled_by(&self.pods.lister(), job.uid());
        if job.is_being_deleted() {
            return self.release(&pods, |_| true).await.map(|()| None);
        }
        if finished(&job).is_some() {
            self.release(&pods, |_| true).await?;
            return self.expire(&job, spec).await;
        }
        // A stale status would lead to surplus pods; the newer one queues the key again.
        if !self.own_statuses.are_seen(key, self.jobs.store()) {
            return Ok(None);
        }
        let pods = self.claim(&job).await?;
        self.run(&job, spec, &pods).await
    }
}

/// The selector of a job's pods.
fn selector(job: &Job) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(job.spec.as_ref().and_then(|spec| spec.selector.as_deref()))?)
}

impl Jobs {
    /// Drops the state of a deleted job.
    fn forget(&self, key: &ObjectKey) {
        self.control.forget(key);
        self.own_statuses.forget(key);
        self.backoffs.forget(key);
    }

    /// The pods of a job, after adoptions and releases, which add and remove the finalizer.
    #[doc(alias = "getPodsForJob")]
    async fn claim(&self, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let claimant = Claimant {
            meta: &job.metadata,
            kind: &KIND,
            owners: &Api::<Job>::namespaced(&self.client, job.namespace()),
            selector: &selector(job)?,
            finalizer: Some(tracking::FINALIZER),
        };
        claim(&claimant, &self.pods.lister(), &Api::namespaced(&self.client, job.namespace()), |_| true).await
    }

    /// Counts ended pods, decides the outcome, and creates missing pods.
    async fn run(&self, job: &Arc<Job>, spec: &JobSpec, pods: &[Arc<Pod>]) -> Synced {
        let now = clock::now();
        let is_current = self.control.are_seen(&job.key(), self.pods.store());
        let mut status = job.status.clone().unwrap_or_default();
        if status.start_time.is_none() && spec.suspend != Some(true) {
            status.start_time = Some(now);
        }
        let indexes = Indexes::note(&mut status, spec, pods);
        let counts = tracking::settle(&mut status, spec, pods);
        let mut alive = Alive::of(pods);
        let decided = JobOutcome::decided(&status);
        let is_decided = decided.is_some();
        let (mut outcome, mut again, mut failure) = (None, None, None);
        self.backoffs.note(job, spec, pods);
        // With a stale cache, pods that were just created or deleted would be missed; their events
        // queue the key again.
        if is_current {
            outcome = decided
                .or_else(|| outcome::failed(spec, &status, counts, pods, now))
                .or_else(|| outcome::failed_indexes(spec, indexes.as_ref()))
                .or_else(|| success_policy::met(spec, indexes.as_ref().map(|indexes| &indexes.completed)));
            let done = match &outcome {
                Some(end) => self.end_pods(job, end, &mut alive).await.map(|()| None),
                None => self.manage(job, spec, counts, indexes.as_ref(), &mut alive, pods).await,
            };
            match done {
                Ok(wait) => again = wait,
                Err(error) => (outcome, failure) = (None, Some(error)),
            }
            if failure.is_none() && outcome.is_none() {
                outcome = outcome::completed(spec, counts, alive.active.len());
            }
            if outcome.is_none() {
                self.note_suspension(job, spec, &mut status);
            }
            status.active = told(alive.active.len());
            status.ready = Some(number(alive.ready()));
            status.terminating = Some(number(alive.terminating.len()));
        }
        let awaiting = indexes.iter().flat_map(|indexes| indexes.awaiting.values()).map(|pod| pod.uid()).collect();
        let rules = CountingRules { spec, outcome: outcome.as_ref(), awaiting };
        rules.list(&mut status, pods);
        let mut is_over = false;
        if let Some(end) = &outcome {
            // All ended pods must be counted before the job is finished.
            is_over = is_decided && status.uncounted_terminated_pods.is_none() && alive.is_empty();
            match (is_decided, is_over) {
                (false, _) => conclude(&mut status, end.decision(), end, now),
                (true, true) => conclude(&mut status, end.end(), end, now),
                (true, false) => {}
            }
        }
        if job.status.as_ref() != Some(&status) {
            let changed = Job { status: Some(status.clone()), ..(**job).clone() };
            let written = Api::<Job>::namespaced(&self.client, job.namespace()).update_status(&changed).await?;
            self.own_statuses.written(&job.key(), &written);
        }
        if let Some(end) = outcome.as_ref().filter(|_| is_over) {
            self.tell_end(job, end);
        }
        self.release(pods, rules.is_told(&status)).await?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let deadline = outcome::until_deadline(spec, &status, now).filter(|_| outcome.is_none());
        Ok([again, deadline].into_iter().flatten().min())
    }

    /// Deletes the remaining pods of a decided job: as failed if the job failed, else as surplus.
    async fn end_pods(&self, job: &Job, outcome: &JobOutcome, alive: &mut Alive) -> Result<(), Error> {
        let running = std::mem::take(&mut alive.active);
        if outcome.is_success {
            self.dismiss(job, alive, running).await
        } else {
            self.delete(job, alive, running).await
        }
    }

    /// Deletes a finished job after its TTL.
    async fn expire(&self, job: &Job, spec: &JobSpec) -> Synced {
        let Some(seconds) = spec.ttl_seconds_after_finished.and_then(|seconds| u64::try_from(seconds).ok()) else {
            return Ok(None);
        };
        let Some(end) = finished(job) else { return Ok(None) };
        let since = end.last_transition_time.unwrap_or(clock::now());
        let age = clock::now().duration_since(since).unwrap_or_default();
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

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn told(count: usize) -> Option<i32> {
    (count != 0).then(|| number(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn state_of_a_deleted_job_is_dropped() {
        let server = kubewright_apiserver::ApiServer::in_memory().start().await.unwrap();
        let context = ControllerContext::new(&server.client());
        let (client, events) = (context.client().clone(), context.recorder("test"));
        let jobs = Jobs {
            jobs: context.factory().informer(),
            pods: context.factory().informer(),
            control: PodControl::new(&client, &events),
            own_statuses: OwnWrites::default(),
            backoffs: Backoffs::default(),
            client,
            events,
        };
        let mut gone = Job::default();
        (gone.metadata.namespace, gone.metadata.name) = (Some("default".into()), Some("gone".into()));
        jobs.own_statuses.written(&gone.key(), &gone);
        jobs.backoffs.note(&gone, &JobSpec::default(), &[]);
        jobs.sync(&JobRequest::Job(gone.key())).await.unwrap();
        assert!(jobs.own_statuses.is_forgotten(&gone.key()) && jobs.backoffs.is_forgotten(&gone.key()));
    }
}
