//! Reads metrics from the three metrics APIs. Errors are in the words of kube-controller-manager.

use std::time::Duration;

use kubewright_api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};
use kubewright_client::Client;
use kubewright_client::discovery::RestMapper;
use kubewright_core::tree::{self, Meta};
use kubewright_core::{GroupKind, Quantity, Selector, Str, Value};

use super::replicas::{PodMetric, PodMetrics};
use crate::error::chain;

const RESOURCE_API: &str = "/apis/metrics.k8s.io/v1beta1";
const CUSTOM_API: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const EXTERNAL_API: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// The window of a metric that states none.
const WINDOW: Duration = Duration::from_secs(60);

/// A client of the metrics APIs.
#[derive(Debug)]
pub(super) struct MetricsClient {
    client: Client,
}

impl MetricsClient {
    pub(super) fn new(client: &Client) -> Self {
        MetricsClient { client: client.clone() }
    }

    /// The usage of a resource by each selected pod, or by one container of it.
    #[doc(alias = "GetResourceMetric")]
    pub(super) async fn of_resource(
        &self,
        resource: &str,
        namespace: &str,
        selector: &Selector,
        container: &str,
    ) -> Result<PodMetrics, String> {
        let prefix = format!("unable to get metrics for resource {resource}");
        let path = format!("{RESOURCE_API}/namespaces/{namespace}/pods");
        let list = self.read(&path, &[("labelSelector", selector.to_string())]).await;
        let list = list.map_err(|why| format!("{prefix}: unable to fetch metrics from resource metrics API: {why}"))?;
        let pods = tree::items(&list, &["items"]);
        if pods.is_empty() {
            return Err(format!("{prefix}: no metrics returned from resource metrics API"));
        }
        let mut metrics = PodMetrics::new();
        for pod in pods {
            let mut containers = tree::items(pod, &["containers"]).iter();
            let usage = |of: &Value| quantity(of, &["usage", resource]);
            let value = if container.is_empty() {
                // A pod counts only with the metrics of all its containers.
                containers.map(usage).sum::<Option<i64>>()
            } else {
                let Some(found) = containers.find(|of| tree::text(of, &["name"]) == container) else {
                    let pod = pod.name();
                    let why = "failed to get container metrics";
                    return Err(format!(
                        "{prefix}: {why}: container {container} not present in metrics for pod {namespace}/{pod}"
                    ));
                };
                usage(found)
            };
            if let Some(value) = value {
                metrics.insert(pod.name().into(), metric(pod, value, "window"));
            }
        }
        Ok(metrics)
    }

    /// A custom metric of each selected pod.
    #[doc(alias = "GetRawMetric")]
    pub(super) async fn of_pods(
        &self,
        metric_id: &MetricIdentifier,
        namespace: &str,
        selector: &Selector,
    ) -> Result<PodMetrics, String> {
        let name = &metric_id.name;
        let path = format!("{CUSTOM_API}/namespaces/{namespace}/pods/*/{name}");
        let mut query = vec![("labelSelector", selector.to_string())];
        query.extend(metric_selector(metric_id, "metricLabelSelector")?);
        let list = self.read(&path, &query).await;
        let list = list.map_err(|why| {
            format!("unable to get metric {name}: unable to fetch metrics from custom metrics API: {why}")
        })?;
        let items = tree::items(&list, &["items"]);
        if items.is_empty() {
            return Err(format!("unable to get metric {name}: no metrics returned from custom metrics API"));
        }
        let of_pod = |item: &Value| {
            let value = quantity(item, &["value"])?;
            Some((Str::from(tree::text(item, &["describedObject", "name"])), metric(item, value, "windowSeconds")))
        };
        Ok(items.iter().filter_map(of_pod).collect())
    }

