//! Pods that a controller makes and deletes in the name of their owner: told in events, and remembered until the cache shows them.

use std::sync::{Arc, Mutex, PoisonError};

use kubewright_api::core::v1::Pod;
use kubewright_cache::Store;
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_core::options::DeleteOptions;
use kubewright_runtime::events::EventRecorder;

use crate::batches::{all_at_once, slow_start};
use crate::error::{Error, is_namespace_terminating};
use crate::own_writes::OwnWrites;

/// Makes and deletes the pods of a controller's objects.
#[derive(Debug)]
#[doc(alias = "PodControlInterface")]
#[doc(alias = "RealPodControl")]
pub(crate) struct PodControl {
    client: Client,
    events: EventRecorder,
    own_writes: OwnWrites,
}

/// What became of a deletion of several pods.
pub(crate) struct Deleted {
    /// Those that are on their way out.
    pub(crate) going: Vec<Arc<Pod>>,
    /// Those that could not be deleted.
    pub(crate) left: Vec<Arc<Pod>>,
    /// Why the first of them could not.
    pub(crate) result: Result<(), Error>,
}

impl PodControl {
    pub(crate) fn new(client: &Client, events: &EventRecorder) -> Self {
        PodControl { client: client.clone(), events: events.clone(), own_writes: OwnWrites::default() }
    }

    /// Whether the cache shows all that was done for an owner.
    pub(crate) fn are_seen(&self, uid: &str, pods: &Store<Pod>) -> bool {
        self.own_writes.are_seen(uid, pods)
    }

    /// Forgets an owner that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.own_writes.forget(uid);
    }

    /// Makes pods in growing batches, until one fails. Returns those that were made. That a namespace goes away is no error.
    #[doc(alias = "CreatePods")]
    pub(crate) async fn create<O: Object>(&self, owner: &O, pods: Vec<Pod>) -> (Vec<Pod>, Result<(), Error>) {
        let (count, pods) = (pods.len(), Mutex::new(pods.into_iter()));
        let api = Api::<Pod>::namespaced(&self.client, owner.namespace());
        let (made, failed) = slow_start(count, || {
            let pod = pods.lock().unwrap_or_else(PoisonError::into_inner).next().unwrap_or_default();
            let api = api.clone();
            async move { api.create(&pod).await }
        })
        .await;
        for pod in &made {
            self.own_writes.written(owner.uid(), pod);
            self.events.normal(owner, "SuccessfulCreate", format!("Created pod: {}", pod.name()));
        }
        let result = match failed.filter(|error| !is_namespace_terminating(error)) {
            Some(error) => {
                self.events.warning(owner, "FailedCreate", format!("Error creating: {error}"));
                Err(error.into())
            }
            None => Ok(()),
        };
        (made, result)
    }

    /// Deletes pods, all at once.
    #[doc(alias = "DeletePod")]
    pub(crate) async fn delete<O: Object>(&self, owner: &O, pods: Vec<Arc<Pod>>) -> Deleted {
        let api = Api::<Pod>::namespaced(&self.client, owner.namespace());
        let answers = all_at_once(pods.into_iter().map(|pod| {
            let api = api.clone();
            async move {
                let answer = api.delete_with(pod.name(), &DeleteOptions::default().uid(pod.uid())).await;
                (pod, answer.map(drop))
            }
        }))
        .await;
        let mut deleted = Deleted { going: Vec::new(), left: Vec::new(), result: Ok(()) };
        for (pod, answer) in answers {
            match answer {
                Ok(()) => {
                    self.own_writes.deleted(owner.uid(), &*pod);
                    self.events.normal(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
                    deleted.going.push(pod);
                }
                // Somebody else was faster: gone, or replaced by another of its name.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    self.events.warning(owner, "FailedDelete", format!("Error deleting: {error}"));
                    deleted.left.push(pod);
                    deleted.result = deleted.result.and(Err(error.into()));
                }
            }
        }
        deleted
    }
}
