//! Creating the pods that a set lacks and deleting those it has too many of.

use std::sync::Arc;

use kubewright_api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use kubewright_api::core::v1::Pod;
use kubewright_client::Api;
use kubewright_core::options::DeleteOptions;
use kubewright_core::{Object, owner};

use super::victims::choose;
use super::{KIND, ReplicaSets};
use crate::batches::{all_at_once, slow_start};
use crate::error::{Error, is_namespace_terminating};
use crate::indices;
use crate::owner_events::controller;
use crate::pods::is_active;

/// So many pods are created or deleted at the most before a set is looked at again.
const BURST: usize = 500;

impl ReplicaSets {
    /// Creates or deletes pods until there are as many as the set asks for.
    pub(super) async fn manage(
        &self,
        set: &Arc<ReplicaSet>,
        spec: &ReplicaSetSpec,
        active: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        if active.len() < wanted {
            self.create(set, spec, (wanted - active.len()).min(BURST)).await
        } else {
            self.delete(set, active, (active.len() - wanted).min(BURST)).await
        }
    }

    async fn create(&self, set: &Arc<ReplicaSet>, spec: &ReplicaSetSpec, count: usize) -> Result<(), Error> {
        let pod = Arc::new(pod_of(set, spec));
        let api = Api::<Pod>::namespaced(&self.client, set.namespace());
        let (created, failed) = slow_start(count, || {
            let (api, pod) = (api.clone(), pod.clone());
            async move { api.create(&pod).await }
        })
        .await;
        for pod in &created {
            self.own_writes.written(set.uid(), pod);
            self.events.normal(&**set, "SuccessfulCreate", format!("Created pod: {}", pod.name()));
        }
        match failed {
            Some(error) if is_namespace_terminating(&error) => Ok(()),
            Some(error) => {
                self.events.warning(&**set, "FailedCreate", format!("Error creating: {error}"));
                Err(error.into())
            }
            None => Ok(()),
        }
    }

    async fn delete(&self, set: &Arc<ReplicaSet>, active: &[Arc<Pod>], count: usize) -> Result<(), Error> {
        if count == 0 {
            return Ok(());
        }
        let victims = choose(active.to_vec(), &self.related(set), count, self.clock.now());
        let api = Api::<Pod>::namespaced(&self.client, set.namespace());
        let answers = all_at_once(victims.into_iter().map(|pod| {
            let api = api.clone();
            async move {
                let answer = api.delete_with(pod.name(), &DeleteOptions::default().uid(pod.uid())).await;
                (pod, answer.map(drop))
            }
        }))
        .await;
        let mut first_error = None;
        for (pod, answer) in answers {
            match answer {
                Ok(()) => {
                    self.own_writes.deleted(set.uid(), &*pod);
                    self.events.normal(&**set, "SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
                }
                // Somebody else was faster: gone, or replaced by another of its name.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    self.events.warning(&**set, "FailedDelete", format!("Error deleting: {error}"));
                    first_error = first_error.or(Some(error));
                }
            }
        }
        first_error.map_or(Ok(()), |error| Err(error.into()))
    }

    /// The active pods of all sets with the same controller, such as the older sets of a deployment.
    fn related(&self, set: &Arc<ReplicaSet>) -> Vec<Arc<Pod>> {
        let siblings = match controller(set) {
            Some(reference) => indices::controlled_by(&self.sets, &reference.uid),
            None => vec![set.clone()],
        };
        let pods = self.pods.lister();
        let of_all = siblings.iter().flat_map(|sibling| indices::controlled_by(&pods, sibling.uid()));
        of_all.filter(|pod| is_active(pod)).collect()
    }
}

/// A pod of the set's template.
fn pod_of(set: &ReplicaSet, spec: &ReplicaSetSpec) -> Pod {
    let template = spec.template.clone().unwrap_or_default();
    let mut pod = Pod { spec: template.spec.clone(), ..Default::default() };
    pod.metadata.generate_name = Some(format!("{}-", set.name()).into());
    pod.metadata.namespace = set.metadata.namespace.clone();
    pod.metadata.labels = template.metadata.labels.clone();
    pod.metadata.annotations = template.metadata.annotations.clone();
    pod.metadata.finalizers = template.metadata.finalizers.clone();
    pod.metadata.owner_references = [owner::new_controller_ref(&set.metadata, &KIND)].into();
    pod
}
