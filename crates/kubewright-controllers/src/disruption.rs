//! Disruption budgets: how many pods may be evicted.
//!
//! The expected number of pods comes from their controllers: from caches for replica sets and
//! deployments, from the `scale` subresource for all others. If one of them is unknown, no eviction
//! is allowed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use kubewright_cache::{Event, Lister};
use kubewright_client::discovery::RestMapper;
use kubewright_client::{Api, Client, ScaleApi};
use kubewright_core::meta::v1::{Condition, OwnerReference};
use kubewright_core::{
    GroupKind, GroupResource, GroupVersionKind, IntOrString, Object, ObjectKey, Selector, Str, condition,
};
use kubewright_runtime::events::EventRecorder;
use tokio_util::sync::CancellationToken;

use crate::claim::selects;
use crate::context::ControllerContext;
use crate::error::Error;
use crate::owner_events::controller;
use crate::pods::{is_active, is_finished, is_ready};
use crate::worker::{self, Reconcile, Synced, work};
use kubewright_client::clock;

/// Retry delay if the scale of a controller could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// An eviction without a deletion after this time is dropped.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(120);

struct Disruption {
    client: Client,
    mapper: RestMapper,
    budgets: Lister<PodDisruptionBudget>,
    pods: Lister<Pod>,
    sets: Lister<ReplicaSet>,
    deployments: Lister<Deployment>,
    events: EventRecorder,
}

/// The message for budgets that need a scale but select unmanaged pods.
const UNMANAGED: &str = "were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, \
    which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB \
    to an integer value.";

/// Maintains the status of disruption budgets until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "DisruptionController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Disruption::NAME);
    let (budgets, pods) = (factory.informer::<PodDisruptionBudget>(), factory.informer::<Pod>());
    let (sets, deployments) = (factory.informer::<ReplicaSet>(), factory.informer::<Deployment>());
    let of_budgets = budgets.add_handler({
        let queue = queue.clone();
        move |event: &Event<PodDisruptionBudget>| queue.add(event.key())
    })?;
    let of_pods = pods.add_handler({
        let (queue, budgets) = (queue.clone(), budgets.lister());
        move |event: &Event<Pod>| {
            let Some(pod) = event.object().filter(|_| !event.is_resync()) else { return };
            for budget in budgets.namespace(pod.namespace()).list(&Selector::everything()) {
                if selector(&budget).is_ok_and(|selector| selects(&selector, &**pod)) {
                    queue.add(budget.key());
                }
            }
        }
    })?;
    factory.start(stop);
    if of_budgets.synced().await && of_pods.synced().await && sets.synced().await && deployments.synced().await {
        let reconcile = Disruption {
            client: client.clone(),
            mapper: client.rest_mapper(),
            budgets: budgets.lister(),
            pods: pods.lister(),
            sets: sets.lister(),
            deployments: deployments.lister(),
            events: context.recorder("controllermanager"),
        };
        work(Arc::new(reconcile), &queue, context, stop).await;
    }
    of_budgets.remove();
    of_pods.remove();
    Ok(())
}

fn selector(budget: &PodDisruptionBudget) -> Result<Selector, Error> {
    Ok(Selector::from_label_selector(budget.spec.as_ref().and_then(|spec| spec.selector.as_deref()))?)
}

impl Reconcile for Disruption {
    const NAME: &'static str = "disruption";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(budget) = self.budgets.namespace(key.namespace().clone()).get(key.name()) else { return Ok(None) };
        let Some(spec) = &budget.spec else { return Ok(None) };
        let mut status = budget.status.clone().unwrap_or_default();
        let again = match self.account(&budget, spec, &mut status).await {
            Ok(again) => again,
            Err(error) => {
                tracing::warn!(budget = %key, cause = &error as &dyn std::error::Error, "nothing may be evicted");
                fail_safe(&mut status, &error, budget.generation());
                Some(RETRY_DELAY)
            }
        };
        if budget.status.as_ref() != Some(&status) {
            let changed = PodDisruptionBudget { status: Some(status), ..(*budget).clone() };
            match Api::<PodDisruptionBudget>::namespaced(&self.client, budget.namespace()).update_status(&changed).await
            {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(again)
    }
}

impl Disruption {
    /// Updates the status of a budget; returns when to check again.
    #[doc(alias = "trySync")]
    async fn account(
        &self,
        budget: &PodDisruptionBudget,
        spec: &PodDisruptionBudgetSpec,
        status: &mut PodDisruptionBudgetStatus,
    ) -> Synced {
        let mut pods = self.pods.namespace(budget.namespace()).list(&selector(budget)?);
        if pods.is_empty() {
            self.events.normal(budget, "NoPods", "No matching pods found");
        }
        pods.retain(|pod| !is_finished(pod));
        let (expected, desired) = match self.expect(spec, &pods).await {
            Ok(numbers) => numbers,
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {}", error.event_message());
                self.events.warning(budget, "CalculateExpectedPodCountFailed", message);
                return Err(error);
            }
        };
        let is_by_scale =
            !matches!((&spec.max_unavailable, &spec.min_available), (None, None | Some(IntOrString::Int(_))));
        if is_by_scale && pods.iter().any(|pod| controller(pod).is_none()) {
            let selector = selector(budget)?;
            let message = format!("Pods selected by this PodDisruptionBudget (selector: {selector}) {UNMANAGED}");
            self.events.warning(budget, "UnmanagedPods", message);
        }
        let now = clock::now();
        status.disrupted_pods.retain(|name, since| {
            let awaited = pods.iter().find(|pod| pod.name() == name && !pod.is_being_deleted());
            let is_late = now.duration_since(*since).unwrap_or_default() >= EVICTION_TIMEOUT;
            if let Some(pod) = awaited.filter(|_| is_late) {
                let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", budget.key());
                self.events.warning(&**pod, "NotDeleted", message);
            }
            awaited.is_some() && !is_late
        });
        let is_healthy =
            |pod: &&Arc<Pod>| is_active(pod) && is_ready(pod) && !status.disrupted_pods.contains_key(pod.name());
        let healthy = number(pods.iter().filter(is_healthy).count());
        tell(status, healthy, expected, desired, budget.generation());
        Ok((!status.disrupted_pods.is_empty()).then_some(EVICTION_TIMEOUT))
    }

