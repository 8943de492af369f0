//! Validates scheduling constraints: affinities, node selectors and topology spread.

use std::collections::{HashMap, HashSet};

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, text_map};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};

use super::metadata::quoted;
use super::{number, selector, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates the affinity of a pod.
pub(super) fn affinity(field: &str, affinity: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if let Some(node) = affinity.get("nodeAffinity") {
        let field = format!("{field}.nodeAffinity");
        let required = node.get(REQUIRED).into_iter();
        causes.extend(required.flat_map(|chosen| node_selector(&format!("{field}.{REQUIRED}"), chosen)));
        for (index, term) in tree::items(node, &[PREFERRED]).iter().enumerate() {
            let field = format!("{field}.{PREFERRED}[{index}]");
            causes.extend(weight(&field, term));
            let preference = term.get("preference").unwrap_or(&Value::Null);
            // Invalid label values are allowed in preferences: such a term just never matches.
            causes.extend(node_term(&format!("{field}.preference"), preference, false));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.get(kind) else { continue };
        for (index, term) in tree::items(pods, &[REQUIRED]).iter().enumerate() {
            causes.extend(pod_term(&format!("{field}.{kind}.{REQUIRED}[{index}]"), term));
        }
        for (index, term) in tree::items(pods, &[PREFERRED]).iter().enumerate() {
            let field = format!("{field}.{kind}.{PREFERRED}[{index}]");
            causes.extend(weight(&field, term));
            let inner = term.get("podAffinityTerm").unwrap_or(&Value::Null);
            causes.extend(pod_term(&format!("{field}.podAffinityTerm"), inner));
        }
    }
    causes
}

fn weight(field: &str, term: &Value) -> Option<StatusCause> {
    let weight = tree::int(term, &["weight"]).unwrap_or_default();
    let is_wrong = !(1..=100).contains(&weight);
    is_wrong.then(|| StatusCause::invalid(format!("{field}.weight"), weight, "must be in the range 1-100"))
}

/// Validates a node selector. Its terms are ORed.
pub(super) fn node_selector(field: &str, chosen: &Value) -> Vec<StatusCause> {
    let field = format!("{field}.nodeSelectorTerms");
    let terms = tree::items(chosen, &["nodeSelectorTerms"]);
    if terms.is_empty() {
        return vec![StatusCause::required(field, "must have at least one node selector term")];
    }
    let terms = terms.iter().enumerate();
    terms.flat_map(|(index, term)| node_term(&format!("{field}[{index}]"), term, true)).collect()
}

fn node_term(field: &str, term: &Value, is_required: bool) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, requirement) in tree::items(term, &["matchExpressions"]).iter().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        causes.extend(expression(&field, requirement));
        let values = tree::items(requirement, &["values"]).iter().filter(|_| is_required);
        for (index, value) in values.filter_map(Value::as_str).enumerate() {
            causes.extend(text::check(&format!("{field}.values[{index}]"), value, label_value));
        }
    }
    for (index, requirement) in tree::items(term, &["matchFields"]).iter().enumerate() {
        causes.extend(field_requirement(&format!("{field}.matchFields[{index}]"), requirement));
    }
    causes
}

