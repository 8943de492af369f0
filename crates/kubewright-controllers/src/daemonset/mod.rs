//! Daemon sets: a pod on each matching node.
//!
//! `pod` matches nodes and creates pods, `plan` decides the next step, `failures` backs off failing
//! pods, and `status` computes the status. `revisions` has the template history.

mod failures;
mod plan;
mod pod;
mod status;

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec};
use kubewright_api::core::v1::{Node, Pod};
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
use crate::owner_events::owners_of;
use crate::pod_control::PodControl;
use crate::pods::{is_finished, next_available, phase};
use crate::revisions::{Owner, REVISION_LABEL, Revisions};
use crate::worker::{self, Reconcile, Synced, work};
use failures::PodFailures;
use kubewright_client::clock;
use plan::{Plan, PlanInput};

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "DaemonSet");

/// Maximum number of pods created or deleted per reconcile.
const BURST: usize = 250;

struct DaemonSets {
    client: Client,
    sets: InformerHandle<DaemonSet>,
    pods: InformerHandle<Pod>,
    nodes: Lister<Node>,
    revisions: Revisions,
    own_sets: OwnWrites,
    control: PodControl,
    failures: PodFailures,
    events: EventRecorder,
}

/// Runs daemon sets until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "DaemonSetsController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, DaemonSets::NAME);
    let (sets, pods) = (factory.informer::<DaemonSet>(), factory.informer::<Pod>());
    let (revisions, nodes) = (factory.informer::<ControllerRevision>(), factory.informer::<Node>());
    indices::by_controller(&pods);
    indices::by_controller(&revisions);
    let events = context.recorder("daemonset-controller");
    let reconcile = Arc::new(DaemonSets {
        client: client.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
        nodes: nodes.lister(),
        revisions: Revisions::new(client, &revisions),
        own_sets: OwnWrites::default(),
        control: PodControl::new(client, &events),
        failures: PodFailures::default(),
        events,
    });
    let of_sets = sets.add_handler({
        let queue = queue.clone();
        move |event: &Event<DaemonSet>| queue.add(event.key())
    })?;
    let of_pods = pods.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<Pod>| {
            owners_of(event, &sets, "DaemonSet", |set| selector(set).ok(), |key| queue.add(key));
        }
    })?;
    let of_revisions = revisions.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<ControllerRevision>| {
            owners_of(event, &sets, "DaemonSet", |set| selector(set).ok(), |key| queue.add(key));
        }
    })?;
    let of_nodes = nodes.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<Node>| {
            if may_move_pods(event) {
                sets.snapshot().iter().for_each(|set| queue.add(set.key()));
            }
        }
    })?;
    factory.start(stop);
    let has_synced = of_sets.synced().await && of_pods.synced().await && of_revisions.synced().await;
    if has_synced && of_nodes.synced().await {
        work(reconcile, &queue, context, stop).await;
    }
    [of_sets, of_pods, of_revisions, of_nodes].iter().for_each(kubewright_cache::HandlerRegistration::remove);
    Ok(())
}

/// The selector of a set's pods.
fn selector(set: &DaemonSet) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(set.spec.as_ref().map(|spec| &spec.selector))?)
}

/// Whether an event of a node can affect its pods; heartbeats cannot.
fn may_move_pods(event: &Event<Node>) -> bool {
    match event {
        Event::Updated { old, new } => old.spec != new.spec || !old.labels().iter().eq(new.labels().iter()),
        event => !event.is_resync(),
    }
}

