//! Disruption budgets: how many pods may be evicted now.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, ReplicaSet};
use kubewright_api::core::v1::Pod;
use kubewright_api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use kubewright_cache::{Event, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::meta::v1::Condition;
use kubewright_core::{IntOrString, Object, ObjectKey, Selector, Str, condition};
use tokio_util::sync::CancellationToken;

use crate::claim::selects;
use crate::clock::Clock;
use crate::context::ControllerContext;
use crate::error::Error;
use crate::owner_events::controller;
use crate::pods::{is_active, is_finished, is_ready};
use crate::worker::{self, Reconcile, Synced, work};

/// An eviction that has not led to a deletion after so long is forgotten.
const EVICTION_PATIENCE: Duration = Duration::from_secs(120);

struct Disruption {
    client: Client,
    budgets: Lister<PodDisruptionBudget>,
    pods: Lister<Pod>,
    sets: Lister<ReplicaSet>,
    deployments: Lister<Deployment>,
    clock: Clock,
}

/// Keeps the status of disruption budgets until `stop` is cancelled, with so many workers.
///
/// # Errors
/// If the caches stop before they were complete.
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
            let Some(pod) = event.object().filter(|_| !event.is_reminder()) else { return };
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
            budgets: budgets.lister(),
            pods: pods.lister(),
            sets: sets.lister(),
            deployments: deployments.lister(),
            clock: Clock::new(),
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
        let mut pods = self.pods.namespace(key.namespace().clone()).list(&selector(&budget)?);
        pods.retain(|pod| !is_finished(pod));
        let now = self.clock.now();
        let mut status = budget.status.clone().unwrap_or_default();
        let is_awaited = |name: &str| pods.iter().any(|pod| pod.name() == name && !pod.is_being_deleted());
        status.disrupted_pods.retain(|name, since| {
            is_awaited(name) && now.duration_since(*since).unwrap_or_default() < EVICTION_PATIENCE
        });
        let is_healthy =
            |pod: &&Arc<Pod>| is_active(pod) && is_ready(pod) && !status.disrupted_pods.contains_key(pod.name());
        let healthy = number(pods.iter().filter(is_healthy).count());
        let (expected, desired) = self.expect(spec, &pods);
        tell(&mut status, healthy, expected, desired, budget.generation());
        let again = (!status.disrupted_pods.is_empty()).then_some(EVICTION_PATIENCE);
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
    /// How many pods there should be, and how many of them have to be healthy.
    #[doc(alias = "getExpectedPodCount")]
    fn expect(&self, spec: &PodDisruptionBudgetSpec, pods: &[Arc<Pod>]) -> (i32, i32) {
        let scaled = |value: &IntOrString, total: i32| {
            let scaled = value.scaled_value_from(i64::from(total), true).unwrap_or_default();
            i32::try_from(scaled).unwrap_or(i32::MAX)
        };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(unavailable), _) => {
                let expected = self.expected_scale(pods);
                (expected, (expected - scaled(unavailable, expected)).max(0))
            }
            (None, Some(IntOrString::Int(minimum))) => (number(pods.len()), *minimum),
            (None, Some(minimum)) => {
                let expected = self.expected_scale(pods);
                (expected, scaled(minimum, expected))
            }
            (None, None) => (number(pods.len()), 1),
        }
    }

    /// The sizes of all that control these pods; a pod that nothing known controls counts for itself.
    fn expected_scale(&self, pods: &[Arc<Pod>]) -> i32 {
        let mut scale_of: HashMap<Str, i32> = HashMap::new();
        for pod in pods {
            let (uid, scale) = self.scale_of(pod).unwrap_or_else(|| (pod.uid().into(), 1));
            scale_of.insert(uid, scale);
        }
        scale_of.values().sum()
    }

    fn scale_of(&self, pod: &Arc<Pod>) -> Option<(Str, i32)> {
        let set = self.sets.namespace(pod.namespace()).get(&controller(pod)?.name)?;
        let of_set = (Str::from(set.uid()), set.spec.as_ref()?.replicas.unwrap_or(1));
        let Some(owner) = controller(&set).filter(|owner| owner.kind == "Deployment") else { return Some(of_set) };
        let deployment = self.deployments.namespace(pod.namespace()).get(&owner.name)?;
        Some((owner.uid, deployment.spec.as_ref()?.replicas.unwrap_or(1)))
    }
}

fn tell(status: &mut PodDisruptionBudgetStatus, healthy: i32, expected: i32, desired: i32, generation: Option<i64>) {
    // No pods, no eviction: a budget of zero pods protects those to come.
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    // A zero reads as absent, and what is read is compared with what is told.
    let told = |count: i32| (count != 0).then_some(count);
    status.current_healthy = told(healthy);
    status.desired_healthy = told(desired);
    status.expected_pods = told(expected);
    status.disruptions_allowed = told(allowed);
    status.observed_generation = generation;
    let (word, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = Condition {
        type_: "DisruptionAllowed".into(),
        status: word.into(),
        reason: reason.into(),
        observed_generation: generation,
        ..Default::default()
    };
    condition::set_status_condition(&mut status.conditions, condition);
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
