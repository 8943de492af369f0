//! The status of an autoscaler: its conditions, and the current values of its metrics.

use kubewright_api::autoscaling::v2::{
    ContainerResourceMetricSource, ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus,
    HorizontalPodAutoscalerCondition, MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource,
    ObjectMetricStatus, PodsMetricSource, PodsMetricStatus, ResourceMetricSource, ResourceMetricStatus,
};
use kubewright_client::clock;
use kubewright_core::{List, Quantity, QuantityFormat, Str};

use super::replicas::Proposal;

/// The conditions of an autoscaler.
pub(super) struct Conditions<'a> {
    list: &'a mut List<HorizontalPodAutoscalerCondition>,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(list: &'a mut List<HorizontalPodAutoscalerCondition>) -> Self {
        Conditions { list }
    }

    pub(super) fn able_to_scale(&mut self, is_true: bool, reason: &'static str, message: impl Into<Str>) {
        self.set("AbleToScale", is_true, reason, message.into());
    }

    pub(super) fn scaling_active(&mut self, is_true: bool, reason: &'static str, message: impl Into<Str>) {
        self.set("ScalingActive", is_true, reason, message.into());
    }

    pub(super) fn scaling_limited(&mut self, is_true: bool, reason: &'static str, message: impl Into<Str>) {
        self.set("ScalingLimited", is_true, reason, message.into());
    }

    fn set(&mut self, kind: &'static str, is_true: bool, reason: &'static str, message: Str) {
        let status = if is_true { "True" } else { "False" };
        let place = self.list.iter().position(|condition| condition.type_ == kind).unwrap_or_else(|| {
            self.list.push(HorizontalPodAutoscalerCondition { type_: kind.into(), ..Default::default() });
            self.list.len() - 1
        });
        let condition = &mut self.list[place];
        if condition.status != status {
            condition.last_transition_time = Some(clock::now());
        }
        condition.status = status.into();
        condition.reason = Some(reason.into());
        condition.message = Some(message);
    }
}

pub(super) fn of_resource(source: &ResourceMetricSource, proposal: &Proposal) -> MetricStatus {
    let current = of_pods_average(&source.name, proposal);
    let status = ResourceMetricStatus { name: source.name.clone(), current };
    MetricStatus { type_: "Resource".into(), resource: Some(status.into()), ..MetricStatus::default() }
}

pub(super) fn of_container_resource(source: &ContainerResourceMetricSource, proposal: &Proposal) -> MetricStatus {
    let current = of_pods_average(&source.name, proposal);
    let (name, container) = (source.name.clone(), source.container.clone());
    let status = ContainerResourceMetricStatus { name, container, current };
    let container_resource = Some(status.into());
    MetricStatus { type_: "ContainerResource".into(), container_resource, ..MetricStatus::default() }
}

pub(super) fn of_pods(source: &PodsMetricSource, proposal: &Proposal) -> MetricStatus {
    let current = of_pods_average("", proposal);
    let status = PodsMetricStatus { metric: source.metric.clone(), current };
    MetricStatus { type_: "Pods".into(), pods: Some(status.into()), ..MetricStatus::default() }
}

pub(super) fn of_object(source: &ObjectMetricSource, proposal: &Proposal) -> MetricStatus {
    let status = ObjectMetricStatus {
        metric: source.metric.clone(),
        current: of_value(&source.target, proposal),
        described_object: source.described_object.clone(),
    };
    MetricStatus { type_: "Object".into(), object: Some(status.into()), ..MetricStatus::default() }
}

pub(super) fn of_external(source: &ExternalMetricSource, proposal: &Proposal) -> MetricStatus {
    let current = of_value(&source.target, proposal);
    let status = ExternalMetricStatus { metric: source.metric.clone(), current };
    MetricStatus { type_: "External".into(), external: Some(status.into()), ..MetricStatus::default() }
}

/// The average usage of the pods. Memory is printed in powers of two, as by metrics-server.
fn of_pods_average(resource: &str, proposal: &Proposal) -> MetricValueStatus {
    let average = Quantity::from_scaled(proposal.usage, -3);
    let average = if resource == "memory" { average.with_format(QuantityFormat::BinarySi) } else { average };
    let average_utilization = proposal.utilization;
    MetricValueStatus { average_value: Some(average), average_utilization, ..MetricValueStatus::default() }
}

/// The current value, or the share of each replica, as the target states it.
fn of_value(target: &MetricTarget, proposal: &Proposal) -> MetricValueStatus {
    let value = Some(Quantity::from_scaled(proposal.usage, -3));
    if target.average_value.is_some() {
        MetricValueStatus { average_value: value, ..MetricValueStatus::default() }
    } else {
        MetricValueStatus { value, ..MetricValueStatus::default() }
    }
}
