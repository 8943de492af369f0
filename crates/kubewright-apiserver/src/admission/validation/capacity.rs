//! What may be used of what: ranges of limits, and quotas.

use std::collections::BTreeSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::qualified_name;
use kubewright_core::{Quantity, Str, Value};

use super::metadata::quoted;
use crate::object::tree;

const SCOPES: [&str; 6] =
    ["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"];
/// Objects that quotas count by their own names, in whole numbers.
const COUNTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The amounts at a path, by name.
pub(super) fn amounts(value: &Value, path: &[&str]) -> Vec<(Str, Quantity)> {
    let found = tree::get(value, path).and_then(Value::as_object);
    let entries = found.into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.parse().ok()?))).collect()
}

/// What is wrong with ranges of limits.
pub(super) fn limit_range(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen = Vec::new();
    for (index, limit) in tree::items(value, &["spec", "limits"]).iter().enumerate() {
        let (field, kind) = (format!("spec.limits[{index}]"), tree::text(limit, &["type"]));
        let kind_field = format!("{field}.type");
        causes.extend(
            qualified_name(kind).iter().map(|why| StatusCause::invalid(kind_field.as_str(), quoted(kind), why)),
        );
        let is_standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") || kind.contains('/');
        if !is_standard {
            let why = "must be a standard limit type or fully qualified";
            causes.push(StatusCause::invalid(kind_field.as_str(), quoted(kind), why));
        }
        if seen.contains(&kind) {
            causes.push(StatusCause::duplicate(kind_field, quoted(kind)));
        }
        seen.push(kind);
        if kind == "Pod" {
            for name in ["default", "defaultRequest"] {
                let why = "may not be specified when `type` is 'Pod'";
                causes.extend(limit.get(name).map(|_| StatusCause::forbidden(format!("{field}.{name}"), why)));
            }
        }
        let has_storage = |name: &str| tree::get(limit, &[name, "storage"]).is_some();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            causes.push(StatusCause::required(format!("{field}.limits"), why));
        }
        causes.extend(self::limit(&field, limit));
    }
    causes
}

/// The amounts of a range must be in order: least, default request, default, most.
fn limit(field: &str, limit: &Value) -> Vec<StatusCause> {
    let of = |name: &str| amounts(limit, &[name]);
    let (least, most, default, request) = (of("min"), of("max"), of("default"), of("defaultRequest"));
    let names: BTreeSet<&Str> =
        [&least, &most, &default, &request].into_iter().flatten().map(|(name, _)| name).collect();
    let mut causes = Vec::new();
    for name in names {
        let find =
            |amounts: &[(Str, Quantity)]| amounts.iter().find(|(have, _)| have == name).map(|(_, it)| it.clone());
        let (least, most, default, request) = (find(&least), find(&most), find(&default), find(&request));
        // The place and the value to show, and the two that are in the wrong order, with their names.
        for (place, shown, low, low_name, high, high_name) in [
            ("min", &least, &least, "min value", &most, "max value"),
            ("defaultRequest", &request, &least, "min value", &request, "default request value"),
            ("defaultRequest", &request, &request, "default request value", &most, "max value"),
            ("defaultRequest", &request, &request, "default request value", &default, "default limit value"),
            ("default", &least, &least, "min value", &default, "default value"),
            ("default", &most, &default, "default value", &most, "max value"),
        ] {
            if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
                && low > high
            {
                let why = format!("{low_name} {low} is greater than {high_name} {high}");
                causes.push(StatusCause::invalid(format!("{field}.{place}[{name}]"), quoted(&shown.to_string()), &why));
            }
        }
    }
    for (name, ratio) in amounts(limit, &["maxLimitRequestRatio"]) {
        if ratio < Quantity::from(1i64) {
            let why = format!("ratio {ratio} is less than 1");
            let field = format!("{field}.maxLimitRequestRatio[{name}]");
            causes.push(StatusCause::invalid(field, quoted(&ratio.to_string()), &why));
        }
    }
    causes
}

/// What is wrong with a quota, which counts the same as long as it lives.
pub(super) fn quota(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = counted(value, &["spec", "hard"]);
    causes.extend(scopes(value));
    if let Some(old) = old {
        let set = |value: &Value| tree::items(value, &["spec", "scopes"]).to_vec();
        if set(value) != set(old) {
            let shown = Value::from(set(value));
            causes.push(StatusCause::invalid("spec.scopes", shown, "field is immutable"));
        }
    }
    causes
}

/// What is wrong with the status of a quota.
pub(super) fn quota_status(value: &Value) -> Vec<StatusCause> {
    let mut causes = counted(value, &["status", "hard"]);
    causes.extend(counted(value, &["status", "used"]));
    causes
}

/// Amounts of what a quota can count.
fn counted(value: &Value, path: &[&str]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (name, amount) in amounts(value, path) {
        let field = format!("{}[{name}]", path.join("."));
        let complaints = qualified_name(&name);
        causes.extend(complaints.iter().map(|why| StatusCause::invalid(field.as_str(), quoted(&name), why)));
        if !name.contains('/') && !is_quota_name(&name) {
            for why in ["must be a standard resource type or fully qualified", "must be a standard resource for quota"]
            {
                causes.push(StatusCause::invalid(field.as_str(), quoted(&name), why));
            }
        }
        let shown = quoted(&amount.to_string());
        if amount.signum() < 0 {
            causes.push(StatusCause::invalid(field.as_str(), shown.as_str(), "must be greater than or equal to 0"));
        }
        let is_count = COUNTS.contains(&&*name) || name.starts_with("count/");
        if is_count && amount.milli_value() % 1000 != 0 {
            causes.push(StatusCause::invalid(field.as_str(), shown.as_str(), "must be an integer"));
        }
    }
    causes
}

fn scopes(value: &Value) -> Vec<StatusCause> {
    let listed: Vec<&str> = tree::items(value, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
    let shown = || Value::from(tree::items(value, &["spec", "scopes"]).to_vec());
    let complain = |why: &str| StatusCause::invalid("spec.scopes", shown(), why);
    let mut causes = Vec::new();
    for scope in &listed {
        if !SCOPES.contains(scope) {
            causes.push(complain("unsupported scope"));
            continue;
        }
        // A budget of pods that ask for nothing can only count them.
        let is_about = |name: &Str| match *scope {
            "BestEffort" => name == "pods",
            _ => name == "pods" || matches!(name.rsplit('.').next(), Some("cpu" | "memory")),
        };
        if amounts(value, &["spec", "hard"]).iter().any(|(name, _)| is_quota_name(name) && !is_about(name)) {
            causes.push(complain("unsupported scope applied to resource"));
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]] {
        if pair.iter().all(|one| listed.contains(one)) {
            causes.push(complain("conflicting scopes"));
        }
    }
    causes
}

fn is_quota_name(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    COUNTS.contains(&name)
        || matches!(plain, "cpu" | "memory" | "ephemeral-storage")
        || name == "requests.storage"
        || plain.starts_with("hugepages-")
}
