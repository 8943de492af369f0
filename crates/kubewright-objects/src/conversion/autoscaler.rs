//! Converts HorizontalPodAutoscalers between autoscaling/v2 and v1.
//!
//! v1 has a single metric, the CPU utilization. All other fields are kept in annotations, as JSON
//! in v1 notation. So reading an autoscaler in v1 and writing it back loses nothing.

use kubewright_core::{Str, Value};

use crate::object::{to_json, tree};
use kubewright_resources::catalog;
use kubewright_resources::decoding::{self, ExpectedType};

/// A metric type, its field, and its properties as pairs of v1 name and v2 path. `@` stands for
/// `target` or `current`.
type MetricFields = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const KINDS: [MetricFields; 5] = [
    (
        "Resource",
        "resource",
        &[("name", "name"), ("@AverageUtilization", "@.averageUtilization"), ("@AverageValue", "@.averageValue")],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", "name"),
            ("container", "container"),
            ("@AverageUtilization", "@.averageUtilization"),
            ("@AverageValue", "@.averageValue"),
        ],
    ),
    (
        "Pods",
        "pods",
        &[("metricName", "metric.name"), ("selector", "metric.selector"), ("@AverageValue", "@.averageValue")],
    ),
    (
        "Object",
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("selector", "metric.selector"),
            ("@Value", "@.value"),
            ("averageValue", "@.averageValue"),
        ],
    ),
    (
        "External",
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("@Value", "@.value"),
            ("@AverageValue", "@.averageValue"),
        ],
    ),
];

