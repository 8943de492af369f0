//! Scales targets of HorizontalPodAutoscalers by the metrics of their pods.
//!
//! As in kube-controller-manager, each autoscaler is examined every 15 seconds. `metrics` reads the
//! metrics, `measurement` chooses the rule for each of them, `replicas` computes the recommended
//! replicas, and `history` slows changes down.

mod history;
mod measurement;
mod metrics;
mod replicas;
mod status;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubewright_api::autoscaling::v1::Scale;
use kubewright_api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, MetricStatus,
};
use kubewright_api::core::v1::Pod;
use kubewright_cache::{Event, Lister};
use kubewright_client::discovery::{RestMapper, RestMapping};
use kubewright_client::{Api, Client, ScaleApi, clock};
use kubewright_core::{GroupKind, GroupResource, Object, ObjectKey, Selector};
use kubewright_runtime::events::EventRecorder;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::history::{Behavior, History, Limits};
use self::metrics::MetricsClient;
use self::replicas::{Target, Tolerances};
use self::status::Conditions;
use crate::context::ControllerContext;
use crate::error::{Error, chain};
use crate::worker::{self, Reconcile, Synced, work};

/// Period of examining an autoscaler.
/// kube-controller-manager: `--horizontal-pod-autoscaler-sync-period`.
const PERIOD: Duration = Duration::from_secs(15);
/// Tolerance of the ratio between usage and target.
/// kube-controller-manager: `--horizontal-pod-autoscaler-tolerance`.
const TOLERANCE: f64 = 0.1;
/// Attempts to update a scale that others update, too.
const ATTEMPTS: usize = 5;

struct Autoscaling {
    client: Client,
    mapper: RestMapper,
    metrics: MetricsClient,
    autoscalers: Lister<HorizontalPodAutoscaler>,
    pods: Lister<Pod>,
    histories: Mutex<HashMap<ObjectKey, History>>,
    /// The selectors of the targets, as of their last examination.
    selectors: Mutex<HashMap<ObjectKey, Selector>>,
    events: EventRecorder,
}

/// Scales targets of autoscalers until `stop` is cancelled.
///
/// # Errors
/// If the caches stop before they have synced.
#[doc(alias = "HorizontalController")]
pub async fn run(context: &ControllerContext, stop: &CancellationToken) -> Result<(), Error> {
    let (client, factory) = (context.client(), context.factory());
    let queue = worker::queue(context, Autoscaling::NAME);
    let (autoscalers, pods) = (factory.informer::<HorizontalPodAutoscaler>(), factory.informer::<Pod>());
    let handler = autoscalers.add_handler({
        let queue = queue.clone();
        // An autoscaler that is already queued keeps its time.
        move |event: &Event<HorizontalPodAutoscaler>| queue.add_after(event.key(), PERIOD)
    })?;
    let of_pods = pods.add_handler(|_: &Event<Pod>| {})?;
    factory.start(stop);
    if handler.synced().await && of_pods.synced().await {
        let controller = Autoscaling {
            client: client.clone(),
            mapper: client.rest_mapper(),
            metrics: MetricsClient::new(client),
            autoscalers: autoscalers.lister(),
            pods: pods.lister(),
            histories: Mutex::default(),
            selectors: Mutex::default(),
            events: context.recorder("horizontal-pod-autoscaler"),
        };
        work(Arc::new(controller), &queue, context, stop).await;
    }
    handler.remove();
    of_pods.remove();
    Ok(())
}

impl Reconcile for Autoscaling {
    const NAME: &'static str = "horizontalpodautoscaler";
    type Key = ObjectKey;

    async fn sync(&self, key: &ObjectKey) -> Synced {
        let Some(autoscaler) = self.autoscalers.namespace(key.namespace().clone()).get(key.name()) else {
            self.histories().remove(key);
            self.selectors.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(None);
        };
        let mut examined = (*autoscaler).clone();
        self.examine(key, &mut examined).await;
        if examined.status != autoscaler.status {
            let api = Api::<HorizontalPodAutoscaler>::namespaced(&self.client, key.namespace().clone());
            if let Err(error) = api.update_status(&examined).await
                && !error.is_not_found()
                && !error.is_conflict()
            {
                self.events.warning(&examined, "FailedUpdateStatus", chain(&error));
            }
        }
        Ok(Some(PERIOD))
    }
}