    /// The expected number of pods, and the number that must be healthy.
    #[doc(alias = "getExpectedPodCount")]
    async fn expect(&self, spec: &PodDisruptionBudgetSpec, pods: &[Arc<Pod>]) -> Result<(i32, i32), Error> {
        let scaled = |value: &IntOrString, total: i32| {
            let scaled = value.scaled_value_from(i64::from(total), true).unwrap_or_default();
            i32::try_from(scaled).unwrap_or(i32::MAX)
        };
        Ok(match (&spec.max_unavailable, &spec.min_available) {
            (Some(unavailable), _) => {
                let expected = self.expected_scale(pods).await?;
                (expected, (expected - scaled(unavailable, expected)).max(0))
            }
            (None, Some(IntOrString::Int(minimum))) => (number(pods.len()), *minimum),
            (None, Some(minimum)) => {
                let expected = self.expected_scale(pods).await?;
                (expected, scaled(minimum, expected))
            }
            // The budget requires nothing and allows nothing.
            (None, None) => (0, 0),
        })
    }

    /// The total scale of the controllers of these pods. Unmanaged pods are not expected, because
    /// they would not be replaced.
    #[doc(alias = "getExpectedScale")]
    async fn expected_scale(&self, pods: &[Arc<Pod>]) -> Result<i32, Error> {
        let (mut asked, mut scale_of) = (HashSet::new(), HashMap::new());
        for pod in pods {
            let Some(owner) = controller(pod) else { continue };
            if asked.insert(owner.uid.clone()) {
                let (uid, scale) = self.scale_of(pod.namespace(), &owner).await?;
                scale_of.insert(uid, scale);
            }
        }
        Ok(scale_of.into_values().fold(0, i32::saturating_add))
    }

    /// The uid and scale of the top-level controller.
    async fn scale_of(&self, namespace: &str, owner: &OwnerReference) -> Result<(Str, i32), Error> {
        let unknown = || Error::NoController { controller: format!("{} {}", owner.kind, owner.name) };
        let kind = GroupVersionKind::from_api_version(&owner.api_version, owner.kind.clone()).map_err(|_| unknown())?;
        if kind.group == "apps"
            && kind.kind == "ReplicaSet"
            && let Some(known) = self.known_scale(namespace, owner)
        {
            return Ok(known);
        }
        let mapping = self.mapper.kind(&GroupKind::new(kind.group.clone(), kind.kind.clone()), &[]).await?;
        let resource = GroupResource::new(mapping.resource.group, mapping.resource.resource);
        let scale = ScaleApi::new(&self.client, self.mapper.clone(), namespace).get(&resource, &owner.name).await?;
        if scale.uid() != owner.uid {
            return Err(unknown());
        }
        Ok((owner.uid.clone(), scale.spec.and_then(|spec| spec.replicas).unwrap_or_default()))
    }

    /// The scale of a replica set, or of its deployment, from the caches.
    fn known_scale(&self, namespace: &str, owner: &OwnerReference) -> Option<(Str, i32)> {
        let set = self.sets.namespace(namespace).get(&owner.name).filter(|set| set.uid() == owner.uid)?;
        let Some(deployment) = controller(&set).filter(|owner| owner.kind == "Deployment") else {
            return Some((owner.uid.clone(), set.spec.as_ref()?.replicas.unwrap_or(1)));
        };
        let found = self.deployments.namespace(namespace).get(&deployment.name);
        let found = found.filter(|found| found.uid() == deployment.uid)?;
        Some((deployment.uid, found.spec.as_ref()?.replicas.unwrap_or(1)))
    }
}

/// Allows no eviction, because the safe number is unknown.
#[doc(alias = "failSafe")]
fn fail_safe(status: &mut PodDisruptionBudgetStatus, error: &Error, generation: Option<i64>) {
    status.disruptions_allowed = None;
    status.observed_generation = generation;
    say(status, "False", "SyncFailed", &error.event_message(), generation);
}

fn tell(status: &mut PodDisruptionBudgetStatus, healthy: i32, expected: i32, desired: i32, generation: Option<i64>) {
    // Without pods no eviction: the budget protects future pods.
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    // A zero decodes as absent, so it is omitted to compare equal.
    let told = |count: i32| (count != 0).then_some(count);
    status.current_healthy = told(healthy);
    status.desired_healthy = told(desired);
    status.expected_pods = told(expected);
    status.disruptions_allowed = told(allowed);
    status.observed_generation = generation;
    let (word, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    say(status, word, reason, "", generation);
}

fn say(status: &mut PodDisruptionBudgetStatus, word: &str, reason: &str, message: &str, generation: Option<i64>) {
    let condition = Condition {
        type_: "DisruptionAllowed".into(),
        status: word.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        ..Default::default()
    };
    condition::set_status_condition(&mut status.conditions, condition);
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
