//! Creates and deletes pods for their owners, with events and tracking of writes.

use std::sync::{Arc, Mutex, PoisonError};

use kubewright_api::core::v1::Pod;
use kubewright_cache::Store;
use kubewright_client::{Api, Client};
use kubewright_core::options::{DeleteOptions, Patch};
use kubewright_core::{Object, ObjectKey};
use kubewright_runtime::events::EventRecorder;

use crate::batches::{all_at_once, slow_start};
use crate::error::{Error, is_namespace_terminating};
use crate::own_writes::OwnWrites;

/// Creates and deletes the pods of a controller.
#[derive(Debug)]
#[doc(alias = "PodControlInterface")]
#[doc(alias = "RealPodControl")]
pub(crate) struct PodControl {
    client: Client,
    events: EventRecorder,
    own_writes: OwnWrites,
    words: fn(&PodOperation<'_>) -> String,
}

/// An attempted operation on a pod.
pub(crate) struct PodOperation<'a> {
    pub(crate) verb: Verb,
    pub(crate) pod: &'a str,
    /// The name of its owner.
    pub(crate) owner: &'a str,
    /// The error, if it failed.
    pub(crate) failure: Option<&'a kubewright_client::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Delete,
}

/// The result of deleting several pods.
pub(crate) struct PodDeletions {
    /// Terminating pods.
    pub(crate) going: Vec<Arc<Pod>>,
    /// Pods that could not be deleted.
    pub(crate) left: Vec<Arc<Pod>>,
    /// The first error.
    pub(crate) result: Result<(), Error>,
}

impl PodControl {
    pub(crate) fn new(client: &Client, events: &EventRecorder) -> Self {
        PodControl { client: client.clone(), events: events.clone(), own_writes: OwnWrites::default(), words }
    }

    /// Sets the messages of events.
    #[must_use]
    pub(crate) fn words(self, words: fn(&PodOperation<'_>) -> String) -> Self {
        PodControl { words, ..self }
    }

    /// Whether the cache shows all writes for an owner.
    pub(crate) fn are_seen(&self, owner: &ObjectKey, pods: &Store<Pod>) -> bool {
        self.own_writes.are_seen(owner, pods)
    }

    /// Removes the entry of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.own_writes.forget(owner);
    }

    /// Whether there is no entry of an owner.
    #[cfg(test)]
    pub(crate) fn is_forgotten(&self, owner: &ObjectKey) -> bool {
        self.own_writes.is_forgotten(owner)
    }

    /// Creates pods in growing batches, until one fails. Returns the created ones. A terminating
    /// namespace is not an error.
    #[doc(alias = "CreatePods")]
    pub(crate) async fn create<O: Object>(&self, owner: &O, pods: Vec<Pod>) -> (Vec<Pod>, Result<(), Error>) {
        let (count, pods) = (pods.len(), Mutex::new(pods.into_iter()));
        let api = Api::<Pod>::namespaced(&self.client, owner.namespace());
        let (made, failed) = slow_start(count, || {
            let pod = pods.lock().unwrap_or_else(PoisonError::into_inner).next().unwrap_or_default();
            let api = api.clone();
            async move { api.create(&pod).await.map_err(|error| (pod.name().to_owned(), error)) }
        })
        .await;
        for pod in &made {
            self.own_writes.written(&owner.key(), pod);
            self.tell(owner, Verb::Create, pod.name(), None);
        }
        let result = match failed.filter(|(_, error)| !is_namespace_terminating(error)) {
            Some((name, error)) => {
                // An existing pod will show up in the cache.
                if !error.is_already_exists() {
                    self.tell(owner, Verb::Create, &name, Some(&error));
                }
                Err(error.into())
            }
            None => Ok(()),
        };
        (made, result)
    }

    /// Deletes pods concurrently.
    #[doc(alias = "DeletePod")]
    pub(crate) async fn delete<O: Object>(&self, owner: &O, pods: Vec<Arc<Pod>>) -> PodDeletions {
        let api = Api::<Pod>::namespaced(&self.client, owner.namespace());
        let answers = all_at_once(pods.into_iter().map(|pod| {
            let api = api.clone();
            async move {
                let answer = api.delete_with(pod.name(), &DeleteOptions::default().uid(pod.uid())).await;
                (pod, answer.map(drop))
            }
        }))
        .await;
        let mut deleted = PodDeletions { going: Vec::new(), left: Vec::new(), result: Ok(()) };
        for (pod, answer) in answers {
            match answer {
                Ok(()) => {
                    self.own_writes.deleted(&owner.key(), &*pod);
                    self.tell(owner, Verb::Delete, pod.name(), None);
                    deleted.going.push(pod);
                }
                // Already deleted, or replaced by another pod of its name.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(error) => {
                    self.tell(owner, Verb::Delete, pod.name(), Some(&error));
                    deleted.left.push(pod);
                    deleted.result = deleted.result.and(Err(error.into()));
                }
            }
        }
        deleted
    }

    /// Patches a pod.
    pub(crate) async fn update<O: Object>(&self, owner: &O, pod: &Pod, patch: Patch) -> Result<(), Error> {
        let answer = Api::<Pod>::namespaced(&self.client, owner.namespace()).patch(pod.name(), patch).await;
        self.tell(owner, Verb::Update, pod.name(), answer.as_ref().err());
        self.own_writes.written(&owner.key(), &answer?);
        Ok(())
    }

    fn tell<O: Object>(&self, owner: &O, verb: Verb, pod: &str, failure: Option<&kubewright_client::Error>) {
        let message = (self.words)(&PodOperation { verb, pod, owner: owner.name(), failure });
        match failure {
            None => self.events.normal(owner, format!("Successful{verb:?}"), message),
            Some(_) => self.events.warning(owner, format!("Failed{verb:?}"), message),
        }
    }
}

/// The default event messages.
fn words(deed: &PodOperation<'_>) -> String {
    let (done, doing) = match deed.verb {
        Verb::Create => ("Created", "creating"),
        Verb::Update => ("Updated", "updating"),
        Verb::Delete => ("Deleted", "deleting"),
    };
    match deed.failure {
        None => format!("{done} pod: {}", deed.pod),
        Some(error) => format!("Error {doing}: {error}"),
    }
}
