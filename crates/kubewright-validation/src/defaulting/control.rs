//! Defaults of webhook configurations, admission policies, APIServices and flow control.

use kubewright_core::{Value, tree};

/// Sets the defaults of a webhook configuration.
pub(super) fn webhooks(value: &mut Value, is_mutating: bool) {
    for webhook in tree::items_mut(value, "webhooks") {
        tree::default(webhook, "failurePolicy", "Fail");
        tree::default(webhook, "matchPolicy", "Equivalent");
        tree::default(webhook, "namespaceSelector", tree::map([]));
        tree::default(webhook, "objectSelector", tree::map([]));
        tree::default(webhook, "timeoutSeconds", 10);
        if is_mutating {
            tree::default(webhook, "reinvocationPolicy", "Never");
        }
        for rule in tree::items_mut(webhook, "rules") {
            tree::default(rule, "scope", "*");
        }
        if let Some(service) =
            tree::field_mut(webhook, "clientConfig").and_then(|config| tree::field_mut(config, "service"))
        {
            tree::default(service, "port", 443);
        }
    }
}

/// Sets the defaults of a policy.
pub(super) fn policy(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    tree::default(spec, "failurePolicy", "Fail");
    if let Some(constraints) = tree::field_mut(spec, "matchConstraints") {
        matched(constraints);
    }
}

/// Sets the defaults of a policy binding.
pub(super) fn binding(value: &mut Value) {
    if let Some(matching) = tree::field_mut(value, "spec").and_then(|spec| tree::field_mut(spec, "matchResources")) {
        matched(matching);
    }
}

fn matched(matching: &mut Value) {
    tree::default(matching, "matchPolicy", "Equivalent");
    tree::default(matching, "namespaceSelector", tree::map([]));
    tree::default(matching, "objectSelector", tree::map([]));
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in tree::items_mut(matching, field) {
            tree::default(rule, "scope", "*");
        }
    }
}

/// Sets the defaults of an APIService.
pub(super) fn aggregated_service(value: &mut Value) {
    if let Some(service) = tree::field_mut(value, "spec").and_then(|spec| tree::field_mut(spec, "service")) {
        tree::default(service, "port", 443);
    }
}

/// Sets the defaults of a FlowSchema.
pub(super) fn flow_schema(value: &mut Value) {
    if let Some(spec) = tree::field_mut(value, "spec") {
        tree::default_zero(spec, "matchingPrecedence", 1000);
    }
}

/// Sets the defaults of a PriorityLevelConfiguration.
pub(super) fn priority_level(value: &mut Value) {
    let Some(spec) = tree::field_mut(value, "spec") else { return };
    if tree::text(spec, &["type"]) == "Exempt" {
        tree::object_mut(spec, &["exempt"]);
    }
    if let Some(exempt) = tree::field_mut(spec, "exempt") {
        tree::default(exempt, "nominalConcurrencyShares", 0);
        tree::default(exempt, "lendablePercent", 0);
    }
    if let Some(limited) = tree::field_mut(spec, "limited") {
        tree::default(limited, "nominalConcurrencyShares", 30);
        tree::default(limited, "lendablePercent", 0);
        let response = tree::field_mut(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| tree::field_mut(response, "queuing")) {
            tree::default_zero(queuing, "queues", 64);
            tree::default_zero(queuing, "handSize", 8);
            tree::default_zero(queuing, "queueLengthLimit", 50);
        }
    }
}