fn expression(field: &str, requirement: &Value) -> Vec<StatusCause> {
    let values = tree::items(requirement, &["values"]);
    let values_field = format!("{field}.values");
    let mut causes = Vec::new();
    match tree::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.push(StatusCause::required(values_field, why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(StatusCause::forbidden(values_field, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.push(StatusCause::required(values_field, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => causes.push(bad_operator(field, other)),
    }
    causes.extend(text::check(&format!("{field}.key"), tree::text(requirement, &["key"]), qualified_name));
    causes
}

fn bad_operator(field: &str, operator: &str) -> StatusCause {
    StatusCause::invalid(format!("{field}.operator"), quoted(operator), "not a valid selector operator")
}

/// Validates a `matchFields` requirement. Only `metadata.name` is supported.
fn field_requirement(field: &str, requirement: &Value) -> Vec<StatusCause> {
    let values = tree::items(requirement, &["values"]);
    let mut causes = Vec::new();
    match tree::text(requirement, &["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.push(StatusCause::required(format!("{field}.values"), why));
        }
        "In" | "NotIn" => {}
        other => causes.push(bad_operator(field, other)),
    }
    match tree::text(requirement, &["key"]) {
        "metadata.name" => {
            for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
                causes.extend(text::check(&format!("{field}.values[{index}]"), value, dns1123_subdomain));
            }
        }
        other => {
            let why = "not a valid field selector key";
            causes.push(StatusCause::invalid(format!("{field}.key"), quoted(other), why));
        }
    }
    causes
}

fn pod_term(field: &str, term: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for part in ["labelSelector", "namespaceSelector"] {
        let chosen = term.get(part).into_iter();
        causes.extend(chosen.flat_map(|chosen| selector::selector(&format!("{field}.{part}"), chosen)));
    }
    for name in tree::items(term, &["namespaces"]).iter().filter_map(Value::as_str) {
        causes.extend(text::check(&format!("{field}.namespace"), name, dns1123_label));
    }
    causes.extend(label_keys(field, term));
    let key = tree::text(term, &["topologyKey"]);
    if key.is_empty() {
        causes.push(StatusCause::required(format!("{field}.topologyKey"), "can not be empty"));
    }
    causes.extend(text::check(&format!("{field}.topologyKey"), key, qualified_name));
    causes
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`, whose values come from the pod's own labels.
fn label_keys(field: &str, term: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for part in ["matchLabelKeys", "mismatchLabelKeys"] {
        let (field, keys) = (format!("{field}.{part}"), tree::items(term, &[part]));
        if !keys.is_empty() && term.get("labelSelector").is_none() {
            causes.push(StatusCause::forbidden(field, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
            causes.extend(text::check(&format!("{field}[{index}]"), key, qualified_name));
        }
    }
    let keys = tree::items(term, &["matchLabelKeys"]);
    causes.extend(repeated_keys(field, keys, term.get("labelSelector").unwrap_or(&Value::Null)));
    let others = tree::items(term, &["mismatchLabelKeys"]);
    for (index, key) in keys.iter().enumerate() {
        if others.contains(key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            causes.push(StatusCause::invalid(format!("{field}.matchLabelKeys[{index}]"), key, why));
        }
    }
    causes
}

/// Rejects keys that are in both the label selector and `matchLabelKeys`. The first requirement for
/// a key does not count: defaulting adds one for each key. As in the real server, the path omits
/// the name of the list.
fn repeated_keys(field: &str, keys: &[Value], chosen: &Value) -> Vec<StatusCause> {
    let labels = text_map(chosen.get("matchLabels"));
    let expressions = tree::items(chosen, &["matchExpressions"]);
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
    let last_index_of: HashMap<_, _> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    for expression in expressions {
        let key = tree::text(expression, &["key"]);
        let is_repeated = !seen.insert(key);
        if let Some(index) = last_index_of.get(&Some(key)).filter(|_| labels.contains_key(key) || is_repeated) {
            let why = "exists in both matchLabelKeys and labelSelector";
            causes.push(StatusCause::invalid(format!("{field}[{index}]"), quoted(key), why));
        }
    }
    causes
}

/// Validates the topology spread constraints of a pod.
pub(super) fn spread(field: &str, constraints: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let pair = |constraint: &'_ Value| {
        ["topologyKey", "whenUnsatisfiable"].map(|part| tree::text(constraint, &[part]).to_owned())
    };
    let last_index_of: HashMap<_, _> =
        constraints.iter().enumerate().map(|(index, constraint)| (pair(constraint), index)).collect();
    for (index, constraint) in constraints.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let skew = tree::int(constraint, &["maxSkew"]).unwrap_or_default();
        if skew <= 0 {
            causes.push(StatusCause::invalid(format!("{field}.maxSkew"), skew, "must be greater than zero"));
        }
        let key = tree::text(constraint, &["topologyKey"]);
        if key.is_empty() {
            causes.push(StatusCause::required(format!("{field}.topologyKey"), "can not be empty"));
        }
        let action = tree::text(constraint, &["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        causes.extend(number::one_of(format!("{field}.whenUnsatisfiable"), action, &actions));
        if last_index_of.get(&pair(constraint)).is_some_and(|last| *last > index) {
            let shown = quoted(&format!("{{{key}, {action}}}"));
            causes.push(StatusCause::duplicate(format!("{field}.{{topologyKey, whenUnsatisfiable}}"), shown));
        }
        if let Some(least) = tree::int(constraint, &["minDomains"]) {
            let mut complain = |why: &str| {
                causes.push(StatusCause::invalid(format!("{field}.minDomains"), least, why));
            };
            if least <= 0 {
                complain("must be greater than zero");
            }
            if action != "DoNotSchedule" {
                complain(&format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"));
            }
        }
        for part in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.get(part);
            causes.extend(text::optional_choice(&format!("{field}.{part}"), policy, &["Honor", "Ignore"]));
        }
        causes.extend(label_keys(&field, constraint));
        let chosen = constraint.get("labelSelector").into_iter();
        causes.extend(chosen.flat_map(|chosen| selector::selector(&format!("{field}.labelSelector"), chosen)));
    }
    causes
}

/// Validates the `allowedTopologies` of a StorageClass.
pub(super) fn topologies(field: &str, terms: &[Value]) -> Vec<StatusCause> {
    /// Stop reporting duplicate terms after this many causes.
    const PAIRS_MAX: usize = 1000;
    let mut causes = Vec::new();
    let mut count_of = HashMap::new();
    for (index, term) in terms.iter().enumerate() {
        let field = format!("{field}[{index}].matchLabelExpressions");
        let requirements = tree::items(term, &["matchLabelExpressions"]);
        let mut keys = HashSet::new();
        for (index, requirement) in requirements.iter().enumerate() {
            let (inner, values) = (format!("{field}[{index}]"), tree::items(requirement, &["values"]));
            if values.is_empty() {
                causes.push(StatusCause::required(format!("{inner}.values"), ""));
            }
            let mut seen = HashSet::new();
            let twice = values.iter().enumerate().filter(|(_, value)| !seen.insert(value.to_string()));
            causes.extend(twice.map(|(at, value)| StatusCause::duplicate(format!("{inner}.values[{at}]"), value)));
            let key = tree::text(requirement, &["key"]);
            causes.extend(text::check(&format!("{inner}.key"), key, qualified_name));
            if !keys.insert(key) {
                causes.push(StatusCause::duplicate(format!("{inner}.key"), quoted(key)));
            }
        }
        // Report one cause for each pair of equal terms, up to `PAIRS_MAX`.
        let same = count_of.entry(normalized(term)).or_insert(0usize);
        let room = PAIRS_MAX.saturating_sub(causes.len());
        causes.extend((0..room.min(*same)).map(|_| StatusCause::duplicate(field.as_str(), quoted(""))));
        *same += 1;
    }
    causes
}

/// The keys of a term with their values, in an order-independent form.
fn normalized(term: &Value) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<_> = tree::items(term, &["matchLabelExpressions"])
        .iter()
        .map(|one| {
            let values = tree::items(one, &["values"]).iter().filter_map(Value::as_str).map(str::to_owned);
            let mut values: Vec<String> = values.collect();
            values.sort();
            (tree::text(one, &["key"]).to_owned(), values)
        })
        .collect();
    all.sort();
    all
}
