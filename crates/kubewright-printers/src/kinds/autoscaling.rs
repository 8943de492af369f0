//! Cells of autoscalers, disruption budgets and scales.

use kubewright_core::{Value, tree};

use crate::object::{PrintedObject, amount, shortened};

/// Number of metrics to show; the rest is counted.
const SHOWN: usize = 2;

/// Name, reference, targets, minimum and maximum pods, replicas, age.
pub(super) fn horizontal_pod_autoscaler(object: &PrintedObject<'_>) -> Vec<Value> {
    let target = |key| object.text(&["spec", "scaleTargetRef", key]);
    vec![
        object.name(),
        format!("{}/{}", target("kind"), target("name")).into(),
        targets(object).into(),
        match object.at(&["spec", "minReplicas"]) {
            Some(least) => amount(Some(least)).into(),
            None => Value::from("<unset>"),
        },
        object.number(&["spec", "maxReplicas"]).into(),
        object.number(&["status", "currentReplicas"]).into(),
        object.age(),
    ]
}

fn targets(object: &PrintedObject<'_>) -> String {
    // autoscaling/v1 has dedicated fields for its only metric.
    if let Some(target) = object.at(&["spec", "targetCPUUtilizationPercentage"]) {
        let current = object.at(&["status", "currentCPUUtilizationPercentage"]);
        return format!("cpu: {}/{target}%", percent(current, "<unknown>"));
    }
    let statuses = object.items(&["status", "currentMetrics"]);
    let metrics = object.items(&["spec", "metrics"]).iter().enumerate();
    let metrics: Vec<String> = metrics.map(|(index, metric)| target_of(metric, statuses.get(index))).collect();
    if metrics.is_empty() { "<none>".to_owned() } else { shortened(&metrics, SHOWN, ", ") }
}

/// One metric in the form `current/target`.
fn target_of(metric: &Value, status: Option<&Value>) -> String {
    let source = match tree::text(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |key: &str| tree::get(metric, &[source, "target", key]);
    let status = status.and_then(|status| tree::get(status, &[source]));
    let current = |key: &str| status.and_then(|status| tree::get(status, &["current", key]));
    // With a status, Go prints a missing value as `<nil>`.
    let nothing = if status.is_some() { "<nil>" } else { "<unknown>" };
    let shown = |value: Option<&Value>, nothing: &str| match value {
        Some(value) => amount(Some(value)),
        None => nothing.to_owned(),
    };
    let known = |value: Option<&Value>| shown(value, nothing);
    let average = target("averageValue");
    match (source, average) {
        ("resource" | "containerResource", average) => {
            let name = tree::text(metric, &[source, "name"]);
            match average {
                Some(average) => format!("{name}: {}/{}", known(current("averageValue")), amount(Some(average))),
                None => {
                    let (now, wanted) = (current("averageUtilization"), target("averageUtilization"));
                    format!("{name}: {}/{}", percent(now, "<unknown>"), percent(wanted, "<auto>"))
                }
            }
        }
        ("pods", average) => format!("{}/{}", known(current("averageValue")), amount(average)),
        (_, Some(average)) => {
            format!("{}/{} (avg)", shown(current("averageValue"), "<unknown>"), amount(Some(average)))
        }
        (_, None) => format!("{}/{}", known(current("value")), amount(target("value"))),
    }
}

fn percent(value: Option<&Value>, default: &str) -> String {
    value.map_or_else(|| default.to_owned(), |value| format!("{value}%"))
}

/// Name, minimum available, maximum unavailable, allowed disruptions, age.
pub(super) fn pod_disruption_budget(object: &PrintedObject<'_>) -> Vec<Value> {
    let limit = |key| match object.at(&["spec", key]) {
        Some(limit) => amount(Some(limit)).into(),
        None => Value::from("N/A"),
    };
    vec![
        object.name(),
        limit("minAvailable"),
        limit("maxUnavailable"),
        object.number(&["status", "disruptionsAllowed"]).into(),
        object.age(),
    ]
}

/// The `scale` subresource: name, desired, available, age.
pub(crate) fn scale(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![
        object.name(),
        object.number(&["spec", "replicas"]).into(),
        object.number(&["status", "replicas"]).into(),
        object.age(),
    ]
}
