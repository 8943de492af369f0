//! Stateful sets: pods with stable names and storage.
//!
//! `pod` defines the identity of pods, `claims` their storage, `plan` decides the next step, and
//! `status` computes the status. `revisions` has the template history.

mod claims;
mod plan;
mod pod;
mod status;

use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use kubewright_api::core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec};
use kubewright_cache::{Event, InformerHandle, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::options::Patch;
use kubewright_core::{GroupVersionKind, Object, ObjectKey, Selector};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::claim::{Claimant, claim};
use crate::context::ControllerContext;
use crate::error::Error;
use crate::indices;
use crate::own_writes::{CACHE_TIMEOUT, OwnWrites};
use crate::owner_events::owners_of;
use crate::pod_control::{PodControl, PodOperation};
use crate::pods::next_available;
use crate::revisions::{Owner, Revisions, template_of};
use crate::worker::{self, Reconcile, Synced, work};
use kubewright_client::clock;
use plan::{PodAction, plan};
use pod::SetPods;

pub(crate) const KIND: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "StatefulSet");

/// The label with the hash of a revision.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Retry delay while a claim of an earlier pod is deleted.
const STALE: Duration = Duration::from_secs(1);

struct StatefulSets {
    client: Client,
    sets: InformerHandle<StatefulSet>,
    pods: InformerHandle<Pod>,
    claims: Lister<PersistentVolumeClaim>,
    revisions: Revisions,
    own_sets: OwnWrites,
    control: PodControl,
    events: EventRecorder,
}

/// Runs stateful sets until `stop` is cancelled.
///
/// Returns when running reconciles have ended.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "StatefulSetController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, StatefulSets::NAME);
    let (sets, pods) = (factory.informer::<StatefulSet>(), factory.informer::<Pod>());
    let (revisions, claims) = (factory.informer::<ControllerRevision>(), factory.informer::<PersistentVolumeClaim>());
    indices::by_controller(&pods);
    indices::by_controller(&revisions);
    let events = context.recorder("statefulset-controller");
    let reconcile = Arc::new(StatefulSets {
        client: client.clone(),
        sets: sets.clone(),
        pods: pods.clone(),
        claims: claims.lister(),
        revisions: Revisions::new(client, &revisions),
        own_sets: OwnWrites::default(),
        control: PodControl::new(client, &events).words(words),
        events,
    });
    let of_sets = sets.add_handler({
        let queue = queue.clone();
        move |event: &Event<StatefulSet>| queue.add(event.key())
    })?;
    let of_pods = pods.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<Pod>| {
            owners_of(event, &sets, "StatefulSet", |set| selector(set).ok(), |key| queue.add(key));
        }
    })?;
    let of_revisions = revisions.add_handler({
        let (queue, sets) = (queue.clone(), sets.lister());
        move |event: &Event<ControllerRevision>| {
            owners_of(event, &sets, "StatefulSet", |set| selector(set).ok(), |key| queue.add(key));
        }
    })?;
    factory.start(stop);
    let has_synced = of_sets.synced().await && of_pods.synced().await && of_revisions.synced().await;
    if has_synced && claims.synced().await {
        work(reconcile, &queue, context, stop).await;
    }
    [of_sets, of_pods, of_revisions].iter().for_each(kubewright_cache::HandlerRegistration::remove);
    Ok(())
}

/// The selector of a set's pods.
fn selector(set: &StatefulSet) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(set.spec.as_ref().map(|spec| &spec.selector))?)
}

/// A revision by its name and template.
struct Revision {
    name: String,
    template: PodTemplateSpec,
}

/// A set being reconciled, with the current and the update revision.
struct StatefulSetRollout<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    current: Revision,
    update: Revision,
}

impl StatefulSetRollout<'_> {
    /// The revision of a new pod: the current one for ordinals below the partition.
    fn revision_of(&self, ordinal: i32) -> &Revision {
        let strategy = self.spec.update_strategy.as_deref();
        let is_rolling = strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"));
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_deref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or_default();
        let is_before = is_rolling && ordinal < pod::ordinals(self.spec).start.saturating_add(partition);
        if is_before { &self.current } else { &self.update }
    }

    fn new_pod(&self, ordinal: i32) -> Pod {
        let revision = self.revision_of(ordinal);
        pod::new_pod(self.set, self.spec, &revision.template, &revision.name, ordinal)
    }
}

