//! Validates Nodes and RuntimeClasses.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Value, tree};

use super::metadata::{self, quoted};
use super::{address, capacity, config, container, number, pod, text};

/// Validates a Node.
pub(super) fn node(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(old) = old else {
        let mut causes = taints(value);
        causes.extend(amounts(value));
        causes.extend(pod_ranges(value));
        return causes;
    };
    let mut causes = amounts(value);
    causes.extend(addresses(value));
    const RANGES: [&str; 2] = ["spec", "podCIDRs"];
    let (now, before) = (tree::items(value, &RANGES), tree::items(old, &RANGES));
    let why = "node updates may not change podCIDR except from \"\" to valid";
    let changes = if before.is_empty() {
        0
    } else if now.len() == before.len() {
        now.iter().zip(before).filter(|(now, before)| now != before).count()
    } else {
        1
    };
    causes.extend((0..changes).map(|_| StatusCause::forbidden("spec.podCIDRs", why)));
    let id = |node: &Value| tree::text(node, &["spec", "providerID"]).to_owned();
    if !id(old).is_empty() && id(value) != id(old) {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.push(StatusCause::forbidden("spec.providerID", why));
    }
    if let Some(source) = tree::get(value, &["spec", "configSource"]) {
        causes.extend(config_source("spec.configSource", source, false));
    }
    causes.extend(config_status(value));
    causes.extend(taints(value));
    if tree::text(value, &["spec", "externalID"]) != tree::text(old, &["spec", "externalID"]) {
        causes.push(StatusCause::forbidden("spec.externalID", "may not be updated"));
    }
    causes
}

/// Validates the status of a Node.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let mut causes = amounts(value);
    causes.extend(addresses(value));
    causes.extend(config_status(value));
    causes
}

/// Validates taints. As in the real server, error paths start with `metadata`.
fn taints(value: &Value) -> Vec<StatusCause> {
    const FIELDS: [(&str, &str, &str); 4] = [
        ("Key", "key", "\"\""),
        ("Value", "value", "\"\""),
        ("Effect", "effect", "\"\""),
        ("TimeAdded", "timeAdded", "null"),
    ];
    let taints = tree::items(value, &["spec", "taints"]);
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let (field, text_of) = (format!("metadata.taints[{index}]"), |part: &str| tree::text(taint, &[part]));
        causes.extend(text::check(&format!("{field}.key"), text_of("key"), qualified_name));
        let complaints = label_value(text_of("value"));
        if !complaints.is_empty() {
            let shown = quoted(text_of("value"));
            causes.push(StatusCause::invalid(format!("{field}.value"), shown, &complaints.join(";")));
        }
        causes.extend(text::choice(&format!("{field}.effect"), text_of("effect"), &pod::EFFECTS));
        if !seen.insert([text_of("key"), text_of("effect")]) {
            let shown = text::internal(taint, &FIELDS);
            let mut cause = StatusCause::duplicate(field, &shown);
            let why = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            cause.message = Some(why.into());
            causes.push(cause);
        }
    }
    causes
}

fn amounts(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for part in ["capacity", "allocatable"] {
        for (name, amount) in capacity::amounts(value, &["status", part]) {
            let (field, shown) = (format!("status.{part}.{name}"), quoted(&amount.to_string()));
            if amount.signum() < 0 {
                let why = "must be greater than or equal to 0";
                causes.push(StatusCause::invalid(field.as_str(), shown.as_str(), why));
            }
            let is_whole = name.contains('/') || name == "pods";
            if is_whole && amount.milli_value() % 1000 != 0 {
                causes.push(StatusCause::invalid(field, shown, "must be an integer"));
            }
        }
    }
    causes
}

fn addresses(value: &Value) -> Vec<StatusCause> {
    let addresses = tree::items(value, &["status", "addresses"]);
    let twice = addresses.iter().enumerate().filter(|(index, address)| addresses[..*index].contains(address));
    let fields = [("Type", "type", "\"\""), ("Address", "address", "\"\"")];
    twice
        .map(|(index, one)| StatusCause::duplicate(format!("status.addresses[{index}]"), text::internal(one, &fields)))
        .collect()
}

fn pod_ranges(value: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "spec.podCIDRs";
    let ranges = tree::items(value, &["spec", "podCIDRs"]);
    let texts = ranges.iter().filter_map(Value::as_str).enumerate();
    let mut causes: Vec<_> =
        texts.filter_map(|(index, one)| address::cidr(&format!("{FIELD}[{index}]"), one)).collect();
    if ranges.len() > 1 {
        if !address::is_dual(ranges) {
            let why = "may specify no more than one CIDR for each IP family";
            causes.push(StatusCause::invalid(FIELD, Value::from(ranges.to_vec()), why));
        }
        let twice = ranges.iter().enumerate().filter(|(index, one)| ranges[..*index].contains(one));
        causes.extend(twice.map(|(index, one)| StatusCause::duplicate(format!("{FIELD}[{index}]"), one)));
    }
    causes
}

fn config_status(value: &Value) -> Vec<StatusCause> {
    let parts = ["assigned", "active", "lastKnownGood"].into_iter();
    let set = parts.filter_map(|part| Some((part, tree::get(value, &["status", "config", part])?)));
    set.flat_map(|(part, source)| config_source(&format!("status.config.{part}"), source, true)).collect()
}

fn config_source(field: &str, source: &Value, is_status: bool) -> Vec<StatusCause> {
    let Some(map) = source.get("configMap") else {
        let why = "exactly one reference subfield must be non-nil";
        return vec![StatusCause::invalid(field, text::internal(source, &[("ConfigMap", "configMap", "null")]), why)];
    };
    let field = format!("{field}.configMap");
    let mut causes = Vec::new();
    for part in ["uid", "resourceVersion"] {
        let is_set = !tree::text(map, &[part]).is_empty();
        let inner = format!("{field}.{part}");
        match is_status {
            true if !is_set => causes.push(StatusCause::required(inner, &format!("{part} must be set in status"))),
            false if is_set => causes.push(StatusCause::forbidden(inner, &format!("{part} must not be set in spec"))),
            _ => {}
        }
    }
    for part in ["namespace", "name", "kubeletConfigKey"] {
        let rule = match part {
            "namespace" => dns1123_label,
            "name" => dns1123_subdomain,
            _ => config::key_complaints,
        };
        let inner = format!("{field}.{part}");
        match tree::text(map, &[part]) {
            "" => causes.push(StatusCause::required(inner, &format!("{part} must be set"))),
            text => causes.extend(text::check(&inner, text, rule)),
        }
    }
    causes
}

/// Validates a RuntimeClass.
pub(super) fn runtime_class(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(old) = old {
        return number::immutable(value, old, &["handler"]).into_iter().collect();
    }
    let mut causes = text::check("handler", tree::text(value, &["handler"]), dns1123_label);
    if let Some(fixed) = tree::get(value, &["overhead", "podFixed"]) {
        causes.extend(container::limits("overhead", fixed));
    }
    let scheduling = tree::get(value, &["scheduling", "nodeSelector"]);
    causes.extend(metadata::labels("scheduling.nodeSelector", scheduling));
    let tolerations = tree::items(value, &["scheduling", "tolerations"]);
    causes.extend(pod::tolerations("scheduling.tolerations", tolerations));
    let mut seen = HashSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|part| tree::text(toleration, &[part]))) {
            let field = format!("scheduling.tolerations[{index}]");
            causes.push(StatusCause::duplicate(field, pod::shown_toleration(toleration)));
        }
    }
    causes
}
