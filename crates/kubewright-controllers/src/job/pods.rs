//! Creates missing pods of a job with back-off, and deletes surplus ones.

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::batch::v1::{Job, JobSpec};
use kubewright_api::core::v1::Pod;
use kubewright_client::clock;
use kubewright_core::{Object, owner};

use super::indexed::{self, Indexes};
use super::outcome::PodCounts;
use super::tracking::{FINALIZER, waits_for_the_end};
use super::{Jobs, KIND, index_failures};
use crate::error::Error;
use crate::pods::{is_active, is_finished, is_ready};
use crate::replicaset::victims;

/// Maximum number of pods created or deleted per reconcile.
const BURST: usize = 500;

/// The pods of a job that have not ended, as known in this reconcile.
#[derive(Debug, Default)]
pub(super) struct Alive {
    pub(super) active: Vec<Arc<Pod>>,
    /// Terminating pods.
    pub(super) terminating: Vec<Arc<Pod>>,
}

impl Alive {
    pub(super) fn of(pods: &[Arc<Pod>]) -> Self {
        let (active, rest) = pods.iter().cloned().partition::<Vec<_>, _>(|pod| is_active(pod));
        Alive { active, terminating: rest.into_iter().filter(|pod| !is_finished(pod)).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.terminating.is_empty()
    }

    pub(super) fn ready(&self) -> usize {
        self.active.iter().filter(|pod| is_ready(pod)).count()
    }
}

impl Jobs {
    /// Creates or deletes pods to reach the desired number; returns the remaining back-off.
    pub(super) async fn manage(
        &self,
        job: &Arc<Job>,
        spec: &JobSpec,
        counts: PodCounts,
        indexes: Option<&Indexes>,
        alive: &mut Alive,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Duration>, Error> {
        let too_soon = self.backoffs.wait(job, spec, pods, clock::now());
        if spec.suspend == Some(true) {
            let all = std::mem::take(&mut alive.active);
            return self.dismiss(job, alive, all).await.map(|()| None);
        }
        if let Some(indexes) = indexes {
            let superfluous = indexed::take_superfluous(&mut alive.active, &indexes.completed, indexes.completions);
            self.dismiss(job, alive, superfluous).await?;
        }
        let wanted = wanted(spec, counts, alive.active.len());
        if alive.active.len() > wanted {
            let surplus = (alive.active.len() - wanted).min(BURST);
            let surplus = victims::choose(alive.active.clone(), &[], surplus, clock::now());
            alive.active.retain(|pod| surplus.iter().all(|one| !Arc::ptr_eq(one, pod)));
            return self.dismiss(job, alive, surplus).await.map(|()| None);
        }
        // Terminating pods count if the job waits for their end.
        let leaving = if waits_for_the_end(spec) { &alive.terminating[..] } else { &[] };
        let missing = wanted.saturating_sub(alive.active.len() + leaving.len()).min(BURST);
        if missing == 0 {
            return Ok(None);
        }
        // With a limit per index, each index has its own back-off.
        let is_each_alone = index_failures::limit(spec).is_some();
        if let Some(wait) = too_soon.filter(|_| !is_each_alone) {
            return Ok(Some(wait));
        }
        let mut numbers = indexes.map(|indexes| indexes.pending(alive.active.iter().chain(leaving), missing));
        let mut again = None;
        if let Some((indexes, pending)) = indexes.zip(numbers.as_mut()).filter(|_| is_each_alone) {
            (*pending, again) = index_failures::due(std::mem::take(pending), &indexes.awaiting, clock::now());
        }
        let missing = numbers.as_ref().map_or(missing, Vec::len);
        let pod = pod_of(job, spec);
        let numbered = |at: usize| {
            let mut pod = pod.clone();
            let number = numbers.as_ref().and_then(|numbers| numbers.get(at));
            if let Some((number, indexes)) = number.zip(indexes) {
                indexed::number_pod(&mut pod, job, *number);
                if is_each_alone {
                    index_failures::note_count(&mut pod, spec, indexes.awaiting.get(number).map(|pod| &**pod));
                }
            }
            pod
        };
        let (created, result) = self.control.create(&**job, (0..missing).map(numbered).collect()).await;
        alive.active.extend(created.into_iter().map(Arc::new));
        result.map(|()| again)
    }

    /// Deletes surplus pods. They are released first, so they do not count as failed.
    #[doc(alias = "deleteJobPods")]
    pub(super) async fn dismiss(&self, job: &Job, alive: &mut Alive, pods: Vec<Arc<Pod>>) -> Result<(), Error> {
        if let Err(error) = self.release(&pods, |_| true).await {
            alive.active.extend(pods);
            return Err(error);
        }
        self.delete(job, alive, pods).await
    }

    /// Deletes pods of a job, which count as failed if they have the finalizer.
    #[doc(alias = "deleteActivePods")]
    pub(super) async fn delete(&self, job: &Job, alive: &mut Alive, pods: Vec<Arc<Pod>>) -> Result<(), Error> {
        let deleted = self.control.delete(job, pods).await;
        alive.terminating.extend(deleted.going);
        alive.active.extend(deleted.left);
        deleted.result
    }
}

/// The desired number of active pods.
fn wanted(spec: &JobSpec, counts: PodCounts, active: usize) -> usize {
    let parallelism = usize::try_from(spec.parallelism.unwrap_or(1)).unwrap_or_default();
    match spec.completions {
        Some(completions) => parallelism.min(usize::try_from(completions - counts.succeeded).unwrap_or_default()),
        // Active pods run to their end; no new ones are created.
        None if counts.succeeded > 0 => active,
        None => parallelism,
    }
}

/// A pod of the job's template.
fn pod_of(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = Pod { spec: spec.template.spec.clone(), ..Default::default() };
    pod.metadata.generate_name = Some(format!("{}-", job.name()).into());
    pod.metadata.namespace = job.metadata.namespace.clone();
    pod.metadata.labels = spec.template.metadata.labels.clone();
    pod.metadata.annotations = spec.template.metadata.annotations.clone();
    pod.metadata.finalizers = spec.template.metadata.finalizers.clone();
    if pod.metadata.finalizers.iter().all(|finalizer| finalizer != FINALIZER) {
        pod.metadata.finalizers.push(FINALIZER.into());
    }
    pod.metadata.owner_references = [owner::new_controller_ref(&job.metadata, &KIND)].into();
    pod
}
