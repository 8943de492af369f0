//! Validates LimitRanges and ResourceQuotas.

use std::collections::{BTreeSet, HashSet};

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::qualified_name;
use kubewright_core::{Quantity, Str, Value, tree};

use super::container;
use super::metadata::quoted;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Maximum number of causes about scopes: each one prints all scopes.
const SCOPE_CAUSES_MAX: usize = 64;
/// Objects that quotas count by name. Their amounts are integers.
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

/// The resource amounts at a path, sorted by name.
pub(super) fn amounts(value: &Value, path: &[&str]) -> Vec<(Str, Quantity)> {
    let found = tree::get(value, path).and_then(Value::as_object);
    let entries = found.into_iter().flat_map(|entries| entries.iter());
    entries.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.parse().ok()?))).collect()
}

/// Validates a LimitRange.
pub(super) fn limit_range(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
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
        if !seen.insert(kind) {
            causes.push(StatusCause::duplicate(kind_field, quoted(kind)));
        }
        let names = |part: &str| self::names(&format!("{field}.{part}"), &amounts(limit, &[part]), kind);
        causes.extend(["max", "min"].into_iter().flat_map(names));
        for part in ["default", "defaultRequest"] {
            let why = "may not be specified when `type` is 'Pod'";
            match limit.get(part).filter(|_| kind == "Pod") {
                Some(_) => causes.push(StatusCause::forbidden(format!("{field}.{part}"), why)),
                None => causes.extend(names(part)),
            }
        }
        let has_storage = |name: &str| tree::get(limit, &[name, "storage"]).is_some();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            causes.push(StatusCause::required(format!("{field}.limits"), why));
        }
        causes.extend(names("maxLimitRequestRatio"));
        causes.extend(self::limit(&field, limit, kind));
    }
    causes
}

/// Validates the resource names of a limit.
fn names(field: &str, amounts: &[(Str, Quantity)], kind: &str) -> Vec<StatusCause> {
    let rule = match kind {
        "Pod" | "Container" => container::resource_name,
        _ => container::any_resource_name,
    };
    amounts.iter().flat_map(|(name, _)| rule(&format!("{field}[{name}]"), name)).collect()
}

/// Validates that min, default request, default and max are in ascending order.
fn limit(field: &str, limit: &Value, kind: &str) -> Vec<StatusCause> {
    let of = |name: &str| amounts(limit, &[name]);
    let defaults = |name: &str| if kind == "Pod" { Vec::new() } else { of(name) };
    let (least, most) = (of("min"), of("max"));
    let (default, request) = (defaults("default"), defaults("defaultRequest"));
    let ratios = of("maxLimitRequestRatio");
    let names: BTreeSet<&Str> =
        [&least, &most, &default, &request, &ratios].into_iter().flatten().map(|(name, _)| name).collect();
    let mut causes = Vec::new();
    for name in names {
        let find =
            |amounts: &[(Str, Quantity)]| amounts.iter().find(|(have, _)| have == name).map(|(_, it)| it.clone());
        let (least, most, default, request) = (find(&least), find(&most), find(&default), find(&request));
        // Each row is the field to report, its value, and the two amounts (with names) that must be
        // ordered.
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
        if let Some(ratio) = find(&ratios) {
            let field = format!("{field}.maxLimitRequestRatio[{name}]");
            let whys = self::ratio(&ratio, least.as_ref().zip(most.as_ref()));
            let shown = quoted(&ratio.to_string());
            causes.extend(whys.iter().map(|why| StatusCause::invalid(field.as_str(), shown.as_str(), why)));
        }
        // Resources that cannot be overcommitted need equal defaults for request and limit.
        if let (Some(default), Some(request)) = (&default, &request)
            && !container::is_shared(name)
            && default != request
        {
            let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
            let field = format!("{field}.defaultRequest[{name}]");
            causes.push(StatusCause::invalid(field, quoted(&request.to_string()), &why));
        }
    }
    causes
}

/// Validates a `maxLimitRequestRatio` against the min and max of the limit.
fn ratio(ratio: &Quantity, bounds: Option<(&Quantity, &Quantity)>) -> Vec<String> {
    let mut whys = Vec::new();
    if *ratio < Quantity::from(1i64) {
        whys.push(format!("ratio {ratio} is less than 1"));
    }
    if let Some((least, most)) = bounds {
        // Compare in thousandths, unless that would overflow.
        let is_fine = [ratio, least, most].iter().all(|amount| amount.value() < i64::MAX / 1000);
        let count = |amount: &Quantity| if is_fine { amount.milli_value() } else { amount.value() } as f64;
        let (wanted, greatest) = (count(ratio) / if is_fine { 1000.0 } else { 1.0 }, count(most) / count(least));
        if wanted > greatest {
            whys.push(format!("ratio {ratio} is greater than max/min = {greatest:.6}"));
        }
    }
    whys
}

/// Validates a ResourceQuota. Its scopes are immutable.
pub(super) fn quota(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = counted(value, &["spec", "hard"]);
    causes.extend(scopes(value));
    if old.is_some_and(|old| scopes_of(value) != scopes_of(old)) {
        causes.push(StatusCause::invalid("spec.scopes", shown_scopes(value), "field is immutable"));
    }
    causes
}

