//! Validates HorizontalPodAutoscalers: scale target, metrics and behavior.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_label;
use kubewright_core::{Quantity, Value, tree};

use super::metadata::{path_segment, quoted};
use super::{container, number, text};

/// Maximum `periodSeconds` of a scaling policy.
const PERIOD_MAX: i64 = 1800;
/// Maximum `stabilizationWindowSeconds`.
const WINDOW_MAX: i64 = 3600;
/// Metric source types and their fields, in the order of validation.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

/// Validates a HorizontalPodAutoscaler. Scaling to zero stays allowed if `old` had it.
pub(super) fn autoscaler(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let least = tree::int(value, &["spec", "minReplicas"]);
    let most = tree::int(value, &["spec", "maxReplicas"]).unwrap_or_default();
    let bound = if old.and_then(|old| tree::int(old, &["spec", "minReplicas"])) == Some(0) { 0 } else { 1 };
    if let Some(least) = least.filter(|least| *least < bound) {
        let why = format!("must be greater than or equal to {bound}");
        causes.push(StatusCause::invalid("spec.minReplicas", least, &why));
    }
    if most < 1 {
        causes.push(StatusCause::invalid("spec.maxReplicas", most, "must be greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        causes.push(StatusCause::invalid("spec.maxReplicas", most, why));
    }
    let nothing = Value::default();
    let target = tree::get(value, &["spec", "scaleTargetRef"]).unwrap_or(&nothing);
    causes.extend(reference("spec.scaleTargetRef", target));
    let metrics = tree::items(value, &["spec", "metrics"]);
    for (index, metric) in metrics.iter().enumerate() {
        causes.extend(self::metric(&format!("spec.metrics[{index}]"), metric));
    }
    let is_object_or_external = |metric: &Value| matches!(tree::text(metric, &["type"]), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(is_object_or_external) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(StatusCause::forbidden("spec.metrics", why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = tree::get(value, &["spec", "behavior", direction]).into_iter();
        causes.extend(rules.flat_map(|rules| self::rules(&format!("spec.behavior.{direction}"), rules)));
    }
    causes
}

/// Validates the status of a HorizontalPodAutoscaler.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let counts = ["currentReplicas", "desiredReplicas"];
    counts.into_iter().filter_map(|field| number::not_negative(value, &["status", field])).collect()
}

fn reference(field: &str, target: &Value) -> Vec<StatusCause> {
    let parts = ["kind", "name"].into_iter();
    parts
        .flat_map(|part| text::required(&format!("{field}.{part}"), tree::text(target, &[part]), path_segment))
        .collect()
}

fn rules(field: &str, rules: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if let Some(window) = tree::int(rules, &["stabilizationWindowSeconds"]) {
        let mut complain = |why: &str| {
            causes.push(StatusCause::invalid(format!("{field}.stabilizationWindowSeconds"), window, why));
        };
        if window < 0 {
            complain("must be greater than or equal to zero");
        }
        if window > WINDOW_MAX {
            complain(&format!("must be less than or equal to {WINDOW_MAX}"));
        }
    }
    let select = rules.get("selectPolicy");
    causes.extend(text::optional_choice(&format!("{field}.selectPolicy"), select, &["Disabled", "Max", "Min"]));
    if let Some(tolerance) = amount(rules, "tolerance").filter(|tolerance| tolerance.signum() < 0) {
        let why = "must be greater or equal to zero";
        causes.push(StatusCause::invalid(format!("{field}.tolerance"), quoted(&tolerance.to_string()), why));
    }
    let policies = tree::items(rules, &["policies"]);
    if policies.is_empty() {
        causes.push(StatusCause::required(format!("{field}.policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let field = format!("{field}.policies[{index}]");
        causes.extend(number::one_of(format!("{field}.type"), tree::text(policy, &["type"]), &["Percent", "Pods"]));
        for part in ["value", "periodSeconds"] {
            let number = tree::int(policy, &[part]).unwrap_or_default();
            if number <= 0 {
                causes.push(StatusCause::invalid(format!("{field}.{part}"), number, "must be greater than zero"));
            } else if part == "periodSeconds" && number > PERIOD_MAX {
                let why = format!("must be less than or equal to {PERIOD_MAX}");
                causes.push(StatusCause::invalid(format!("{field}.{part}"), number, &why));
            }
        }
    }
    causes
}

fn metric(field: &str, metric: &Value) -> Vec<StatusCause> {
    const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = tree::text(metric, &["type"]);
    let mut causes = Vec::new();
    let kind_field = format!("{field}.type");
    if kind.is_empty() {
        causes.push(StatusCause::required(kind_field.as_str(), "must specify a metric source type"));
    }
    causes.extend(number::one_of(kind_field.as_str(), kind, &TYPES));
    let present: Vec<&str> = SOURCES.iter().map(|(_, name)| *name).filter(|name| metric.get(name).is_some()).collect();
    if let Some((name, source)) = present.first().and_then(|name| Some((*name, metric.get(name)?))) {
        causes.extend(self::source(&format!("{field}.{name}"), name, source));
    }
    let wanted = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    match wanted {
        Some(name) if metric.get(name).is_none() => {
            let why = "must populate information for the given metric source";
            causes.push(StatusCause::required(format!("{field}.{name}"), why));
        }
        Some(_) => {}
        None => causes.extend(number::one_of(kind_field, kind, &TYPES)),
    }
    if present.len() != 1 {
        let why = "must populate the given metric source only";
        let others = present.into_iter().filter(|name| Some(*name) != wanted);
        causes.extend(others.map(|name| StatusCause::forbidden(format!("{field}.{name}"), why)));
    }
    causes
}

fn source(field: &str, kind: &str, source: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let target = source.get("target").unwrap_or(&nothing);
    let has = |part: &str| target.get(part).is_some();
    let need = |part: &str, why: &str| StatusCause::required(format!("{field}.target.{part}"), why);
    let mut causes = Vec::new();
    if kind == "object" {
        let described = source.get("describedObject").unwrap_or(&nothing);
        causes.extend(reference(&format!("{field}.describedObject"), described));
    }
    let name_field = format!("{field}.name");
    match kind {
        "resource" | "containerResource" => match tree::text(source, &["name"]) {
            "" => causes.push(StatusCause::required(name_field, "must specify a resource name")),
            name if kind == "containerResource" => causes.extend(container::resource_name(&name_field, name)),
            _ => {}
        },
        _ => match tree::text(source, &["metric", "name"]) {
            "" => causes.push(StatusCause::required(format!("{field}.metric.name"), "must specify a metric name")),
            name => causes.extend(text::check(&format!("{field}.metric.name"), name, path_segment)),
        },
    }
    if kind == "containerResource" {
        match tree::text(source, &["container"]) {
            "" => causes.push(StatusCause::required(format!("{field}.container"), "must specify a container")),
            name => causes.extend(text::check(&format!("{field}.container"), name, dns1123_label)),
        }
    }
    causes.extend(self::target(&format!("{field}.target"), target));
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            causes.push(need("averageValue", "must set either a target value or averageValue"));
        }
        "external" if !has("value") && !has("averageValue") => {
            causes.push(need("averageValue", "must set either a target value for metric or a per-pod target"));
        }
        "external" if has("value") && has("averageValue") => {
            let why = "may not set both a target value for metric and a per-pod target";
            causes.push(StatusCause::forbidden(format!("{field}.target.value"), why));
        }
        "pods" if !has("averageValue") => {
            causes.push(need("averageValue", "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            causes.push(need("averageUtilization", "must set either a target raw value or a target utilization"));
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            let why = "may not set both a target raw value and a target utilization";
            causes.push(StatusCause::forbidden(format!("{field}.target.averageValue"), why));
        }
        _ => {}
    }
    causes
}

fn target(field: &str, target: &Value) -> Vec<StatusCause> {
    let kind = tree::text(target, &["type"]);
    let mut causes = Vec::new();
    if kind.is_empty() {
        causes.push(StatusCause::required(format!("{field}.type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let why = "must be either Utilization, Value, or AverageValue";
        causes.push(StatusCause::invalid(format!("{field}.type"), quoted(kind), why));
    }
    for part in ["value", "averageValue"] {
        if let Some(amount) = amount(target, part).filter(|amount| amount.signum() <= 0) {
            let shown = quoted(&amount.to_string());
            causes.push(StatusCause::invalid(format!("{field}.{part}"), shown, "must be positive"));
        }
    }
    if let Some(share) = tree::int(target, &["averageUtilization"]).filter(|share| *share < 1) {
        causes.push(StatusCause::invalid(format!("{field}.averageUtilization"), share, "must be greater than 0"));
    }
    causes
}

fn amount(value: &Value, part: &str) -> Option<Quantity> {
    value.get(part)?.as_str()?.parse().ok()
}
