//! The number of replicas that a metric asks for.
//!
//! Values are in thousandths, as in Go's `MilliValue`, so that results round alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::core::v1::{Container, Pod, PodCondition};
use kubewright_core::{Object, Str, Time};

/// Period after the start of a pod in which its CPU usage may be that of its initialization.
/// kube-controller-manager: `--horizontal-pod-autoscaler-cpu-initialization-period`.
const CPU_INITIALIZATION: i64 = 5 * 60;
/// A pod that became unready in this period after its start has never been ready.
/// kube-controller-manager: `--horizontal-pod-autoscaler-initial-readiness-delay`.
const INITIAL_READINESS_DELAY: i64 = 30;

/// The metric of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodMetric {
    pub(super) value: i64,
    pub(super) timestamp: Option<Time>,
    pub(super) window: Duration,
}

/// Metrics by the names of the pods.
pub(super) type PodMetrics = BTreeMap<Str, PodMetric>;

/// How far the usage may be from the target without an effect, as a share of the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn allow(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The scaled pods, and the number of replicas in the spec of their target.
pub(super) struct Target<'a> {
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) replicas: i32,
    pub(super) tolerances: Tolerances,
    pub(super) now: Time,
}

/// The replicas that a metric recommends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The current usage: the average of the pods, or the whole value of another object.
    pub(super) usage: i64,
    /// The current usage in percent of the requests.
    pub(super) utilization: Option<i32>,
}