impl Reconcile for StatefulSets {
    const NAME: &'static str = "statefulset";
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
            // The cache will show the last writes soon, which queues the key again.
            return Ok(Some(CACHE_TIMEOUT));
        }
        if set.is_being_deleted() {
            // New objects would be collected immediately, and queue the key again.
            return Ok(None);
        }
        let (Some(spec), selector) = (&set.spec, selector(&set)?) else { return Ok(None) };
        let owners = Api::<StatefulSet>::namespaced(&self.client, key.namespace().clone());
        let claimant =
            Claimant { meta: &set.metadata, kind: &KIND, owners: &owners, selector: &selector, finalizer: None };
        let api = Api::<Pod>::namespaced(&self.client, key.namespace().clone());
        let is_member = |pod: &Pod| pod::ordinal(&set, pod).is_some();
        let mut pods = claim(&claimant, &self.pods.lister(), &api, is_member).await?;
        pods.retain(|pod| is_member(pod));

        let owner = Owner { key, meta: &set.metadata, kind: &KIND, template: &spec.template, hash_label: HASH_LABEL };
        let known = self.revisions.of(&owner, &owners, &selector).await?;
        let before = set.status.as_ref();
        let mut collisions = before.and_then(|status| status.collision_count).unwrap_or_default();
        let update = self.revisions.present(&owner, &known, &mut collisions).await?;
        let update = Revision { name: update.name().to_owned(), template: spec.template.clone() };
        let current = before.and_then(|status| status.current_revision.as_deref()).unwrap_or_default();
        let current = known.iter().find(|revision| revision.name() == current);
        let current = match current.and_then(|current| Some((current.name(), template_of(current)?))) {
            Some((name, template)) => Revision { name: name.to_owned(), template },
            None => Revision { name: update.name.clone(), template: update.template.clone() },
        };
        let rollout = StatefulSetRollout { set: &set, spec, current, update };
        let now = clock::now();
        let names = (&*rollout.current.name, &*rollout.update.name);
        let status = status::calculate(&set, spec, &pods, names, collisions, now);
        let done = self.carry_out(&rollout, &pods).await;
        self.write_status(&set, status).await?;
        let wait = done?;
        let is_used = |revision: &ControllerRevision| {
            let name = revision.name();
            name == names.0 || name == names.1 || pods.iter().any(|pod| pod::revision(pod) == name)
        };
        self.revisions.trim(&owner, &known, spec.revision_history_limit, is_used).await?;
        let available = next_available(&pods, spec.min_ready_seconds.unwrap_or_default(), now);
        Ok(wait.into_iter().chain(available).min())
    }
}

impl StatefulSets {
    /// Drops the state of a deleted set.
    fn forget(&self, key: &ObjectKey) {
        self.revisions.forget(key);
        self.own_sets.forget(key);
        self.control.forget(key);
    }

    /// Performs the planned actions; returns when to retry while waiting for storage. A failed
    /// action does not prevent others.
    async fn carry_out(&self, rollout: &StatefulSetRollout<'_>, pods: &[Arc<Pod>]) -> Synced {
        let (set, spec) = (rollout.set, rollout.spec);
        let mut result = Ok(());
        for pod in pods {
            if let Some(ordinal) = pod::ordinal(set, pod) {
                result = result.and(self.retain_claims(set, spec, pod, ordinal).await);
            }
        }
        let members = SetPods::new(set, spec, pods);
        let (mut wait, mut new, mut going) = (None, Vec::new(), Vec::new());
        for action in plan(spec, &members, &rollout.update.name, clock::now()) {
            let done = match action {
                PodAction::Create(ordinal) => {
                    let pod = rollout.new_pod(ordinal);
                    let has_claims = self.ensure_claims(set, spec, &pod, ordinal).await;
                    if let Ok(true) = has_claims {
                        new.push(pod);
                    }
                    has_claims
                }
                PodAction::Claim(pod, ordinal) => self.ensure_claims(set, spec, &pod, ordinal).await,
                PodAction::Delete(pod) => {
                    going.push(pod);
                    Ok(true)
                }
                PodAction::Identify(pod, ordinal) => self.identify(set, &pod, ordinal).await.map(|()| true),
            };
            if let Ok(false) = done {
                wait = Some(STALE);
            }
            result = result.and(done.map(drop));
        }
        result = result.and(self.control.delete(set, going).await.result);
        result.and(self.control.create(set, new).await.1)?;
        Ok(wait)
    }

    /// Adds the labels of its ordinal to an adopted pod.
    #[doc(alias = "UpdateStatefulPod")]
    async fn identify(&self, set: &StatefulSet, pod: &Pod, ordinal: i32) -> Result<(), Error> {
        let (name, index) = (pod::NAME_LABEL, pod::INDEX_LABEL);
        let labels = format!(r#"{{"{name}":"{}","{index}":"{ordinal}"}}"#, pod.name());
        let patch = format!(r#"{{"metadata":{{"uid":"{}","labels":{labels}}}}}"#, pod.uid());
        self.control.update(set, pod, Patch::Strategic(patch.into_bytes())).await
    }
}

/// The event messages for pods of stateful sets.
#[doc(alias = "recordPodEvent")]
fn words(deed: &PodOperation<'_>) -> String {
    let told = format!("{} Pod {} in StatefulSet {}", format!("{:?}", deed.verb).to_lowercase(), deed.pod, deed.owner);
    match deed.failure {
        None => format!("{told} successful"),
        Some(error) => format!("{told} failed error: {error}"),
    }
}
