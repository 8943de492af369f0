//! Autoscalers in their first version, which knows one metric: how busy processors are.
//!
//! What it has no field for goes into annotations, as JSON in the words of that version, so that who reads an autoscaler and writes it back
//! loses nothing.

use kubewright_core::{Str, Value};

use crate::object::{to_json, tree};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// A field of a metric: its name in the first version, and the path to it in the second.
type Field = (&'static str, &'static [&'static str]);

/// Kinds of metrics: their types, the names of their fields, and what they want.
const WANTED: [(&str, &str, &[Field]); 5] = [
    (
        "Resource",
        "resource",
        &[
            ("name", &["name"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", &["name"]),
            ("container", &["container"]),
            ("targetAverageUtilization", &["target", "averageUtilization"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "Pods",
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "Object",
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("averageValue", &["target", "averageValue"]),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("targetValue", &["target", "value"]),
            ("targetAverageValue", &["target", "averageValue"]),
        ],
    ),
];

/// What they have, likewise.
const CURRENT: [(&str, &str, &[Field]); 5] = [
    (
        "Resource",
        "resource",
        &[
            ("name", &["name"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", &["name"]),
            ("container", &["container"]),
            ("currentAverageUtilization", &["current", "averageUtilization"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "Pods",
        "pods",
        &[
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "Object",
        "object",
        &[
            ("target", &["describedObject"]),
            ("metricName", &["metric", "name"]),
            ("selector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("averageValue", &["current", "averageValue"]),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", &["metric", "name"]),
            ("metricSelector", &["metric", "selector"]),
            ("currentValue", &["current", "value"]),
            ("currentAverageValue", &["current", "averageValue"]),
        ],
    ),
];

/// From the version that is stored to the first one.
pub(super) fn to_v1(value: &mut Value) {
    let plain =
        Plain { list: &["spec", "metrics"], number: &["spec", "targetCPUUtilizationPercentage"], part: "target" };
    plain.take_out(value, METRICS, &WANTED);
    let plain = Plain {
        list: &["status", "currentMetrics"],
        number: &["status", "currentCPUUtilizationPercentage"],
        part: "current",
    };
    plain.take_out(value, CURRENT_METRICS, &CURRENT);
    for (path, annotation) in [(&["status", "conditions"], CONDITIONS), (&["spec", "behavior"], BEHAVIOR)] {
        if let Some(field) = tree::remove(value, path) {
            annotate(value, annotation, &field);
        }
    }
}

/// From the first version to the one that is stored.
pub(super) fn from_v1(value: &mut Value) {
    let plain =
        Plain { list: &["spec", "metrics"], number: &["spec", "targetCPUUtilizationPercentage"], part: "target" };
    plain.put_in(value, METRICS, &WANTED);
    let plain = Plain {
        list: &["status", "currentMetrics"],
        number: &["status", "currentCPUUtilizationPercentage"],
        part: "current",
    };
    plain.put_in(value, CURRENT_METRICS, &CURRENT);
    for (path, annotation) in [(&["status", "conditions"], CONDITIONS), (&["spec", "behavior"], BEHAVIOR)] {
        if let Some(field) = annotated(value, annotation) {
            tree::set(value, path, field);
        }
    }
    // Who had no annotations has none afterwards.
    if tree::get(value, &["metadata", "annotations"]).and_then(Value::as_object).is_some_and(|all| all.is_empty()) {
        tree::remove(value, &["metadata", "annotations"]);
    }
}

/// A list of metrics, and the one of them that the first version has a field for.
struct Plain {
    list: &'static [&'static str],
    number: &'static [&'static str],
    /// What holds the number in a metric.
    part: &'static str,
}

impl Plain {
    fn take_out(&self, value: &mut Value, annotation: &str, kinds: &[(&str, &str, &[Field])]) {
        let metrics = tree::remove(value, self.list).unwrap_or_default();
        let utilization = |metric: &Value| {
            let is_cpu = tree::text(metric, &["resource", "name"]) == "cpu";
            tree::int(metric, &["resource", self.part, "averageUtilization"]).filter(|_| is_cpu)
        };
        let mut others = Vec::new();
        let mut found = None;
        for metric in metrics.as_array().map_or(&[][..], |list| &list[..]) {
            match utilization(metric) {
                Some(percent) if found.is_none() => found = Some(percent),
                _ => others.extend(older(metric, kinds)),
            }
        }
        if let Some(percent) = found {
            tree::set(value, self.number, percent);
        }
        if !others.is_empty() {
            annotate(value, annotation, &Value::from(others));
        }
    }

    fn put_in(&self, value: &mut Value, annotation: &str, kinds: &[(&str, &str, &[Field])]) {
        let mut metrics = Vec::new();
        if let Some(percent) = tree::remove(value, self.number) {
            let mut amount = tree::map([("averageUtilization", percent)]);
            if self.part == "target" {
                tree::set(&mut amount, &["type"], "Utilization");
            }
            let resource = tree::map([("name", "cpu".into()), (self.part, amount)]);
            metrics.push(tree::map([("type", "Resource".into()), ("resource", resource)]));
        }
        let others = annotated(value, annotation).unwrap_or_default();
        metrics.extend(others.as_array().map_or(&[][..], |list| &list[..]).iter().filter_map(|old| newer(old, kinds)));
        if !metrics.is_empty() {
            tree::set(value, self.list, Value::from(metrics));
        }
    }
}

/// A metric in the words of the first version.
fn older(metric: &Value, kinds: &[(&str, &str, &[Field])]) -> Option<Value> {
    let (name, part, fields) = kinds.iter().find(|(name, ..)| *name == tree::text(metric, &["type"]))?;
    let mut old = Value::default();
    let source = metric.get(part)?;
    for (field, path) in *fields {
        if let Some(found) = tree::get(source, path) {
            tree::set(&mut old, &[field], found.clone());
        }
    }
    Some(tree::map([("type", (*name).into()), (part, old)]))
}

/// A metric in the words of the stored version.
fn newer(old: &Value, kinds: &[(&str, &str, &[Field])]) -> Option<Value> {
    let (name, part, fields) = kinds.iter().find(|(name, ..)| *name == tree::text(old, &["type"]))?;
    let mut metric = Value::default();
    let source = old.get(part)?;
    for (field, path) in *fields {
        if let Some(found) = source.get(field) {
            tree::set(&mut metric, path, found.clone());
        }
    }
    let kind = [("averageUtilization", "Utilization"), ("averageValue", "AverageValue"), ("value", "Value")];
    if let Some((_, kind)) = kind.iter().find(|(field, _)| tree::get(&metric, &["target", field]).is_some()) {
        tree::set(&mut metric, &["target", "type"], *kind);
    }
    Some(tree::map([("type", (*name).into()), (part, metric)]))
}

fn annotate(value: &mut Value, name: &str, content: &Value) {
    let text = String::from_utf8_lossy(&to_json(content)).into_owned();
    tree::set(value, &["metadata", "annotations", name], text);
}

/// What an annotation holds, which is taken away. One that cannot be read stays.
fn annotated(value: &mut Value, name: &str) -> Option<Value> {
    let text: Str = tree::get(value, &["metadata", "annotations", name])?.as_str()?.into();
    let content = Value::from_json(text.as_bytes()).ok()?;
    tree::remove(value, &["metadata", "annotations", name]);
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_on_the_way_through_the_first_version() {
        let stored: Value = r#"{"metadata":{"name":"a"},
            "spec":{"maxReplicas":3,"behavior":{"scaleDown":{"stabilizationWindowSeconds":60}},"metrics":[
              {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}},
              {"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}},
              {"type":"ContainerResource","containerResource":{"name":"cpu","container":"c","target":{"type":"Utilization","averageUtilization":50}}},
              {"type":"Pods","pods":{"metric":{"name":"rps","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"10"}}},
              {"type":"Object","object":{"describedObject":{"kind":"Service","name":"s"},"metric":{"name":"hits"},"target":{"type":"Value","value":"2k"}}},
              {"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"30"}}}]},
            "status":{"conditions":[{"type":"AbleToScale","status":"True"}],"currentMetrics":[
              {"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":65}}},
              {"type":"Pods","pods":{"metric":{"name":"rps"},"current":{"averageValue":"9"}}}]}}"#
            .parse()
            .expect("valid JSON");
        let mut value = stored.clone();
        to_v1(&mut value);
        assert_eq!(tree::int(&value, &["spec", "targetCPUUtilizationPercentage"]), Some(70));
        assert_eq!(tree::int(&value, &["status", "currentCPUUtilizationPercentage"]), Some(65));
        assert!(
            tree::get(&value, &["spec", "metrics"]).is_none() && tree::get(&value, &["spec", "behavior"]).is_none()
        );
        let metrics = tree::text(&value, &["metadata", "annotations", METRICS]);
        assert!(
            metrics.starts_with(r#"[{"resource":{"name":"memory","targetAverageValue":"1Gi"},"type":"Resource"}"#),
            "{metrics}"
        );
        from_v1(&mut value);
        assert_eq!(value, stored);
    }

    #[test]
    fn an_annotation_that_cannot_be_read_stays() {
        let stored: Value = r#"{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"{"}},"spec":{}}"#
            .parse()
            .expect("valid JSON");
        let mut value = stored.clone();
        from_v1(&mut value);
        assert_eq!(value, stored);
    }
}