/// Validates the status of a ResourceQuota.
pub(super) fn quota_status(value: &Value) -> Vec<StatusCause> {
    let mut causes = counted(value, &["status", "hard"]);
    causes.extend(counted(value, &["status", "used"]));
    causes
}

/// Validates the names and amounts of a resource list.
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

fn scopes_of(quota: &Value) -> BTreeSet<&str> {
    tree::items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect()
}

/// The scopes in the form of error messages.
fn shown_scopes(quota: &Value) -> Value {
    tree::get(quota, &["spec", "scopes"]).cloned().unwrap_or_default()
}

/// Validates the scopes and the scope selector of a quota.
fn scopes(value: &Value) -> Vec<StatusCause> {
    const SELECTOR: &str = "spec.scopeSelector.matchExpressions";
    let listed: Vec<&str> = tree::items(value, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
    let complain = |why: &str| StatusCause::invalid("spec.scopes", shown_scopes(value), why);
    let hard = amounts(value, &["spec", "hard"]);
    // Only these three scopes differ in the resources they apply to. Count each one once.
    let misfits = ["BestEffort", "VolumeAttributesClass", ""]
        .map(|scope| hard.iter().filter(|(name, _)| is_quota_name(name) && !is_about(scope, name)).count());
    let misfits = |scope: &str| match scope {
        "BestEffort" => misfits[0],
        "VolumeAttributesClass" => misfits[1],
        _ => misfits[2],
    };
    let mut causes = Vec::new();
    for scope in &listed {
        if causes.len() >= SCOPE_CAUSES_MAX {
            return causes;
        }
        if !SCOPES.contains(scope) {
            causes.push(complain("unsupported scope"));
        }
        let room = SCOPE_CAUSES_MAX.saturating_sub(causes.len());
        causes.extend((0..misfits(scope).min(room)).map(|_| complain("unsupported scope applied to resource")));
    }
    let has_conflict = |scopes: &[&str]| {
        let pairs = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];
        pairs.into_iter().filter(|pair| pair.iter().all(|one| scopes.contains(one))).count()
    };
    causes.extend((0..has_conflict(&listed)).map(|_| complain("conflicting scopes")));
    let expressions = tree::items(value, &["spec", "scopeSelector", "matchExpressions"]);
    let chosen: Vec<&str> = expressions.iter().map(|expression| tree::text(expression, &["scopeName"])).collect();
    for (expression, scope) in expressions.iter().zip(&chosen) {
        if causes.len() >= SCOPE_CAUSES_MAX {
            return causes;
        }
        if !SCOPES.contains(scope) {
            causes.push(StatusCause::invalid(format!("{SELECTOR}.scopeName"), quoted(scope), "unsupported scope"));
        }
        let shown = tree::get(value, &["spec", "scopeSelector"]).unwrap_or(&Value::Null);
        let why = "unsupported scope applied to resource";
        let room = SCOPE_CAUSES_MAX.saturating_sub(causes.len());
        causes.extend((0..misfits(scope).min(room)).map(|_| StatusCause::invalid(SELECTOR, shown, why)));
        causes.extend(scope_expression(SELECTOR, expression, scope));
    }
    let conflict = || StatusCause::invalid(SELECTOR, shown_scopes(value), "conflicting scopes");
    causes.extend((0..has_conflict(&chosen)).map(|_| conflict()));
    causes
}

/// Whether the scope applies to this resource. Best-effort pods can only be counted.
fn is_about(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => name == "pods" || matches!(name.rsplit('.').next(), Some("cpu" | "memory")),
    }
}

fn scope_expression(field: &str, expression: &Value, scope: &str) -> Vec<StatusCause> {
    let (operator, values) = (tree::text(expression, &["operator"]), tree::items(expression, &["values"]));
    let mut causes = Vec::new();
    let mut complain =
        |why: &str| causes.push(StatusCause::invalid(format!("{field}.operator"), quoted(operator), why));
    if !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope) && operator != "Exists" {
        complain(
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            causes.push(StatusCause::required(format!("{field}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.push(StatusCause::invalid(format!("{field}.values"), Value::from(values.to_vec()), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => complain("not a valid selector operator"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use kubewright_testing::{assert_linear, processor_time};

    #[test]
    fn many_scopes_are_checked_against_many_names() {
        assert_linear(500, |count| {
            let expression = r#"{"scopeName":"PriorityClass","operator":"Exists"}"#;
            let expressions = vec![expression; count].join(",");
            let listed = vec!["\"BestEffort\""; count].join(",");
            let name = |number| format!(r#""requests.hugepages-{number}Ki":"1""#);
            let hard: Vec<String> = (1..=count).map(name).collect();
            let quota = format!(
                r#"{{"spec":{{"hard":{{{}}},"scopes":[{listed}],"scopeSelector":{{"matchExpressions":[{expressions}]}}}}}}"#,
                hard.join(",")
            );
            let quota = quota.parse().expect("valid JSON");
            let start = processor_time();
            assert_eq!(scopes(&quota).len(), SCOPE_CAUSES_MAX);
            start
        });
    }
}
