//! Cells of webhook configurations, admission policies and APIServices.

use kubewright_core::{Value, tree};

use crate::object::PrintedObject;

/// Name, number of webhooks, age.
pub(super) fn webhook_configuration(object: &PrintedObject<'_>) -> Vec<Value> {
    vec![object.name(), object.count(&["webhooks"]).into(), object.age()]
}

/// Name, number of validations, parameter kind, age.
pub(super) fn validating_policy(object: &PrintedObject<'_>) -> Vec<Value> {
    policy(object, "validations")
}

/// Name, number of mutations, parameter kind, age.
pub(super) fn mutating_policy(object: &PrintedObject<'_>) -> Vec<Value> {
    policy(object, "mutations")
}

fn policy(object: &PrintedObject<'_>, rules: &str) -> Vec<Value> {
    let kind = if object.has(&["spec", "paramKind"]) {
        let part = |key| object.text(&["spec", "paramKind", key]);
        format!("{}/{}", part("apiVersion"), part("kind")).into()
    } else {
        Value::from("<unset>")
    };
    vec![object.name(), object.count(&["spec", rules]).into(), kind, object.age()]
}

/// Name, policy, parameters, age.
pub(super) fn policy_binding(object: &PrintedObject<'_>) -> Vec<Value> {
    let part = |key| object.text(&["spec", "paramRef", key]);
    let parameters = match (part("namespace"), part("name")) {
        (_, "") => match object.at(&["spec", "paramRef", "selector"]) {
            Some(selector) => shown_selector(selector),
            None => "<unset>".to_owned(),
        },
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![object.name(), object.text(&["spec", "policyName"]).into(), parameters.into(), object.age()]
}

/// A selector in Go's text format of protobuf messages.
fn shown_selector(selector: &Value) -> String {
    let labels = tree::get(selector, &["matchLabels"]).and_then(Value::as_object);
    let labels = labels.into_iter().flat_map(|labels| labels.iter());
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let shown = |requirement: &Value| {
        let values: Vec<&str> = tree::items(requirement, &["values"]).iter().filter_map(Value::as_str).collect();
        let (key, operator) = (tree::text(requirement, &["key"]), tree::text(requirement, &["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    };
    let expressions: String = tree::items(selector, &["matchExpressions"]).iter().map(shown).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Name, service, availability, age.
pub(super) fn api_service(object: &PrintedObject<'_>) -> Vec<Value> {
    let service = if object.has(&["spec", "service"]) {
        let part = |key| object.text(&["spec", "service", key]);
        format!("{}/{}", part("namespace"), part("name"))
    } else {
        "Local".to_owned()
    };
    let available = object.conditions().iter().find(|condition| tree::text(condition, &["type"]) == "Available");
    let part = |key| available.map_or("", |condition| tree::text(condition, &[key]));
    let available = match (part("status"), part("reason")) {
        ("", _) => "Unknown".to_owned(),
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    };
    vec![object.name(), service.into(), available.into(), object.age()]
}