impl Target<'_> {
    /// The replicas for a utilization target, in percent of the requests of the pods, or of one
    /// container.
    #[doc(alias = "GetResourceReplicas")]
    pub(super) fn for_utilization(
        &self,
        metrics: PodMetrics,
        target: i32,
        resource: &str,
        container: &str,
    ) -> Result<Proposal, String> {
        let mut requests = BTreeMap::new();
        let groups = self.group(&metrics, resource)?;
        for pod in self.pods {
            requests.insert(Str::from(pod.name()), request(pod, container, resource)?);
        }
        let usage = |metrics: &PodMetrics| utilization(metrics, &requests, target);
        // Missing pods use all they requested, or more if the target is higher.
        let fallback = i64::from(target.max(100));
        let missing = |pod: &Str| requests.get(pod).copied().unwrap_or_default() * fallback / 100;
        self.propose(metrics, &groups, usage, missing)
    }

    /// The replicas for an average value of the pods. `resource` is empty unless the metric is one
    /// of resources.
    #[doc(alias = "GetRawResourceReplicas")]
    #[doc(alias = "GetMetricReplicas")]
    pub(super) fn for_average(&self, metrics: PodMetrics, target: i64, resource: &str) -> Result<Proposal, String> {
        let groups = self.group(&metrics, resource)?;
        let usage = |metrics: &PodMetrics| {
            let average = metrics.values().map(|metric| metric.value).sum::<i64>() / metrics.len().max(1) as i64;
            Ok(Usage { ratio: ratio(average, target), average, utilization: None })
        };
        self.propose(metrics, &groups, usage, |_| target)
    }

    /// The replicas for a value that all ready pods cause together, such as the length of a queue.
    #[doc(alias = "GetObjectMetricReplicas")]
    #[doc(alias = "GetExternalMetricReplicas")]
    pub(super) fn for_value(&self, usage: i64, target: i64) -> Result<Proposal, String> {
        let ratio = ratio(usage, target);
        let replicas = if self.replicas == 0 {
            round_up(ratio)
        } else if self.tolerances.allow(ratio) {
            self.replicas
        } else if self.pods.is_empty() {
            return Err("unable to calculate ready pods: no pods returned by selector while calculating replica count"
                .to_owned());
        } else {
            let ready = self.pods.iter().filter(|pod| phase(pod) == "Running" && is_ready(pod)).count();
            round_up(ratio * ready as f64)
        };
        Ok(Proposal { replicas, usage, utilization: None })
    }

    /// The replicas for a value that is divided among the pods. `replicas` is their number in the
    /// status of the target.
    #[doc(alias = "GetObjectPerPodMetricReplicas")]
    #[doc(alias = "GetExternalPerPodMetricReplicas")]
    pub(super) fn for_share(&self, usage: i64, target: i64, replicas: i32) -> Proposal {
        let (total, share) = (usage as f64, target as f64);
        let average = (total / f64::from(replicas)).ceil() as i64;
        let is_within = self.tolerances.allow(total / (share * f64::from(replicas)));
        let replicas = if is_within { replicas } else { round_up(total / share) };
        Proposal { replicas, usage: average, utilization: None }
    }

    /// The common rules: pods without metrics, and pods that are not ready, make the change smaller
    /// but never reverse it. `missing` is the assumed usage of a pod without a metric.
    fn propose(
        &self,
        mut metrics: PodMetrics,
        groups: &Groups,
        usage: impl Fn(&PodMetrics) -> Result<Usage, String>,
        missing: impl Fn(&Str) -> i64,
    ) -> Result<Proposal, String> {
        metrics.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
        if metrics.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let now = usage(&metrics)?;
        let proposal = |replicas| Ok(Proposal { replicas, usage: now.average, utilization: now.utilization });
        let unready_matter = !groups.unready.is_empty() && now.ratio > 1.0;
        if !unready_matter && groups.missing.is_empty() {
            if self.tolerances.allow(now.ratio) {
                return proposal(self.replicas);
            }
            return proposal(round_up(now.ratio * groups.ready as f64));
        }
        let assumed = |value| PodMetric { value, timestamp: None, window: Duration::ZERO };
        if now.ratio < 1.0 {
            metrics.extend(groups.missing.iter().map(|pod| (pod.clone(), assumed(missing(pod)))));
        } else if now.ratio > 1.0 {
            metrics.extend(groups.missing.iter().map(|pod| (pod.clone(), assumed(0))));
        }
        if unready_matter {
            metrics.extend(groups.unready.iter().map(|pod| (pod.clone(), assumed(0))));
        }
        let ratio = usage(&metrics)?.ratio;
        let is_reversed = (now.ratio < 1.0 && ratio > 1.0) || (now.ratio > 1.0 && ratio < 1.0);
        if self.tolerances.allow(ratio) || is_reversed {
            return proposal(self.replicas);
        }
        let replicas = round_up(ratio * metrics.len() as f64);
        let is_reversed = (ratio < 1.0 && replicas > self.replicas) || (ratio > 1.0 && replicas < self.replicas);
        proposal(if is_reversed { self.replicas } else { replicas })
    }

    /// Groups the pods by what their metrics are worth.
    fn group(&self, metrics: &PodMetrics, resource: &str) -> Result<Groups, String> {
        if self.pods.is_empty() {
            return Err("no pods returned by selector while calculating replica count".to_owned());
        }
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = Str::from(pod.name());
            if pod.is_being_deleted() || phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else {
                match metrics.get(&name) {
                    None => drop(groups.missing.insert(name)),
                    Some(metric) if resource == "cpu" && !counts(pod, metric, self.now) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        Ok(groups)
    }
}

/// Usage relative to the target.
struct Usage {
    ratio: f64,
    average: i64,
    utilization: Option<i32>,
}

/// Pods by what their metrics are worth.
#[derive(Debug, Default)]
struct Groups {
    /// Number of pods whose metric counts.
    ready: usize,
    unready: BTreeSet<Str>,
    missing: BTreeSet<Str>,
    ignored: BTreeSet<Str>,
}

/// The utilization of the requests in whole percent, relative to the target.
#[doc(alias = "GetResourceUtilizationRatio")]
fn utilization(metrics: &PodMetrics, requests: &BTreeMap<Str, i64>, target: i32) -> Result<Usage, String> {
    let known = || metrics.iter().filter_map(|(pod, metric)| Some((metric.value, *requests.get(pod)?)));
    let (used, requested) = known().fold((0, 0), |(used, total), (value, request)| (used + value, total + request));
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = i32::try_from(used * 100 / requested).unwrap_or(i32::MAX);
    let ratio = f64::from(percent) / f64::from(target);
    Ok(Usage { ratio, average: used / known().count() as i64, utilization: Some(percent) })
}

/// Whether the CPU usage of a pod is that of its work, not of its initialization.
fn counts(pod: &Pod, metric: &PodMetric, now: Time) -> bool {
    let start = pod.status.as_ref().and_then(|status| status.start_time);
    let (Some(condition), Some(start)) = (condition(pod, "Ready"), start) else { return false };
    let changed = condition.last_transition_time.map_or(0, Time::as_unix);
    let is_unready = condition.status == "False";
    if start.as_unix() + CPU_INITIALIZATION > now.as_unix() {
        // A whole window has to be measured since the last change.
        let measured = metric.timestamp.map_or(0, Time::as_unix);
        !is_unready && measured >= changed + metric.window.as_secs() as i64
    } else {
        !(is_unready && start.as_unix() + INITIAL_READINESS_DELAY > changed)
    }
}

/// The request of a pod, or of one of its containers.
#[doc(alias = "calculateRequests")]
fn request(pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let Some(spec) = &pod.spec else { return Err(format!("Pod {} has no spec", pod.name())) };
    let of_pod = spec.resources.as_ref().filter(|_| container.is_empty()).map(|resources| &resources.requests);
    if let Some(requests) = of_pod.filter(|requests| !requests.is_empty()) {
        let missing = || format!("missing pod-level request for {resource} in Pod {}", pod.name());
        return requests.get(resource).map(|amount| amount.milli_value()).ok_or_else(missing);
    }
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().filter(is_sidecar));
    let of_container = |one: &Container| {
        let requests = one.resources.as_ref().and_then(|resources| resources.requests.get(resource));
        let name = &one.name;
        let missing = || format!("missing request for {resource} in container {name} of Pod {}", pod.name());
        requests.map(|amount| amount.milli_value()).ok_or_else(missing)
    };
    if container.is_empty() {
        return containers.map(of_container).sum();
    }
    let missing = || format!("container {container} not found in Pod {}", pod.name());
    of_container(containers.find(|one| one.name == container).ok_or_else(missing)?)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

fn ratio(usage: i64, target: i64) -> f64 {
    usage as f64 / target as f64
}

/// Rounds up, within the range of a number of replicas.
fn round_up(replicas: f64) -> i32 {
    // Casts saturate.
    replicas.ceil() as i32
}

#[cfg(test)]
mod tests {
    use kubewright_core::Decoder;

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    /// A pod that requests one core and has been ready for an hour.
    fn pod(name: &str, phase: &str, ready: &str) -> Arc<Pod> {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"main","resources":{{"requests":{{"cpu":"1"}}}}}}]}},
            "status":{{"phase":"{phase}","startTime":"2026-01-01T00:00:00Z",
            "conditions":[{{"type":"Ready","status":"{ready}","lastTransitionTime":"2026-01-01T00:00:10Z"}}]}}}}"#
        );
        Arc::new(Decoder::new().json(text.as_bytes()).expect("a pod"))
    }

    fn metrics(values: &[(&str, i64)]) -> PodMetrics {
        let metric = |value| PodMetric { value, timestamp: NOW.parse().ok(), window: Duration::from_secs(15) };
        values.iter().map(|(pod, value)| (Str::from(*pod), metric(*value))).collect()
    }

    /// The replicas for a target of 50 %.
    fn replicas(pods: &[Arc<Pod>], values: &[(&str, i64)]) -> Result<(i32, i32), String> {
        let tolerances = Tolerances { down: 0.1, up: 0.1 };
        let target = Target { pods, replicas: pods.len() as i32, tolerances, now: NOW.parse().unwrap() };
        let proposal = target.for_utilization(metrics(values), 50, "cpu", "")?;
        Ok((proposal.replicas, proposal.utilization.unwrap()))
    }

    #[test]
    fn usage_above_the_target_asks_for_more_replicas_in_proportion() {
        let pods = ["a", "b"].map(|name| pod(name, "Running", "True"));
        assert_eq!(replicas(&pods, &[("a", 1000), ("b", 1000)]), Ok((4, 100)));
        assert_eq!(replicas(&pods, &[("a", 250), ("b", 250)]), Ok((1, 25)));
        // Within the tolerance of a tenth.
        assert_eq!(replicas(&pods, &[("a", 540), ("b", 540)]), Ok((2, 54)));
    }

    #[test]
    fn pods_without_metrics_damp_the_change_and_do_not_reverse_it() {
        let pods = ["a", "b"].map(|name| pod(name, "Running", "True"));
        // The missing one counts as idle, so that both together are at the target.
        assert_eq!(replicas(&pods, &[("a", 1000)]), Ok((2, 100)));
        assert_eq!(replicas(&pods, &[("a", 2000)]), Ok((4, 200)));
        // On the way down it counts as fully used.
        assert_eq!(replicas(&pods, &[("a", 100)]), Ok((2, 10)));
    }

    #[test]
    fn pods_that_are_not_ready_count_as_idle_on_the_way_up() {
        let pods = [pod("a", "Running", "True"), pod("b", "Pending", "False"), pod("c", "Failed", "False")];
        assert_eq!(replicas(&pods, &[("a", 3000), ("c", 9000)]), Ok((6, 300)));
        let none = replicas(&pods[1..2], &[("b", 1000)]).unwrap_err();
        assert_eq!(none, "did not receive metrics for targeted pods (pods might be unready)");
    }

    #[test]
    fn a_container_without_a_request_is_an_error() {
        let pods = [pod("a", "Running", "True")];
        let tolerances = Tolerances { down: 0.1, up: 0.1 };
        let target = Target { pods: &pods, replicas: 1, tolerances, now: NOW.parse().unwrap() };
        let error = |container| target.for_utilization(metrics(&[("a", 1)]), 50, "memory", container).unwrap_err();
        assert_eq!(error(""), "missing request for memory in container main of Pod a");
        assert_eq!(error("other"), "container other not found in Pod a");
    }

    #[test]
    fn a_value_is_shared_by_ready_pods_or_divided_by_its_target() {
        let pods = [pod("a", "Running", "True"), pod("b", "Running", "False")];
        let tolerances = Tolerances { down: 0.1, up: 0.1 };
        let target = Target { pods: &pods, replicas: 2, tolerances, now: NOW.parse().unwrap() };
        assert_eq!(target.for_value(30_000, 10_000).unwrap().replicas, 3);
        assert_eq!(target.for_value(10_500, 10_000).unwrap().replicas, 2);
        let shared = target.for_share(30_000, 10_000, 2);
        assert_eq!((shared.replicas, shared.usage), (3, 15_000));
        assert_eq!(target.for_share(21_000, 10_000, 2).replicas, 2);
    }
}
