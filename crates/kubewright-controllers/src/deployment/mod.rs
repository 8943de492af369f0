//! Deployments: a replica set per template, and rollouts between them.
//!
//! Start at `Reconcile::sync`, which chooses the next step; `revision` finds or creates the new
//! set, `rolling` and `recreate` move replicas to it, `scaling` resizes sets outside of a rollout,
//! and `status` computes the status.

mod annotations;
mod conditions;
mod history;
mod recreate;
mod revision;
mod rolling;
mod scaling;
mod sizes;
mod status;
pub(crate) mod template;

use std::sync::Arc;

use kubewright_api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_cache::{Event, InformerHandle, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::claim::{Claimant, claim};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::own_writes::{CACHE_TIMEOUT, OwnWrites};
use crate::owner_events::{controller, owners_of};
use crate::worker::{self, Reconcile, Synced, work};

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "Deployment");

struct Deployments {
    client: Client,
    deployments: InformerHandle<Deployment>,
    sets: InformerHandle<ReplicaSet>,
    pods: Lister<Pod>,
    own_deployments: OwnWrites,
    own_sets: OwnWrites,
    events: EventRecorder,
}

/// Runs deployments until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "DeploymentController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Deployments::NAME);
    let deployments = factory.informer::<Deployment>();
    let (sets, pods) = (factory.informer::<ReplicaSet>(), factory.informer::<Pod>());
    indices::by_controller(&sets);
    indices::by_controller(&pods);
    let reconcile = Arc::new(Deployments {
        client: client.clone(),
        deployments: deployments.clone(),
        sets: sets.clone(),
        pods: pods.lister(),
        own_deployments: OwnWrites::default(),
        own_sets: OwnWrites::default(),
        events: context.recorder("deployment-controller"),
    });
    let of_deployments = deployments.add_handler({
        let queue = queue.clone();
        move |event: &Event<Deployment>| queue.add(event.key())
    })?;
    let of_sets = sets.add_handler({
        let (queue, deployments) = (queue.clone(), deployments.lister());
        move |event: &Event<ReplicaSet>| {
            owners_of(event, &deployments, "Deployment", |one| selector(one).ok(), |key| queue.add(key));
        }
    })?;
    let of_pods = pods.add_handler({
        let (queue, deployments, sets) = (queue.clone(), deployments.lister(), sets.lister());
        move |event: &Event<Pod>| {
            if let Some(key) = recreated_by(event, &sets, &deployments) {
                queue.add(key);
            }
        }
    })?;
    factory.start(stop);
    let has_synced = of_deployments.synced().await && of_sets.synced().await && of_pods.synced().await;
    if has_synced {
        work(reconcile, &queue, context, stop).await;
    }
    [of_deployments, of_sets, of_pods].iter().for_each(kubewright_cache::HandlerRegistration::remove);
    Ok(())
}

/// The deployment that waits for this pod to end before it creates new ones.
fn recreated_by(event: &Event<Pod>, sets: &Lister<ReplicaSet>, deployments: &Lister<Deployment>) -> Option<ObjectKey> {
    let pod = match event {
        Event::Deleted(deleted) => deleted.object()?,
        Event::Updated { new, .. } if crate::pods::is_finished(new) => new,
        _ => return None,
    };
    let set = sets.namespace(pod.namespace()).get(&controller(pod)?.name)?;
    let deployment = deployments.namespace(pod.namespace()).get(&controller(&set)?.name)?;
    is_recreate(deployment.spec.as_ref()?).then(|| deployment.key())
}

/// The selector of a deployment's replica sets.
fn selector(deployment: &Deployment) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(deployment.spec.as_ref().map(|spec| &spec.selector))?)
}

fn is_recreate(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
}

/// A deployment being reconciled, with its replica sets.
struct DeploymentRollout {
    deployment: Deployment,
    spec: DeploymentSpec,
    sets: Vec<Arc<ReplicaSet>>,
}

impl DeploymentRollout {
    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }
}

/// The new and the old sets of a rollout.
struct Sets {
    new: Option<Arc<ReplicaSet>>,
    /// Oldest first.
    old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    fn all(&self) -> Vec<Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new).cloned().collect()
    }
}

impl Reconcile for Deployments {
    const NAME: &'static str = "deployment";
    const MAX_RETRIES: Option<u32> = Some(15);
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(deployment) = self.deployments.lister().namespace(key.namespace().clone()).get(key.name()) else {
            self.own_deployments.forget(key);
            self.own_sets.forget(key);
            return Ok(None);
        };
        let is_current = self.own_deployments.are_seen(key, self.deployments.store())
            && self.own_sets.are_seen(key, self.sets.store());
        if !is_current {
            // Acting on a cache without our own last writes leads to conflicts. The writes will
            // show soon, which queues the key again.
            return Ok(Some(CACHE_TIMEOUT));
        }
        let Some(spec) = deployment.spec.clone() else { return Ok(None) };
        let mut rollout = DeploymentRollout { deployment: (*deployment).clone(), spec, sets: Vec::new() };
        let selector = selector(&deployment)?;
        if selector.is_everything() {
            let message = "This deployment is selecting all pods. A non-empty selector is required.";
            self.events.warning(&*deployment, "SelectingAll", message);
            return self.observe(&rollout).await;
        }
        let claimant = Claimant {
            meta: &deployment.metadata,
            kind: &KIND,
            owners: &Api::<Deployment>::namespaced(&self.client, key.namespace().clone()),
            selector: &selector,
            finalizer: None,
        };
        let api = Api::<ReplicaSet>::namespaced(&self.client, key.namespace().clone());
        rollout.sets = claim(&claimant, &self.sets.lister(), &api, |_| true).await?;

        if deployment.is_being_deleted() {
            return self.update_counts_of_deleted(&mut rollout).await;
        }
        self.note_pause(&mut rollout).await?;
        if rollout.is_paused() {
            return self.scale_only(&mut rollout).await;
        }
        if self.roll_back(&mut rollout).await? {
            return Ok(None);
        }
        if scaling::is_scaling(&rollout) {
            return self.scale_only(&mut rollout).await;
        }
        if is_recreate(&rollout.spec) { self.recreate(&mut rollout).await } else { self.roll(&mut rollout).await }
    }
}
