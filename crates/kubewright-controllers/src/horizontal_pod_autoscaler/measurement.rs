//! The replicas that each metric of an autoscaler recommends.

use kubewright_api::autoscaling::v2::{MetricSpec, MetricStatus, MetricTarget};
use kubewright_core::Selector;

use super::replicas::Target;
use super::{Autoscaling, replicas, status};

/// The replicas that a metric recommends.
pub(super) struct Measured {
    pub(super) replicas: i32,
    /// How messages name the metric.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Why a metric could not be used.
pub(super) struct MetricFailure {
    /// The reason of the condition and the event.
    pub(super) reason: &'static str,
    /// Their message.
    pub(super) cause: String,
    /// The cause, and what it prevented.
    pub(super) message: String,
}

impl Autoscaling {
    /// The replicas that one metric asks for. `replicas` is their number in the status of the
    /// target.
    #[doc(alias = "computeReplicasForMetric")]
    pub(super) async fn measure(
        &self,
        metric: &MetricSpec,
        namespace: &str,
        selector: &Selector,
        target: &Target<'_>,
        replicas: i32,
    ) -> Result<Measured, MetricFailure> {
        let failed = |reason, what: &str, cause: String| {
            let message = format!("failed to get {what}: {cause}");
            MetricFailure { reason, cause, message }
        };
        if let Some(source) = &metric.resource {
            let measured = self.measure_resource(&source.name, "", &source.target, namespace, selector, target).await;
            let what = format!("{} resource metric value", source.name);
            let (proposal, name) = measured.map_err(|cause| failed("FailedGetResourceMetric", &what, cause))?;
            let status = status::of_resource(source, &proposal);
            return Ok(Measured { replicas: proposal.replicas, name, status });
        }
        if let Some(source) = &metric.container_resource {
            let (resource, container) = (&source.name, &source.container);
            let measured =
                self.measure_resource(resource, container, &source.target, namespace, selector, target).await;
            let what = format!("{container} container metric value");
            let (proposal, name) =
                measured.map_err(|cause| failed("FailedGetContainerResourceMetric", &what, cause))?;
            let status = status::of_container_resource(source, &proposal);
            return Ok(Measured { replicas: proposal.replicas, name, status });
        }
        if let Some(source) = &metric.pods {
            let measured = match (
                self.metrics.of_pods(&source.metric, namespace, selector).await,
                milli(&source.target.average_value),
            ) {
                (Ok(metrics), Some(average)) => target.for_average(metrics, average, ""),
                (Ok(_), None) => Err("the metric has no target for the average value".to_owned()),
                (Err(why), _) => Err(why),
            };
            let proposal = measured.map_err(|cause| failed("FailedGetPodsMetric", "pods metric value", cause))?;
            let name = format!("pods metric {}", source.metric.name);
            return Ok(Measured { replicas: proposal.replicas, name, status: status::of_pods(source, &proposal) });
        }
        if let Some(source) = &metric.object {
            let object = &source.described_object;
            let value = self.metrics.of_object(&source.metric, namespace, object, &self.mapper).await;
            let measured = value.and_then(|usage| propose_value(target, &source.target, usage, replicas));
            let proposal = measured.map_err(|cause| failed("FailedGetObjectMetric", "object metric value", cause))?;
            let name = format!("{} metric {}", object.kind, source.metric.name);
            return Ok(Measured { replicas: proposal.replicas, name, status: status::of_object(source, &proposal) });
        }
        if let Some(source) = &metric.external {
            let value = self.metrics.external(&source.metric, namespace).await;
            let measured = value.and_then(|usage| propose_value(target, &source.target, usage, replicas));
            let what = format!("{} external metric value", source.metric.name);
            let proposal = measured.map_err(|cause| failed("FailedGetExternalMetric", &what, cause))?;
            let name = format!("external metric {}", source.metric.name);
            return Ok(Measured { replicas: proposal.replicas, name, status: status::of_external(source, &proposal) });
        }
        let cause = format!("unknown metric source type {:?}", metric.type_.as_str());
        Err(MetricFailure { reason: "InvalidMetricSourceType", message: cause.clone(), cause })
    }

    async fn measure_resource(
        &self,
        resource: &str,
        container: &str,
        goal: &MetricTarget,
        namespace: &str,
        selector: &Selector,
        target: &Target<'_>,
    ) -> Result<(replicas::Proposal, String), String> {
        let metrics = self.metrics.of_resource(resource, namespace, selector, container).await?;
        let kind = if container.is_empty() { "resource" } else { "container resource" };
        if let Some(average) = milli(&goal.average_value) {
            let proposal = target.for_average(metrics, average, resource)?;
            return Ok((proposal, format!("{resource} {kind}")));
        }
        let Some(percent) = goal.average_utilization else {
            let why = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(why.to_owned());
        };
        let proposal = target.for_utilization(metrics, percent, resource, container)?;
        Ok((proposal, format!("{resource} {kind} utilization (percentage of request)")))
    }
}

/// The replicas for a value of another object, by its target.
fn propose_value(
    target: &Target<'_>,
    goal: &MetricTarget,
    usage: i64,
    replicas: i32,
) -> Result<replicas::Proposal, String> {
    if let Some(average) = milli(&goal.average_value) {
        return Ok(target.for_share(usage, average, replicas));
    }
    match milli(&goal.value) {
        Some(value) => target.for_value(usage, value),
        None => {
            let why = "invalid metric source: neither a value target nor an average value target was set";
            Err(why.to_owned())
        }
    }
}

fn milli(quantity: &Option<kubewright_core::Quantity>) -> Option<i64> {
    quantity.as_ref().map(|quantity| quantity.milli_value())
}