impl Reconcile for DaemonSets {
    const NAME: &'static str = "daemonset";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(set) = self.sets.lister().namespace(key.namespace().clone()).get(key.name()) else {
            self.forget(key);
            return Ok(None);
        };
        let is_current = self.own_sets.are_seen(key, self.sets.store())
            && self.control.are_seen(key, self.pods.store())
            && self.revisions.are_seen(key);
        if !is_current {
            // The cache will show the last write soon, which queues the key again.
            return Ok(Some(CACHE_TIMEOUT));
        }
        let (Some(spec), selector) = (&set.spec, selector(&set)?) else { return Ok(None) };
        if selector.is_everything() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.warning(&*set, "SelectingAll", message);
            return Ok(None);
        }
        if set.is_being_deleted() {
            return Ok(None);
        }
        let owners = Api::<DaemonSet>::namespaced(&self.client, key.namespace().clone());
        let claimant =
            Claimant { meta: &set.metadata, kind: &KIND, owners: &owners, selector: &selector, finalizer: None };
        let api = Api::<Pod>::namespaced(&self.client, key.namespace().clone());
        let pods = claim(&claimant, &self.pods.lister(), &api, |_| true).await?;

        let owner =
            Owner { key, meta: &set.metadata, kind: &KIND, template: &spec.template, hash_label: REVISION_LABEL };
        let known = self.revisions.of(&owner, &owners, &selector).await?;
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or_default();
        let present = self.revisions.present(&owner, &known, &mut collisions).await?;
        let hash = hash_of(&present);
        let now = clock::now();
        let mut picture = PlanInput::new(spec, hash, &self.nodes.list(&Selector::everything()), &pods, now);
        let wait = self.hold_back(&set, &mut picture);
        let done = self.carry_out(&set, spec, hash, picture.plan()).await;
        self.write_status(&set, status::calculate(&set, &picture, collisions)).await?;
        done?;
        let is_used = |revision: &ControllerRevision| {
            let of = hash_of(revision);
            revision.name() == present.name() || pods.iter().any(|pod| pod.labels().get(REVISION_LABEL) == Some(of))
        };
        self.revisions.trim(&owner, &known, spec.revision_history_limit, is_used).await?;
        let available = next_available(&pods, spec.min_ready_seconds.unwrap_or_default(), now);
        Ok(wait.into_iter().chain(available).min())
    }
}

/// The hash label that a revision gives its pods.
fn hash_of(revision: &ControllerRevision) -> &str {
    revision.labels().get(REVISION_LABEL).unwrap_or_else(|| revision.name())
}

impl DaemonSets {
    /// Drops the state of a deleted set.
    fn forget(&self, key: &ObjectKey) {
        self.revisions.forget(key);
        self.own_sets.forget(key);
        self.control.forget(key);
        self.failures.forget(key);
    }

    /// Marks failed pods in back-off; returns when the first of them is due.
    fn hold_back(&self, set: &DaemonSet, picture: &mut PlanInput<'_>) -> Option<Duration> {
        let mut first = None::<Duration>;
        for (node, pod) in picture.pods.iter().flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod))) {
            if phase(pod) == "Failed"
                && let Some(wait) = self.failures.wait(set, node, pod)
            {
                picture.held.insert(pod.uid().into());
                first = Some(first.map_or(wait, |first| first.min(wait)));
            }
        }
        first
    }

    /// Creates and deletes pods.
    #[doc(alias = "syncNodes")]
    async fn carry_out(&self, set: &DaemonSet, spec: &DaemonSetSpec, hash: &str, mut plan: Plan) -> Result<(), Error> {
        plan.delete.truncate(BURST);
        plan.delete.iter().filter(|pod| is_finished(pod)).for_each(|pod| self.tell_of_ended(set, pod));
        self.control.delete(set, plan.delete).await.result?;
        let pods = plan.create.iter().take(BURST).map(|node| pod::new_pod(set, spec, hash, node)).collect();
        self.control.create(set, pods).await.1
    }

    /// Records an event for a pod that has ended and is deleted.
    fn tell_of_ended(&self, set: &DaemonSet, pod: &Pod) {
        let node = pod::target(pod).unwrap_or_default();
        let found = |state: &str| format!("Found {state} daemon pod {} on node {node}, will try to", pod.key());
        match phase(pod) {
            "Failed" => self.events.warning(set, "FailedDaemonPod", format!("{} kill it", found("failed"))),
            _ => self.events.normal(set, "SucceededDaemonPod", format!("{} delete it", found("succeeded"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn state_of_a_deleted_set_is_dropped() {
        let server = kubewright_apiserver::ApiServer::in_memory().start().await.unwrap();
        let context = ControllerContext::new(&server.client());
        let (client, events) = (context.client().clone(), context.recorder("test"));
        let sets = DaemonSets {
            sets: context.factory().informer(),
            pods: context.factory().informer(),
            nodes: context.factory().informer().lister(),
            revisions: Revisions::new(&client, &context.factory().informer()),
            own_sets: OwnWrites::default(),
            control: PodControl::new(&client, &events),
            failures: PodFailures::default(),
            client,
            events,
        };
        let mut gone = DaemonSet::default();
        (gone.metadata.namespace, gone.metadata.name) = (Some("default".into()), Some("gone".into()));
        sets.own_sets.written(&gone.key(), &gone);
        sets.failures.wait(&gone, "node", &Pod::default());
        sets.sync(&gone.key()).await.unwrap();
        assert!(sets.own_sets.is_forgotten(&gone.key()) && sets.failures.is_forgotten(&gone.key()));
    }
}