/// A list of metrics, and the v1 field for the CPU utilization.
struct Metrics {
    list: [&'static str; 2],
    number: [&'static str; 2],
    /// The annotation for all other metrics.
    annotation: &'static str,
    /// `target` or `current`.
    part: &'static str,
}

const BOTH: [Metrics; 2] = [
    Metrics {
        list: ["spec", "metrics"],
        number: ["spec", "targetCPUUtilizationPercentage"],
        annotation: "autoscaling.alpha.kubernetes.io/metrics",
        part: "target",
    },
    Metrics {
        list: ["status", "currentMetrics"],
        number: ["status", "currentCPUUtilizationPercentage"],
        annotation: "autoscaling.alpha.kubernetes.io/current-metrics",
        part: "current",
    },
];

/// Other fields that v1 lacks, and their annotations.
const OTHERS: [([&str; 2], &str); 2] = [
    (["status", "conditions"], "autoscaling.alpha.kubernetes.io/conditions"),
    (["spec", "behavior"], "autoscaling.alpha.kubernetes.io/behavior"),
];

/// Converts from v2 to v1.
pub(super) fn to_v1(value: &mut Value) {
    BOTH.iter().for_each(|metrics| metrics.take_out(value));
    for (path, annotation) in OTHERS {
        if let Some(field) = tree::remove(value, &path) {
            annotate(value, annotation, &field);
        }
    }
}

/// Converts from v1 to v2. Annotations that do not result in a valid object are ignored.
pub(super) fn from_v1(value: &mut Value) {
    let mut whole = value.clone();
    restore(&mut whole);
    if !is_proper(&whole) {
        whole = value.clone();
        for annotation in BOTH.iter().map(|metrics| metrics.annotation).chain(OTHERS.map(|(_, annotation)| annotation))
        {
            tree::remove(&mut whole, &["metadata", "annotations", annotation]);
        }
        restore(&mut whole);
    }
    *value = whole;
}

/// Whether the value is a valid v2 object without unknown fields.
fn is_proper(value: &Value) -> bool {
    let (api_version, kind) = ("autoscaling/v2", "HorizontalPodAutoscaler");
    let entry = catalog::type_entry(api_version, kind);
    let expected = ExpectedType { api_version, kind, entry, schema: None, keeps_null: false };
    let mut value = value.clone();
    tree::set(&mut value, &["apiVersion"], api_version);
    tree::set(&mut value, &["kind"], kind);
    decoding::normalize(expected, &value).is_ok_and(|decoded| decoded.findings.is_empty())
}

fn restore(value: &mut Value) {
    BOTH.iter().for_each(|metrics| metrics.put_in(value));
    for (path, annotation) in OTHERS {
        if let Some(field) = annotated(value, annotation) {
            tree::set(value, &path, field);
        }
    }
    // Do not leave an empty map behind.
    if tree::get(value, &["metadata", "annotations"]).and_then(Value::as_object).is_some_and(|all| all.is_empty()) {
        tree::remove(value, &["metadata", "annotations"]);
    }
}

impl Metrics {
    fn take_out(&self, value: &mut Value) {
        let metrics = tree::remove(value, &self.list).unwrap_or_default();
        let utilization = |metric: &Value| {
            let is_cpu = tree::text(metric, &["resource", "name"]) == "cpu";
            tree::int(metric, &["resource", self.part, "averageUtilization"]).filter(|_| is_cpu)
        };
        let mut others = Vec::new();
        let mut found = None;
        for metric in metrics.as_array().map_or(&[][..], |list| &list[..]) {
            match utilization(metric) {
                Some(percent) if found.is_none() => found = Some(percent),
                _ => others.extend(self.older(metric)),
            }
        }
        if let Some(percent) = found {
            tree::set(value, &self.number, percent);
        }
        if !others.is_empty() {
            annotate(value, self.annotation, &Value::from(others));
        }
    }

    fn put_in(&self, value: &mut Value) {
        let mut metrics = Vec::new();
        if let Some(percent) = tree::remove(value, &self.number) {
            let old = Value::Object(
                [("name", "cpu".into()), (&*self.name("@AverageUtilization"), percent)].into_iter().collect(),
            );
            metrics.extend(self.newer(&tree::map([("type", "Resource".into()), ("resource", old)])));
        }
        let others = annotated(value, self.annotation).unwrap_or_default();
        metrics.extend(others.as_array().map_or(&[][..], |list| &list[..]).iter().filter_map(|old| self.newer(old)));
        if !metrics.is_empty() {
            tree::set(value, &self.list, Value::from(metrics));
        }
    }

    fn name(&self, pattern: &str) -> String {
        pattern.replace('@', self.part)
    }

    /// A metric in v1 notation.
    fn older(&self, metric: &Value) -> Option<Value> {
        let (name, part, fields) = KINDS.iter().find(|(name, ..)| *name == tree::text(metric, &["type"]))?;
        let (mut old, source) = (Value::default(), metric.get(part)?);
        for (field, path) in *fields {
            let path = self.name(path);
            if let Some(found) = tree::get(source, &path.split('.').collect::<Vec<_>>()) {
                tree::set(&mut old, &[&self.name(field)], found.clone());
            }
        }
        Some(tree::map([("type", (*name).into()), (part, old)]))
    }

    /// A metric in v2 notation.
    fn newer(&self, old: &Value) -> Option<Value> {
        let (name, part, fields) = KINDS.iter().find(|(name, ..)| *name == tree::text(old, &["type"]))?;
        let (mut metric, source) = (Value::default(), old.get(part)?);
        for (field, path) in *fields {
            let path = self.name(path);
            if let Some(found) = source.get(&self.name(field)) {
                tree::set(&mut metric, &path.split('.').collect::<Vec<_>>(), found.clone());
            }
        }
        let kinds = [("averageUtilization", "Utilization"), ("averageValue", "AverageValue"), ("value", "Value")];
        if let Some((_, kind)) = kinds.iter().find(|(field, _)| tree::get(&metric, &["target", field]).is_some()) {
            tree::set(&mut metric, &["target", "type"], *kind);
        }
        Some(tree::map([("type", (*name).into()), (part, metric)]))
    }
}

fn annotate(value: &mut Value, name: &str, content: &Value) {
    let text = String::from_utf8_lossy(&to_json(content)).into_owned();
    tree::set(value, &["metadata", "annotations", name], text);
}

/// Removes an annotation and returns its JSON. An invalid one stays.
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
    fn a_round_trip_through_v1_loses_nothing() {
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
        let metrics = tree::text(&value, &["metadata", "annotations", BOTH[0].annotation]);
        assert!(
            metrics.starts_with(r#"[{"resource":{"name":"memory","targetAverageValue":"1Gi"},"type":"Resource"}"#),
            "{metrics}"
        );
        from_v1(&mut value);
        assert_eq!(value, stored);
    }

    #[test]
    fn invalid_annotations_are_ignored() {
        for behavior in [r#"{\"scaleUp\":{\"stabilizationWindowSeconds\":\"x\"}}"#, r#"{\"bogus\":1}"#] {
            let text = format!(
                r#"{{"metadata":{{"annotations":{{"autoscaling.alpha.kubernetes.io/behavior":"{behavior}"}}}},
                "spec":{{"maxReplicas":3,"targetCPUUtilizationPercentage":70}}}}"#
            );
            let mut value: Value = text.parse().expect("valid JSON");
            from_v1(&mut value);
            assert_eq!(tree::items(&value, &["spec", "metrics"]).len(), 1, "{value}");
            assert!(tree::get(&value, &["spec", "behavior"]).is_none(), "{value}");
        }
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
