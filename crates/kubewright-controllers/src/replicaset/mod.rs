//! Replica sets and replication controllers.

mod kind;
mod pods;
mod status;
pub(crate) mod victims;

use std::sync::Arc;

use kubewright_api::apps::v1::ReplicaSet;
use kubewright_api::core::v1::{Pod, ReplicationController};
use kubewright_cache::{Event, InformerHandle, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Object, ObjectKey, Selector};
use tokio_util::sync::CancellationToken;

use crate::claim::{Claimant, claim};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::owner_events::owners_of;
use crate::pod_control::PodControl;
use crate::pods::{is_active, next_available};
use crate::worker::{self, Reconcile, Synced};
use crate::{indices, worker::work};
use kind::Replicated;
use kubewright_client::clock;

struct ReplicaSets<S: Replicated> {
    client: Client,
    sets: Lister<S>,
    pods: InformerHandle<Pod>,
    control: PodControl,
}

/// Runs replica sets until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "ReplicaSetController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    keep::<ReplicaSet>(context, stop).await
}

/// Runs replication controllers until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "ReplicationManager")]
pub async fn run_replication_controllers(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    keep::<ReplicationController>(context, stop).await
}

async fn keep<S: Replicated>(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, S::NAME);
    let (sets, pods) = (factory.informer::<S>(), factory.informer::<Pod>());
    indices::by_controller(&sets);
    indices::by_controller(&pods);
    let controller = Arc::new(ReplicaSets {
        client: client.clone(),
        sets: sets.lister(),
        pods: pods.clone(),
        control: PodControl::new(client, &context.recorder(S::COMPONENT)),
    });
    let of_sets = sets.add_handler({
        let queue = queue.clone();
        move |event: &Event<S>| queue.add(event.key())
    })?;
    let of_pods = pods.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<Pod>| {
            owners_of(event, &sets, &S::KIND.kind, |set| selector(set).ok(), |key| queue.add(key));
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

/// The selector of a set's pods.
fn selector(set: &impl Replicated) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(set.spec().as_ref().map(|spec| &spec.selector))?)
}

impl<S: Replicated> Reconcile for ReplicaSets<S> {
    const NAME: &'static str = S::NAME;
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(set) = self.sets.namespace(key.namespace().clone()).get(key.name()) else {
            self.control.forget(key);
            return Ok(None);
        };
        let (Some(spec), selector) = (&set.spec(), selector(&*set)?) else { return Ok(None) };
        let is_current = self.control.are_seen(key, self.pods.store());
        let claimant = Claimant {
            meta: set.metadata(),
            kind: &S::KIND,
            owners: &Api::<S>::namespaced(&self.client, key.namespace().clone()),
            selector: &selector,
            finalizer: None,
        };
        let api = Api::<Pod>::namespaced(&self.client, key.namespace().clone());
        let pods = claim(&claimant, &self.pods.lister(), &api, is_active).await?;
        let terminating = pods.iter().filter(|pod| pod.is_being_deleted() && !crate::pods::is_finished(pod)).count();
        let active: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| is_active(pod)).collect();

        let managed = if is_current && !set.is_being_deleted() {
            self.manage(&set, spec, &active).await
        } else {
            // The cache will show the last writes soon, which queues the key again.
            Ok(())
        };
        let now = clock::now();
        let status = status::calculate(&*set, spec, &active, terminating, managed.as_ref().err(), now);
        self.write_status(&set, status).await?;
        managed?;
        Ok(next_available(&active, spec.min_ready_seconds.unwrap_or_default(), now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubewright_apiserver::{ApiServer, Fault};
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_set_deleted_during_its_reconcile_leaves_no_state() {
        let server = ApiServer::in_memory().start().await.unwrap();
        let (client, stop) = (server.client(), CancellationToken::new());
        let context = ControllerContext::new(&client);
        let (sets, pods) = (context.factory().informer::<ReplicaSet>(), context.factory().informer::<Pod>());
        indices::by_controller(&pods);
        let controller = Arc::new(ReplicaSets {
            client: client.clone(),
            sets: sets.lister(),
            pods: pods.clone(),
            control: PodControl::new(&client, &context.recorder("test")),
        });
        context.factory().start(&stop);
        assert!(sets.synced().await && pods.synced().await);
        let set = r#"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{
            "metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"one:1"}]}}}}"#;
        let set: ReplicaSet = kubewright_core::Decoder::new().json(set.as_bytes()).unwrap();
        let api = Api::<ReplicaSet>::namespaced(&client, "default");
        let key = api.create(&set).await.unwrap().key();
        let is_known = || sets.lister().namespace("default").get("web").is_some();
        while !is_known() {
            sleep(Duration::from_millis(10)).await;
        }
        server.faults().inject(Fault::delay(Duration::from_secs(20)).verb("create").resource("pods"));
        let looked_at = tokio::spawn({
            let (controller, key) = (controller.clone(), key.clone());
            async move { controller.sync(&key).await }
        });
        sleep(Duration::from_secs(5)).await;
        api.delete("web").await.unwrap();
        while is_known() {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(looked_at.await.unwrap().unwrap(), None);
        assert!(!controller.control.is_forgotten(&key), "a pod was made for it meanwhile");
        // The deletion has queued the key, which is reconciled when it is no longer claimed.
        controller.sync(&key).await.unwrap();
        assert!(controller.control.is_forgotten(&key));
        stop.cancel();
    }
}
