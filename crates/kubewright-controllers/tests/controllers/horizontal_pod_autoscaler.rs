//! Horizontal pod autoscalers, with the metrics of simulated pods.

use std::time::Duration;

use kubewright_api::apps::v1::Deployment;
use kubewright_api::autoscaling::v2::HorizontalPodAutoscaler;
use kubewright_api::core::v1::Pod;
use kubewright_core::{Decoder, Object, tree};
use tokio::time::sleep;

use crate::support::Cluster;

/// A deployment whose pods request 100m CPU and use this much.
fn deployment(name: &str, usage: &str) -> Deployment {
    let container = r#"{"name":"main","image":"app","resources":{"requests":{"cpu":"100m"}}}"#;
    let annotations = format!(r#"{{"kubewright.dev/cpu-usage":"{usage}"}}"#);
    let text = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"replicas":1,"selector":{{"matchLabels":{{"app":"{name}"}}}},
        "template":{{"metadata":{{"labels":{{"app":"{name}"}},"annotations":{annotations}}},"spec":{{"containers":[{container}]}}}}}}}}"#
    );
    Decoder::new().json(text.as_bytes()).unwrap()
}

/// An autoscaler for a utilization of 50 %.
fn autoscaler(name: &str, more: &str) -> HorizontalPodAutoscaler {
    let metric =
        r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}"#;
    let target = format!(r#"{{"apiVersion":"apps/v1","kind":"Deployment","name":"{name}"}}"#);
    let text = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"scaleTargetRef":{target},"maxReplicas":10,"metrics":[{metric}]{more}}}}}"#
    );
    Decoder::new().json(text.as_bytes()).unwrap()
}

/// Status, reason and message of a condition.
fn condition(autoscaler: &HorizontalPodAutoscaler, kind: &str) -> [String; 3] {
    let conditions = autoscaler.status.iter().flat_map(|status| status.conditions.iter());
    let found = conditions.into_iter().find(|condition| condition.type_ == kind).cloned().unwrap_or_default();
    [found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default()].map(String::from)
}

fn desired(autoscaler: &HorizontalPodAutoscaler) -> i32 {
    autoscaler.status.as_ref().map_or(0, |status| status.desired_replicas)
}