    /// A custom metric of another object.
    #[doc(alias = "GetObjectMetric")]
    pub(super) async fn of_object(
        &self,
        metric_id: &MetricIdentifier,
        namespace: &str,
        object: &CrossVersionObjectReference,
        mapper: &RestMapper,
    ) -> Result<i64, String> {
        let CrossVersionObjectReference { kind, name, .. } = object;
        let metric = &metric_id.name;
        let failed = |why: String| {
            let cause = format!("unable to fetch metrics from custom metrics API: {why}");
            format!("unable to get metric {metric}: {cause} on {kind} {namespace}/{name}")
        };
        let group = object.api_version.as_deref().unwrap_or_default().split_once('/').map_or("", |(group, _)| group);
        let mapping = mapper.kind(&GroupKind::new(group, kind.clone()), &[]).await;
        let mapping = mapping.map_err(|error| failed(chain(&error)))?;
        let resource = match group {
            "" => mapping.resource.resource.to_string(),
            group => format!("{}.{group}", mapping.resource.resource),
        };
        let place = if mapping.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let path = format!("{CUSTOM_API}{place}/{resource}/{name}/{metric}");
        let query: Vec<_> = metric_selector(metric_id, "metricLabelSelector")?.into_iter().collect();
        let list = self.read(&path, &query).await.map_err(failed)?;
        let value = tree::items(&list, &["items"]).first().and_then(|item| quantity(item, &["value"]));
        value.ok_or_else(|| failed("no metrics returned from custom metrics API".to_owned()))
    }

    /// The sum of an external metric.
    #[doc(alias = "GetExternalMetric")]
    pub(super) async fn external(&self, metric_id: &MetricIdentifier, namespace: &str) -> Result<i64, String> {
        let name = &metric_id.name;
        let failed = |why: String| format!("unable to get external metric {namespace}/{name}: {why}");
        let path = format!("{EXTERNAL_API}/namespaces/{namespace}/{name}");
        let query: Vec<_> = metric_selector(metric_id, "labelSelector")?.into_iter().collect();
        let list = self.read(&path, &query).await;
        let list = list.map_err(|why| failed(format!("unable to fetch metrics from external metrics API: {why}")))?;
        let items = tree::items(&list, &["items"]);
        if items.is_empty() {
            return Err(failed("no metrics returned from external metrics API".to_owned()));
        }
        let values = items.iter().filter_map(|item| quantity(item, &["value"]));
        Ok(values.fold(0, i64::saturating_add))
    }

    async fn read(&self, path: &str, query: &[(&str, String)]) -> Result<Value, String> {
        let mut request = self.client.rest().get().absolute_path(path);
        for (name, value) in query {
            request = request.parameter(name, value);
        }
        let response = request.send().await.map_err(|error| chain(&error))?;
        Value::from_json(&response.bytes()).map_err(|error| error.to_string())
    }
}

/// The selector of a metric as a query parameter.
fn metric_selector(
    metric: &MetricIdentifier,
    parameter: &'static str,
) -> Result<Option<(&'static str, String)>, String> {
    let Some(selector) = &metric.selector else { return Ok(None) };
    let selector = Selector::from_label_selector(Some(selector)).map_err(|error| error.to_string())?;
    Ok(Some((parameter, selector.to_string())))
}

/// The quantity at a path, in thousandths.
fn quantity(value: &Value, path: &[&str]) -> Option<i64> {
    tree::text(value, path).parse::<Quantity>().ok().map(|quantity| quantity.milli_value())
}

fn metric(item: &Value, value: i64, window: &str) -> PodMetric {
    let seconds = match tree::get(item, &[window]) {
        Some(Value::String(text)) => {
            text.parse::<kubewright_core::Duration>().ok().and_then(|window| window.try_into().ok())
        }
        _ => tree::int(item, &[window]).map(|seconds| Duration::from_secs(seconds.unsigned_abs())),
    };
    PodMetric { value, timestamp: tree::text(item, &["timestamp"]).parse().ok(), window: seconds.unwrap_or(WINDOW) }
}