impl Autoscaling {
    /// Scales the target if necessary, and sets the status.
    #[doc(alias = "reconcileAutoscaler")]
    async fn examine(&self, key: &ObjectKey, autoscaler: &mut HorizontalPodAutoscaler) {
        let mut status = autoscaler.status.take().unwrap_or_default();
        let mut conditions = Conditions::new(&mut status.conditions);
        let (resource, scale) = match self.scale_of(autoscaler).await {
            Ok(found) => found,
            Err(why) => {
                self.events.warning(autoscaler, "FailedGetScale", why.clone());
                let message = format!("the HPA controller was unable to get the target's current scale: {why}");
                conditions.able_to_scale(false, "FailedGetScale", message);
                autoscaler.status = Some(status);
                return;
            }
        };
        conditions.able_to_scale(
            true,
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        );
        let current = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
        self.histories().entry(key.clone()).or_default().begin(current, Instant::now());
        let spec = autoscaler.spec.clone();
        let (min, max) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        status.current_replicas = Some(current);
        status.current_metrics = Default::default();
        let (desired, reason) = if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            conditions.scaling_active(false, "ScalingDisabled", message);
            (0, String::new())
        } else if current > max {
            (max, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < min {
            (min, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            let (proposed, metrics) = self.propose(key, autoscaler, &spec, &scale, &mut conditions).await;
            status.current_metrics = metrics.into_iter().collect();
            match proposed {
                Err(why) => {
                    self.events.warning(autoscaler, "FailedComputeMetricsReplicas", why);
                    autoscaler.status = Some(status);
                    return;
                }
                Ok((proposed, metric)) => {
                    let limits = Limits { min, max, current };
                    let behavior = Rules::of(&spec);
                    let behavior = behavior.as_ref().map(Rules::behavior);
                    let decision = {
                        let mut histories = self.histories();
                        let history = histories.entry(key.clone()).or_default();
                        history.decide(proposed, limits, behavior, Instant::now())
                    };
                    conditions.able_to_scale(true, decision.able.0, decision.able.1);
                    conditions.scaling_limited(decision.is_limited, decision.limited.0, decision.limited.1);
                    let reason = match proposed.cmp(&current) {
                        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
                        _ => format!("{metric} above target"),
                    };
                    (decision.replicas, reason)
                }
            }
        };
        status.desired_replicas = desired;
        if desired != current {
            let target = &spec.scale_target_ref.name;
            match self.rescale(key, &resource, target, scale, desired).await {
                Ok(()) => {
                    let message = format!("the HPA controller was able to update the target scale to {desired}");
                    conditions.able_to_scale(true, "SucceededRescale", message);
                    let message = format!("New size: {desired}; reason: {reason}");
                    self.events.normal(autoscaler, "SuccessfulRescale", message);
                    let behavior = Rules::of(&spec);
                    let mut histories = self.histories();
                    let history = histories.entry(key.clone()).or_default();
                    history.changed(behavior.as_ref().map(Rules::behavior), current, desired, Instant::now());
                    status.last_scale_time = Some(clock::now());
                }
                Err(why) => {
                    let message = format!("New size: {desired}; reason: {reason}; error: {why}");
                    self.events.warning(autoscaler, "FailedRescale", message);
                    let message = format!("the HPA controller was unable to update the target scale: {why}");
                    conditions.able_to_scale(false, "FailedUpdateScale", message);
                }
            }
        }
        autoscaler.status = Some(status);
    }

    /// The resource and the scale of the target.
    async fn scale_of(&self, autoscaler: &HorizontalPodAutoscaler) -> Result<(GroupResource, Scale), String> {
        let target = &autoscaler.spec.scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or_default();
        let group = match api_version.split('/').collect::<Vec<_>>()[..] {
            [_] => "",
            [group, _] => group,
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        let mapping = self.mapper.kind(&GroupKind::new(group, target.kind.clone()), &[]).await;
        let RestMapping { resource, .. } = mapping.map_err(|error| chain(&error))?;
        let resource = GroupResource::new(resource.group, resource.resource);
        let scale = self.scales(autoscaler.namespace()).get(&resource, &target.name).await;
        Ok((resource, scale.map_err(|error| chain(&error))?))
    }

    fn scales(&self, namespace: &str) -> ScaleApi {
        ScaleApi::new(&self.client, self.mapper.clone(), namespace)
    }

    /// Sets the replicas of a target. A conflict is retried with its current scale.
    async fn rescale(
        &self,
        key: &ObjectKey,
        resource: &GroupResource,
        name: &str,
        mut scale: Scale,
        replicas: i32,
    ) -> Result<(), String> {
        let scales = self.scales(key.namespace());
        let mut attempt = 1;
        loop {
            scale.spec.get_or_insert_default().replicas = Some(replicas);
            match scales.update(resource, &scale).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                    scale = scales.get(resource, name).await.map_err(|error| chain(&error))?;
                    attempt += 1;
                }
                Err(error) => return Err(chain(&error)),
            }
        }
    }

    /// The highest number of replicas that a metric asks for, and the name of the metric; also the
    /// status of all metrics.
    #[doc(alias = "computeReplicasForMetrics")]
    async fn propose(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        spec: &HorizontalPodAutoscalerSpec,
        scale: &Scale,
        conditions: &mut Conditions<'_>,
    ) -> (Result<(i32, String), String>, Vec<MetricStatus>) {
        let selector = match self.selector_of(key, autoscaler, scale) {
            Ok(selector) => selector,
            Err((reason, message)) => {
                conditions.scaling_active(false, reason, message.clone());
                return (Err(message), Vec::new());
            }
        };
        let pods = self.pods.namespace(key.namespace().clone()).list(&selector);
        let replicas = scale.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
        let target = Target { pods: &pods, replicas, tolerances: tolerances(spec), now: clock::now() };
        let of_status = scale.status.as_ref().map_or(0, |status| status.replicas);
        let (mut best, mut failure, mut failures) = (None::<(i32, String)>, None, 0);
        let mut statuses = Vec::new();
        for metric in &spec.metrics {
            match self.measure(metric, key.namespace(), &selector, &target, of_status).await {
                Ok(measured) => {
                    statuses.push(measured.status);
                    if best.as_ref().is_none_or(|(most, _)| measured.replicas > *most) {
                        best = Some((measured.replicas, measured.name));
                    }
                }
                Err(why) => {
                    // An entry without content keeps the order of the metrics.
                    statuses.push(MetricStatus::default());
                    self.events.warning(autoscaler, why.reason, why.cause.clone());
                    failures += 1;
                    failure.get_or_insert(why);
                }
            }
        }
        match (best, failure) {
            // With a metric missing, the target may grow but not shrink.
            (Some((most, name)), failure) if failure.is_none() || most >= replicas => {
                let message = format!("the HPA was able to successfully calculate a replica count from {name}");
                conditions.scaling_active(true, "ValidMetricFound", message);
                (Ok((most, name)), statuses)
            }
            (_, failure) => {
                let Some(failure) = failure else { return (Err("the autoscaler has no metrics".to_owned()), statuses) };
                let message = format!("the HPA was unable to compute the replica count: {}", failure.cause);
                conditions.scaling_active(false, failure.reason, message);
                let (count, why) = (spec.metrics.len(), failure.message);
                let message = format!("invalid metrics ({failures} invalid out of {count}), first error is: {why}");
                (Err(message), statuses)
            }
        }
    }

    /// The selector of the target's pods, which no other autoscaler may select as well. An error is
    /// a reason and a message.
    fn selector_of(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        scale: &Scale,
    ) -> Result<Selector, (&'static str, String)> {
        let text = scale.status.as_ref().and_then(|status| status.selector.as_deref()).unwrap_or_default();
        if text.is_empty() {
            self.events.warning(autoscaler, "SelectorRequired", "selector is required");
            return Err(("InvalidSelector", "the HPA target's scale is missing a selector".to_owned()));
        }
        let selector: Selector = text.parse().map_err(|error| {
            let why = format!("couldn't convert selector into a corresponding internal selector object: {error}");
            self.events.warning(autoscaler, "InvalidSelector", why.clone());
            ("InvalidSelector", why)
        })?;
        let pods = self.pods.namespace(key.namespace().clone()).list(&selector);
        let mut selectors = self.selectors.lock().unwrap_or_else(PoisonError::into_inner);
        selectors.insert(key.clone(), selector.clone());
        let selects = |other: &Selector| pods.iter().any(|pod| other.matches(&pod.metadata.labels));
        let others = selectors.iter().filter(|(other, _)| other.namespace() == key.namespace());
        let mut rivals: Vec<&ObjectKey> = others.filter(|(_, other)| selects(other)).map(|(key, _)| key).collect();
        if rivals.len() > 1 {
            rivals.sort();
            let names: Vec<String> = rivals.iter().map(|rival| rival.to_string()).collect();
            let names = names.join(" ");
            let why = format!("pods by selector {text} are controlled by multiple HPAs: [{names}]");
            self.events.warning(autoscaler, "AmbiguousSelector", why.clone());
            return Err(("AmbiguousSelector", why));
        }
        Ok(selector)
    }

    fn histories(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, History>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rules of a behavior. The server sets defaults, so that both directions are present.
struct Rules {
    up: HPAScalingRules,
    down: HPAScalingRules,
}

impl Rules {
    fn of(spec: &HorizontalPodAutoscalerSpec) -> Option<Self> {
        let behavior = spec.behavior.as_ref()?;
        let rules = |rules: Option<&HPAScalingRules>| rules.cloned().unwrap_or_default();
        Some(Rules { up: rules(behavior.scale_up.as_deref()), down: rules(behavior.scale_down.as_deref()) })
    }

    fn behavior(&self) -> Behavior<'_> {
        Behavior { up: &self.up, down: &self.down }
    }
}

fn tolerances(spec: &HorizontalPodAutoscalerSpec) -> Tolerances {
    let behavior = spec.behavior.as_ref();
    let of = |rules: Option<&HPAScalingRules>| {
        rules.and_then(|rules| rules.tolerance.as_ref()).map_or(TOLERANCE, |tolerance| tolerance.to_f64())
    };
    Tolerances {
        down: of(behavior.and_then(|behavior| behavior.scale_down.as_deref())),
        up: of(behavior.and_then(|behavior| behavior.scale_up.as_deref())),
    }
}