#[tokio::test(start_paused = true)]
async fn busy_pods_are_joined_by_others_step_by_step() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.serve_metrics().await;
    cluster.create(&deployment("busy", "200%")).await;
    cluster.create(&autoscaler("busy", "")).await;
    // Without a behavior a step at most doubles the replicas.
    let first = cluster.until::<HorizontalPodAutoscaler>("busy", |busy| desired(busy) == 8).await;
    assert_eq!(condition(&first, "ScalingLimited")[1], "ScaleUpLimit");
    let metric = first.status.as_ref().unwrap().current_metrics[0].resource.clone().unwrap();
    assert_eq!(metric.current.average_utilization, Some(200));
    assert_eq!(metric.current.average_value.as_ref().unwrap().to_string(), "200m");
    let last = cluster.until::<HorizontalPodAutoscaler>("busy", |busy| desired(busy) == 10).await;
    assert_eq!(condition(&last, "ScalingLimited")[1], "TooManyReplicas");
    let message = "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)";
    assert_eq!(condition(&last, "ScalingActive"), ["True", "ValidMetricFound", message]);
    cluster.until_told("HorizontalPodAutoscaler", "SuccessfulRescale").await;
    cluster.until::<Deployment>("busy", |busy| busy.spec.as_ref().unwrap().replicas == Some(10)).await;

    // Idle pods: the way down waits five minutes.
    let idle = r#"{"metadata":{"annotations":{"kubewright.dev/cpu-usage":"5m"}}}"#;
    for pod in cluster.pods().await {
        cluster.patch::<Pod>(pod.name(), idle).await;
    }
    cluster
        .until::<HorizontalPodAutoscaler>("busy", |busy| condition(busy, "AbleToScale")[1] == "ScaleDownStabilized")
        .await;
    sleep(Duration::from_secs(240)).await;
    assert_eq!(cluster.pods().await.len(), 10);
    cluster.until::<HorizontalPodAutoscaler>("busy", |busy| desired(busy) == 1).await;
    cluster.until::<Deployment>("busy", |busy| busy.spec.as_ref().unwrap().replicas == Some(1)).await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_behavior_limits_the_rate() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.serve_metrics().await;
    cluster.create(&deployment("slow", "200%")).await;
    let behavior = r#","behavior":{"scaleUp":{"policies":[{"type":"Pods","value":1,"periodSeconds":60}]}}"#;
    cluster.create(&autoscaler("slow", behavior)).await;
    let limited = cluster.until::<HorizontalPodAutoscaler>("slow", |slow| desired(slow) == 2).await;
    assert_eq!(condition(&limited, "ScalingLimited")[1], "ScaleUpLimit");
    sleep(Duration::from_secs(40)).await;
    assert_eq!(desired(&cluster.get("slow").await), 2);
    sleep(Duration::from_secs(40)).await;
    assert_eq!(desired(&cluster.get("slow").await), 3);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_prevents_scaling_is_in_the_conditions() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create(&autoscaler("missing", "")).await;
    let lost =
        cluster.until::<HorizontalPodAutoscaler>("missing", |one| !condition(one, "AbleToScale")[0].is_empty()).await;
    let [status, reason, message] = condition(&lost, "AbleToScale");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGetScale"));
    assert!(message.starts_with("the HPA controller was unable to get the target's current scale: "), "{message}");
    assert!(message.contains(r#"deployments.apps "missing" not found"#), "{message}");

    // There is no metrics server.
    cluster.create(&deployment("blind", "1")).await;
    cluster.create(&autoscaler("blind", "")).await;
    let blind =
        cluster.until::<HorizontalPodAutoscaler>("blind", |one| !condition(one, "ScalingActive")[0].is_empty()).await;
    let [status, reason, message] = condition(&blind, "ScalingActive");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGetResourceMetric"));
    let prefix = "the HPA was unable to compute the replica count: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: ";
    assert!(message.starts_with(prefix), "{message}");

    // A second autoscaler of the same pods stops both.
    let mut second = autoscaler("blind", "");
    second.metadata.name = Some("second".into());
    cluster.create(&second).await;
    let ambiguous = cluster
        .until::<HorizontalPodAutoscaler>("second", |one| condition(one, "ScalingActive")[1] == "AmbiguousSelector")
        .await;
    assert_eq!(condition(&ambiguous, "ScalingActive")[0], "False");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_metrics_server_answers_as_metrics_server_does() {
    let cluster = Cluster::with_nodes(1).await;
    cluster.serve_metrics().await;
    cluster.create(&deployment("web", "250m")).await;
    cluster
        .until::<Deployment>("web", |web| web.status.as_ref().is_some_and(|status| status.ready_replicas == Some(1)))
        .await;
    let read = async |path: &str| {
        let answer =
            cluster.client.rest().get().absolute_path(&format!("/apis/metrics.k8s.io/v1beta1{path}")).send().await;
        answer.map(|answer| kubewright_core::Value::from_json(&answer.bytes()).unwrap())
    };
    for _ in 0..50 {
        if read("/nodes").await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let pods = read("/namespaces/default/pods?labelSelector=app%3Dweb").await.unwrap();
    let pod = &tree::items(&pods, &["items"])[0];
    let usage = tree::get(&tree::items(pod, &["containers"])[0], &["usage"]).unwrap().to_string();
    assert_eq!(usage, r#"{"cpu":"250m","memory":"10Mi"}"#);
    assert!(tree::items(&read("/pods?labelSelector=app%3Dother").await.unwrap(), &["items"]).is_empty());
    let nodes = read("/nodes").await.unwrap();
    let usage = tree::get(&tree::items(&nodes, &["items"])[0], &["usage"]).unwrap().to_string();
    assert_eq!(usage, r#"{"cpu":"250m","memory":"10Mi"}"#);
    assert!(read("/namespaces/default/pods/unicorn").await.unwrap_err().is_not_found());
    cluster.stop().await;
}
