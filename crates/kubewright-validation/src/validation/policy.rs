//! Validates PodDisruptionBudgets, PriorityClasses and NetworkPolicies.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};

use super::metadata::quoted;
use super::{address, condition, number, selector};

/// Maximum user-definable priority.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
/// The system priority classes.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Validates a PodDisruptionBudget.
pub(super) fn disruption_budget(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = Vec::new();
    if let (Some(least), Some(most)) = (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        let get = |field: &str| spec.get(field).unwrap_or(&Value::Null);
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{}}}",
            get("selector"),
            get("unhealthyPodEvictionPolicy"),
        );
        causes.push(StatusCause::invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        causes.extend(selector::amount(&format!("spec.{field}"), spec.get(field), true));
    }
    match tree::text(spec, &["unhealthyPodEvictionPolicy"]) {
        "" => {}
        policy => {
            let field = "spec.unhealthyPodEvictionPolicy";
            causes.extend(number::one_of(field, policy, &["AlwaysAllow", "IfHealthyBudget"]));
        }
    }
    causes.extend(spec.get("selector").into_iter().flat_map(|chosen| selector::selector("spec.selector", chosen)));
    causes
}

/// Validates the status of a PodDisruptionBudget.
pub(super) fn budget_status(value: &Value) -> Vec<StatusCause> {
    let mut causes = condition::conditions("status.conditions", tree::items(value, &["status", "conditions"]));
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        causes.extend(number::not_negative(value, &["status", field]));
    }
    causes
}

/// Validates a PriorityClass. Its value and preemption policy are immutable.
pub(super) fn priority_class(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let (name, priority) = (value.name(), tree::int(value, &["value"]).unwrap_or_default());
    if let Some(old) = old {
        if tree::int(old, &["value"]).unwrap_or_default() != priority {
            causes.push(StatusCause::forbidden("value", "may not be changed in an update."));
        }
        causes.extend(number::immutable(value, old, &["preemptionPolicy"]));
        return causes;
    }
    if name.starts_with("system-") {
        let why = match SYSTEM_PRIORITIES.into_iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, wanted)) if wanted != priority => Some(format!("value of {name} PriorityClass must be {wanted}")),
            Some(_) if tree::is_true(value, &["globalDefault"]) => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        let rule = "priority class names with 'system-' prefix are reserved for system use only. error: ";
        causes.extend(why.map(|why| StatusCause::forbidden("metadata.name", &format!("{rule}{why}"))));
    } else if priority > HIGHEST_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        causes.push(StatusCause::forbidden("value", &why));
    }
    match tree::text(value, &["preemptionPolicy"]) {
        "" => {}
        policy => causes.extend(number::one_of("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"])),
    }
    causes
}

/// Validates a NetworkPolicy.
pub(super) fn network_policy(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let chosen = spec.get("podSelector").into_iter();
    let mut causes: Vec<_> = chosen.flat_map(|chosen| selector::selector("spec.podSelector", chosen)).collect();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in tree::items(spec, &[direction]).iter().enumerate() {
            let field = format!("spec.{direction}[{index}]");
            for (index, port) in tree::items(rule, &["ports"]).iter().enumerate() {
                causes.extend(self::port(&format!("{field}.ports[{index}]"), port));
            }
            for (index, peer) in tree::items(rule, &[peers]).iter().enumerate() {
                causes.extend(self::peer(&format!("{field}.{peers}[{index}]"), peer));
            }
        }
    }
    let types = tree::items(spec, &["policyTypes"]);
    if types.len() > 2 {
        let shown = Value::from(types.to_vec());
        causes.push(StatusCause::invalid("spec.policyTypes", shown, "may not specify more than two policyTypes"));
        return causes;
    }
    for (index, one) in types.iter().filter_map(Value::as_str).enumerate() {
        causes.extend(number::one_of(format!("spec.policyTypes[{index}]"), one, &["Ingress", "Egress"]));
    }
    causes
}

fn port(field: &str, port: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match tree::text(port, &["protocol"]) {
        "" => {}
        protocol => causes.extend(number::one_of(format!("{field}.protocol"), protocol, &["TCP", "UDP", "SCTP"])),
    }
    let (first, last) = (port.get("port"), tree::int(port, &["endPort"]));
    if first.is_some() {
        causes.extend(selector::port(&format!("{field}.port"), first));
    }
    let Some(last) = last else { return causes };
    let mut complain = |why: &str| causes.push(StatusCause::invalid(format!("{field}.endPort"), last, why));
    match first {
        None => complain("may not be specified when `port` is not specified"),
        Some(Value::Int(first)) => {
            if last < *first {
                complain("must be greater than or equal to `port`");
            }
            causes.extend(number::port(format!("{field}.endPort"), last));
        }
        Some(_) => complain("may not be specified when `port` is non-numeric"),
    }
    causes
}

fn peer(field: &str, peer: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for name in ["podSelector", "namespaceSelector"] {
        let chosen = peer.get(name).into_iter();
        causes.extend(chosen.flat_map(|chosen| selector::selector(&format!("{field}.{name}"), chosen)));
    }
    let has_selector = peer.get("podSelector").is_some() || peer.get("namespaceSelector").is_some();
    match (peer.get("ipBlock"), has_selector) {
        (None, false) => causes.push(StatusCause::required(field, "must specify a peer")),
        (None, true) => {}
        (Some(block), is_both) => {
            causes.extend(self::block(&format!("{field}.ipBlock"), block));
            if is_both {
                causes.push(StatusCause::forbidden(field, "may not specify both ipBlock and another peer"));
            }
        }
    }
    causes
}

fn block(field: &str, block: &Value) -> Vec<StatusCause> {
    let text = tree::text(block, &["cidr"]);
    if text.is_empty() {
        return vec![StatusCause::required(format!("{field}.cidr"), "")];
    }
    let mut causes: Vec<_> = address::cidr(&format!("{field}.cidr"), text).into_iter().collect();
    let Some(range) = address::range(text) else { return causes };
    for (index, except) in tree::items(block, &["except"]).iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{field}.except[{index}]");
        causes.extend(address::cidr(&field, except));
        if address::range(except).is_some_and(|inner| !address::is_strictly_in(inner, range)) {
            causes.push(StatusCause::invalid(field, quoted(except), "must be a strict subset of `cidr`"));
        }
    }
    causes
}
