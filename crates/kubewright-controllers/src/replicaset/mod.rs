//! Replica sets: as many pods as asked for, of one template.

mod pods;
mod status;
pub(crate) mod victims;

use std::sync::Arc;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::Pod;
use kubewright_cache::{InformerHandle, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector};
use tokio_util::sync::CancellationToken;

use crate::claim::{Claimant, claim};
use crate::clock::Clock;
use crate::context::ControllerContext;
use crate::error::Error;
use crate::owner_events::owners_of;
use crate::pod_control::PodControl;
use crate::pods::{is_active, next_available};
use crate::worker::{self, Reconcile, Synced};
use crate::{indices, worker::work};

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "ReplicaSet");

struct ReplicaSets {
    client: Client,
    sets: Lister<ReplicaSet>,
    pods: InformerHandle<Pod>,
    control: PodControl,
    clock: Clock,
}

/// Keeps replica sets at their size until `stop` is cancelled, with so many workers.
///
/// Returns when the last worker has finished the set in hand.
///
/// # Errors
/// If the caches stop before they were complete.
#[doc(alias = "ReplicaSetController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, ReplicaSets::NAME);
    let (sets, pods) = (factory.informer::<ReplicaSet>(), factory.informer::<Pod>());
    indices::by_controller(&sets);
    indices::by_controller(&pods);
    let controller = Arc::new(ReplicaSets {
        client: client.clone(),
        sets: sets.lister(),
        pods: pods.clone(),
        control: PodControl::new(client, &context.recorder("replicaset-controller")),
        clock: Clock::new(),
    });
    let of_sets = sets.add_handler({
        let queue = queue.clone();
        move |event: &kubewright_cache::Event<ReplicaSet>| queue.add(event.key())
    })?;
    let of_pods = pods.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &kubewright_cache::Event<Pod>| {
            owners_of(event, &sets, "ReplicaSet", |set| selector(set).ok(), |key| queue.add(key));
        }
    })?;
    factory.start(stop);
    if of_sets.synced().await && of_pods.synced().await {
        work(controller, &queue, context, stop).await;
    }
    of_sets.remove();
    of_pods.remove();
    Ok(())
}

/// Which pods are a set's.
fn selector(set: &ReplicaSet) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(set.spec.as_ref().map(|spec| &spec.selector))?)
}

impl Reconcile for ReplicaSets {
    const NAME: &'static str = "replicaset";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(set) = self.sets.namespace(key.namespace().clone()).get(key.name()) else {
            self.control.forget(key);
            return Ok(None);
        };
        let (Some(spec), selector) = (&set.spec, selector(&set)?) else { return Ok(None) };
        let is_current = self.control.are_seen(key, self.pods.store());
        let claimant = Claimant {
            meta: &set.metadata,
            kind: &KIND,
            owners: &Api::<ReplicaSet>::namespaced(&self.client, key.namespace().clone()),
            selector: &selector,
            finalizer: None,
        };
        let api = Api::<Pod>::namespaced(&self.client, key.namespace().clone());
        let pods = claim(&claimant, &self.pods.lister(), &api, is_active).await?;
        let terminating = pods.iter().filter(|pod| pod.is_being_deleted() && !crate::pods::is_finished(pod)).count();
        let active: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| is_active(pod)).collect();

        let managed = match is_current && !set.is_being_deleted() {
            true => self.manage(&set, spec, &active).await,
            // What was done before shows soon, and wakes us again.
            false => Ok(()),
        };
        let now = self.clock.now();
        let status = status::calculate(&set, spec, &active, terminating, managed.as_ref().err(), now);
        self.write_status(&set, status).await?;
        managed?;
        Ok(next_available(&active, spec.min_ready_seconds.unwrap_or_default(), now))
    }
}
