//! Validates RBAC roles and role bindings.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Value, tree};

use super::metadata::{path_segment, quoted};
use super::{number, selector};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Validates a Role (`is_namespaced`) or a ClusterRole.
pub(super) fn role(value: &Value, is_namespaced: bool) -> Vec<StatusCause> {
    let rules = tree::items(value, &["rules"]).iter().enumerate();
    let rules = rules.flat_map(|(index, rule)| self::rule(&format!("rules[{index}]"), rule, is_namespaced));
    let aggregation_rule = value.get("aggregationRule").filter(|_| !is_namespaced).into_iter();
    rules.chain(aggregation_rule.flat_map(aggregation)).collect()
}

/// Validates the aggregation rule of a ClusterRole.
fn aggregation(rule: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = tree::items(rule, &["clusterRoleSelectors"]);
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        return vec![StatusCause::required(FIELD, why)];
    }
    let mut causes = Vec::new();
    for (index, chosen) in selectors.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        causes.extend(selector::selector(&field, chosen));
        if selector::usable(Some(chosen)).is_none() {
            causes.push(StatusCause::invalid(field, "null", "invalid label selector."));
        }
    }
    causes
}

fn rule(field: &str, rule: &Value, is_namespaced: bool) -> Vec<StatusCause> {
    let items = |name: &str| tree::items(rule, &[name]);
    let mut causes = Vec::new();
    if items("verbs").is_empty() {
        causes.push(StatusCause::required(format!("{field}.verbs"), "verbs must contain at least one value"));
    }
    if !items("nonResourceURLs").is_empty() {
        let mut complain = |why: &str| {
            let shown = Value::from(items("nonResourceURLs").to_vec());
            causes.push(StatusCause::invalid(format!("{field}.nonResourceURLs"), shown, why));
        };
        if is_namespaced {
            complain("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(|name| !items(name).is_empty()) {
            complain("rules cannot apply to both regular resources and non-resource URLs");
        }
        return causes;
    }
    for (name, why) in [
        ("apiGroups", "resource rules must supply at least one api group"),
        ("resources", "resource rules must supply at least one resource"),
    ] {
        causes.extend(items(name).is_empty().then(|| StatusCause::required(format!("{field}.{name}"), why)));
    }
    causes
}

/// Validates a RoleBinding (`is_namespaced`) or a ClusterRoleBinding. Its `roleRef` is immutable.
pub(super) fn binding(value: &Value, old: Option<&Value>, is_namespaced: bool) -> Vec<StatusCause> {
    let text = |field: &str| tree::text(value, &["roleRef", field]);
    let mut causes = Vec::new();
    causes.extend(number::one_of("roleRef.apiGroup", text("apiGroup"), &[GROUP]));
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    causes.extend(number::one_of("roleRef.kind", text("kind"), kinds));
    match text("name") {
        "" => causes.push(StatusCause::required("roleRef.name", "")),
        name => {
            let complaints = path_segment(name);
            causes.extend(complaints.iter().map(|why| StatusCause::invalid("roleRef.name", quoted(name), why)));
        }
    }
    for (index, subject) in tree::items(value, &["subjects"]).iter().enumerate() {
        causes.extend(self::subject(&format!("subjects[{index}]"), subject, is_namespaced));
    }
    if old.is_some_and(|old| old.get("roleRef") != value.get("roleRef")) {
        let shown =
            format!("{{\"APIGroup\":{:?},\"Kind\":{:?},\"Name\":{:?}}}", text("apiGroup"), text("kind"), text("name"));
        causes.push(StatusCause::invalid("roleRef", shown, "cannot change roleRef"));
    }
    causes
}

fn subject(field: &str, subject: &Value, is_namespaced: bool) -> Vec<StatusCause> {
    let text = |part: &str| tree::text(subject, &[part]);
    let mut causes = Vec::new();
    if text("name").is_empty() {
        causes.push(StatusCause::required(format!("{field}.name"), ""));
    }
    match text("kind") {
        "ServiceAccount" => {
            let name = text("name");
            let complaints = if name.is_empty() { Vec::new() } else { dns1123_subdomain(name) };
            let complain = |why: &String| StatusCause::invalid(format!("{field}.name"), quoted(name), why);
            causes.extend(complaints.iter().map(complain));
            causes.extend(number::one_of(format!("{field}.apiGroup"), text("apiGroup"), &[""]));
            if !is_namespaced && text("namespace").is_empty() {
                causes.push(StatusCause::required(format!("{field}.namespace"), ""));
            }
        }
        kind @ ("User" | "Group") => {
            if text("name").is_empty() {
                let why = format!("{} name cannot be empty", kind.to_lowercase());
                causes.push(StatusCause::invalid(format!("{field}.name"), "\"\"", &why));
            }
            causes.extend(number::one_of(format!("{field}.apiGroup"), text("apiGroup"), &[GROUP]));
        }
        other => causes.extend(number::one_of(format!("{field}.kind"), other, &["ServiceAccount", "User", "Group"])),
    }
    causes
}
