//! Defaults of workloads and autoscalers.

use kubewright_core::Value;
use kubewright_core::tree::{self, Meta};

use super::pod;

/// Sets the defaults of a Deployment.
pub(super) fn deployment(value: &mut Value) {
    pod::template(value);
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "replicas", 1);
    tree::default(spec, "progressDeadlineSeconds", 600);
    tree::default(spec, "revisionHistoryLimit", 10);
    tree::default(spec, "strategy", tree::map([]));
    if let Some(strategy) = tree::field_mut(spec, "strategy") {
        tree::default_zero(strategy, "type", "RollingUpdate");
        rolling_update(strategy, "25%", "25%");
    }
}

/// Sets the defaults of a rolling update.
fn rolling_update(strategy: &mut Value, unavailable: impl Into<Value>, surge: impl Into<Value>) {
    if tree::text(strategy, &["type"]) != "RollingUpdate" {
        return;
    }
    tree::object_mut(strategy, &["rollingUpdate"]);
    if let Some(update) = tree::field_mut(strategy, "rollingUpdate") {
        tree::default(update, "maxUnavailable", unavailable);
        tree::default(update, "maxSurge", surge);
    }
}

/// Sets the defaults of a ReplicaSet.
pub(super) fn replica_set(value: &mut Value) {
    pod::template(value);
    if let Some(spec) = tree::field_mut(value, "spec") {
        tree::default(spec, "replicas", 1);
    }
}

/// Sets the defaults of a ReplicationController. Selector and labels default to the template's
/// labels.
pub(super) fn replication_controller(value: &mut Value) {
    pod::template(value);
    let labels = tree::get(value, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels {
        if value.meta("labels").is_none() {
            value.set_meta("labels", labels.clone());
        }
        if let Some(spec) = tree::field_mut(value, "spec") {
            tree::default(spec, "selector", labels);
        }
    }
    if let Some(spec) = tree::field_mut(value, "spec") {
        tree::default(spec, "replicas", 1);
    }
}

/// Sets the defaults of a StatefulSet.
pub(super) fn stateful_set(value: &mut Value) {
    pod::template(value);
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "replicas", 1);
    tree::default(spec, "revisionHistoryLimit", 10);
    tree::default_zero(spec, "podManagementPolicy", "OrderedReady");
    let policy = tree::object_mut(spec, &["persistentVolumeClaimRetentionPolicy"]);
    for when in ["whenDeleted", "whenScaled"] {
        if policy.get(when).and_then(Value::as_str).unwrap_or_default().is_empty() {
            policy.insert(when, "Retain".into());
        }
    }
    tree::default(spec, "updateStrategy", tree::map([]));
    if let Some(strategy) = tree::field_mut(spec, "updateStrategy") {
        tree::default_zero(strategy, "type", "RollingUpdate");
        if tree::text(strategy, &["type"]) == "RollingUpdate" {
            tree::object_mut(strategy, &["rollingUpdate"]);
            if let Some(update) = tree::field_mut(strategy, "rollingUpdate") {
                tree::default(update, "partition", 0);
            }
        }
    }
    for claim in tree::items_mut(spec, "volumeClaimTemplates") {
        super::storage::claim(claim);
        tree::default(claim, "kind", "PersistentVolumeClaim");
        tree::default(claim, "apiVersion", "v1");
    }
}

/// Sets the defaults of a DaemonSet.
pub(super) fn daemon_set(value: &mut Value) {
    pod::template(value);
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "revisionHistoryLimit", 10);
    tree::default(spec, "updateStrategy", tree::map([]));
    if let Some(strategy) = tree::field_mut(spec, "updateStrategy") {
        tree::default_zero(strategy, "type", "RollingUpdate");
        rolling_update(strategy, 1, 0);
    }
}

/// Sets the defaults of a Job.
pub(super) fn job(value: &mut Value) {
    pod::template(value);
    if let Some(spec) = tree::field_mut(value, "spec") {
        job_spec(spec);
    }
}

/// Copies the labels of the template to a Job without labels.
pub(super) fn job_labels(value: &mut Value) {
    let labels = tree::get(value, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(|_| value.meta("labels").is_none()) {
        value.set_meta("labels", labels);
    }
}

fn job_spec(spec: &mut Value) {
    if tree::get(spec, &["completions"]).is_none() && tree::get(spec, &["parallelism"]).is_none() {
        tree::set(spec, &["completions"], 1);
        tree::set(spec, &["parallelism"], 1);
    }
    tree::default(spec, "parallelism", 1);
    let is_per_index = tree::get(spec, &["backoffLimitPerIndex"]).is_some();
    tree::default(spec, "backoffLimit", if is_per_index { i64::from(i32::MAX) } else { 6 });
    tree::default(spec, "completionMode", "NonIndexed");
    tree::default(spec, "suspend", false);
    tree::default(spec, "manualSelector", false);
    let has_policy = tree::get(spec, &["podFailurePolicy"]).is_some();
    tree::default(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
}

/// Sets the defaults of a CronJob.
pub(super) fn cron_job(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default_zero(spec, "concurrencyPolicy", "Allow");
    tree::default(spec, "suspend", false);
    tree::default(spec, "successfulJobsHistoryLimit", 3);
    tree::default(spec, "failedJobsHistoryLimit", 1);
    if let Some(template) = tree::field_mut(spec, "jobTemplate") {
        pod::template(template);
    }
}

/// Sets the defaults of a HorizontalPodAutoscaler.
pub(super) fn autoscaler(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "minReplicas", 1);
    if tree::items(spec, &["metrics"]).is_empty() {
        let target = tree::map([("type", "Utilization".into()), ("averageUtilization", 80.into())]);
        let resource = tree::map([("name", "cpu".into()), ("target", target)]);
        let metric = tree::map([("type", "Resource".into()), ("resource", resource)]);
        tree::set(spec, &["metrics"], Value::from(vec![metric]));
    }
    if let Some(behavior) = tree::field_mut(spec, "behavior") {
        let policy = |kind: &str, amount: i64| {
            tree::map([("type", kind.into()), ("value", amount.into()), ("periodSeconds", 15.into())])
        };
        let up = vec![policy("Pods", 4), policy("Percent", 100)];
        for (direction, policies) in [("scaleUp", up), ("scaleDown", vec![policy("Percent", 100)])] {
            tree::object_mut(behavior, &[direction]);
            let Some(rules) = tree::field_mut(behavior, direction) else { continue };
            tree::default(rules, "selectPolicy", "Max");
            tree::default(rules, "policies", Value::from(policies));
            if direction == "scaleUp" {
                tree::default(rules, "stabilizationWindowSeconds", 0);
            }
        }
    }
}
