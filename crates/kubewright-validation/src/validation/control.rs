//! Validates admission policies and their bindings.

use std::collections::HashSet;

use kubewright_cel::{Environment, Type, is_identifier};
use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1035_label, dns1123_subdomain, qualified_name};

use super::metadata::{path_segment, quoted};
use super::{condition, number, selector, text, webhook};
use crate::admission_policy::{mutation_environment, policy_environment};
use kubewright_printers::JsonPath;

const CONDITIONS_MAX: usize = 64;
const ANNOTATIONS_MAX: usize = 20;

/// Validates the fields that all policies share: failure policy, match conditions, parameters and
/// variables.
fn scope(spec: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let policy = tree::text(spec, &["failurePolicy"]);
    let mut causes: Vec<_> =
        text::choice("spec.failurePolicy", policy, &webhook::FAILURE_POLICIES).into_iter().collect();
    causes.extend(spec.get("paramKind").into_iter().flat_map(parameters));
    match spec.get("matchConstraints") {
        None => causes.push(StatusCause::required("spec.matchConstraints", "")),
        Some(constraints) => {
            causes.extend(matched("spec.matchConstraints", constraints));
            if tree::items(constraints, &["resourceRules"]).is_empty() {
                causes.push(StatusCause::required("spec.matchConstraints.resourceRules", ""));
            }
        }
    }
    // Unchanged expressions are accepted, even if the current rules would reject them.
    let is_same = |part: &&str| old.is_some_and(|old| tree::get(old, &["spec", part]) == spec.get(part));
    if !["matchConditions", "paramKind"].iter().all(is_same) {
        causes.extend(match_conditions("spec.matchConditions", spec));
    }
    for (index, variable) in tree::items(spec, &["variables"]).iter().enumerate() {
        let field = format!("spec.variables[{index}].name");
        match tree::text(variable, &["name"]) {
            name if name.trim().is_empty() => causes.push(StatusCause::required(field, "name is not specified")),
            name if !is_identifier(name) => {
                causes.push(StatusCause::invalid(field, quoted(name), "name is not a valid CEL identifier"));
            }
            _ => {}
        }
    }
    causes.extend(expressions("spec.variables", spec, "variables", &Type::Dyn));
    causes
}

/// Validates a `paramKind`.
fn parameters(kind: &Value) -> Vec<StatusCause> {
    const VERSION: &str = "spec.paramKind.apiVersion";
    let joined = |shown: &str, complaints: Vec<String>| {
        (!complaints.is_empty()).then(|| StatusCause::invalid(VERSION, quoted(shown), &complaints.join(",")))
    };
    let mut causes = Vec::new();
    let text = tree::text(kind, &["apiVersion"]);
    match text.split('/').collect::<Vec<_>>()[..] {
        [""] => causes.push(StatusCause::required(VERSION, "")),
        [version] => causes.extend(joined(version, dns1035_label(version))),
        [group, version] => {
            causes.extend(joined(group, dns1123_subdomain(group)).filter(|_| !group.is_empty()));
            match version {
                "" => causes.push(StatusCause::invalid(VERSION, quoted(text), "version must be specified")),
                version => causes.extend(joined(version, dns1035_label(version))),
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {text}");
            causes.push(StatusCause::invalid(VERSION, quoted(text), &why));
        }
    }
    let name = tree::text(kind, &["kind"]);
    let complaints = dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        causes.push(StatusCause::required("spec.paramKind.kind", ""));
    } else if !complaints.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        causes.push(StatusCause::invalid("spec.paramKind.kind", quoted(name), &why));
    }
    causes
}

/// Validates the match constraints of a policy.
fn matched(field: &str, matching: &Value) -> Vec<StatusCause> {
    let policy = tree::text(matching, &["matchPolicy"]);
    let mut causes: Vec<_> =
        text::choice(&format!("{field}.matchPolicy"), policy, &webhook::MATCH_POLICIES).into_iter().collect();
    for part in ["namespaceSelector", "objectSelector"] {
        let field = format!("{field}.{part}");
        match matching.get(part) {
            Some(chosen) => causes.extend(selector::selector(&field, chosen)),
            None => causes.push(StatusCause::required(field, "")),
        }
    }
    for part in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in tree::items(matching, &[part]).iter().enumerate() {
            let field = format!("{field}.{part}[{index}]");
            let names = tree::items(rule, &["resourceNames"]);
            for (index, name) in names.iter().enumerate() {
                let (field, text) = (format!("{field}.resourceNames[{index}]"), name.as_str().unwrap_or_default());
                causes.extend(text::check(&field, text, path_segment));
                if names[..index].contains(name) {
                    causes.push(StatusCause::duplicate(field, quoted(text)));
                }
            }
            causes.extend(webhook::rule(&field, rule));
        }
    }
    causes
}

/// Validates the match conditions of a policy or a webhook.
pub(super) fn match_conditions(field: &str, value: &Value) -> Vec<StatusCause> {
    let conditions = tree::items(value, &["matchConditions"]);
    let mut causes = Vec::new();
    if conditions.len() > CONDITIONS_MAX {
        causes.push(StatusCause::too_many(field, conditions.len(), CONDITIONS_MAX));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (field, name) = (format!("{field}[{index}]"), tree::text(condition, &["name"]));
        let expression_field = format!("{field}.expression");
        match tree::text(condition, &["expression"]).trim() {
            "" => causes.push(StatusCause::required(expression_field, "")),
            text => causes.extend(expression(expression_field, text, &Type::Bool)),
        }
        causes.extend(text::required(&format!("{field}.name"), name, qualified_name));
        let is_known = !names.insert(name);
        if is_known && !name.is_empty() {
            causes.push(StatusCause::duplicate(format!("{field}.name"), quoted(name)));
        }
    }
    causes
}

/// Validates a ValidatingAdmissionPolicy.
pub(super) fn policy(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let mut causes = scope(spec, old);
    if tree::items(spec, &["validations"]).is_empty() && tree::items(spec, &["auditAnnotations"]).is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes
            .extend(["validations", "auditAnnotations"].map(|part| StatusCause::required(format!("spec.{part}"), why)));
    }
    causes.extend(expressions("spec.validations", spec, "validations", &Type::Bool));
    for (index, validation) in tree::items(spec, &["validations"]).iter().enumerate() {
        causes.extend(message(&format!("spec.validations[{index}]"), validation));
    }
    causes.extend(annotations(value.name(), tree::items(spec, &["auditAnnotations"])));
    causes
}

/// Validates the message, message expression and reason of a validation.
fn message(field: &str, validation: &Value) -> Vec<StatusCause> {
    const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    let mut causes = Vec::new();
    let (path, text) = (format!("{field}.messageExpression"), tree::text(validation, &["messageExpression"]));
    if !text.is_empty() && text.trim().is_empty() {
        causes.push(StatusCause::invalid(path, quoted(text), "must be non-empty if specified"));
    } else if !text.is_empty() {
        causes.extend(expression(path, text, &Type::String));
    }
    let text = tree::text(validation, &["message"]);
    let why = match text.trim() {
        "" if !text.is_empty() => Some("message must be non-empty if specified"),
        trimmed if trimmed.contains(['\n', '\r']) => Some("message must not contain line breaks"),
        _ => None,
    };
    causes.extend(why.map(|why| StatusCause::invalid(format!("{field}.message"), quoted(text), why)));
    causes.extend(text::optional_choice(&format!("{field}.reason"), validation.get("reason"), &REASONS));
    causes
}

/// Validates the audit annotations of a policy.
fn annotations(policy: &str, annotations: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if annotations.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        causes.push(StatusCause::invalid("spec.auditAnnotations", Value::from(annotations.to_vec()), &why));
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let (field, key) = (format!("spec.auditAnnotations[{index}]"), tree::text(annotation, &["key"]));
        causes.extend(text::check(&format!("{field}.key"), &format!("{policy}/{key}"), qualified_name));
        let path = format!("{field}.valueExpression");
        match tree::text(annotation, &["valueExpression"]).trim() {
            "" => causes.push(StatusCause::required(path, "valueExpression is not specified")),
            text => causes.extend(expression(path, text, &Type::Dyn)),
        }
        if !keys.insert(key) {
            causes.push(StatusCause::duplicate(format!("{field}.key"), quoted(key)));
        }
    }
    causes
}

/// Validates the status of a ValidatingAdmissionPolicy: each warning needs a field and a text.
pub(super) fn policy_status(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, warning) in tree::items(value, &["status", "typeChecking", "expressionWarnings"]).iter().enumerate() {
        let field = format!("status.typeChecking.expressionWarnings[{index}]");
        causes.extend(text::missing(&field, warning, &["warning"]));
        let field = format!("{field}.fieldRef");
        match tree::text(warning, &["fieldRef"]).trim() {
            "" => causes.push(StatusCause::required(field, "")),
            path => {
                let why = path.parse::<JsonPath>().err().map(|error| format!("invalid JSONPath: {error}"));
                causes.extend(why.map(|why| StatusCause::invalid(field, quoted(path), &why)));
            }
        }
    }
    causes.extend(condition::conditions("status.conditions", tree::items(value, &["status", "conditions"])));
    causes
}

/// Validates a MutatingAdmissionPolicy.
pub(super) fn mutating_policy(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let mut causes = scope(spec, old);
    let mutations = tree::items(spec, &["mutations"]);
    if mutations.is_empty() {
        causes.push(StatusCause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = format!("spec.mutations[{index}]");
        let patch = tree::text(mutation, &["patchType"]);
        let (field, wanted) = match patch {
            "ApplyConfiguration" => ("applyConfiguration", Type::Opaque("Object")),
            "JSONPatch" => ("jsonPatch", Type::list(Type::Opaque("JSONPatch"))),
            "" => {
                causes.push(StatusCause::required(format!("{path}.patchType"), ""));
                continue;
            }
            other => {
                let known = ["ApplyConfiguration", "JSONPatch"];
                causes.push(StatusCause::not_supported(format!("{path}.patchType"), quoted(other), &known));
                continue;
            }
        };
        let path = format!("{path}.{field}.expression");
        match tree::text(mutation, &[field, "expression"]).trim() {
            "" => causes.push(StatusCause::required(path, "")),
            text => causes.extend(expression_in(&mutation_environment(), path, text, &wanted)),
        }
    }
    causes
}

/// Validates a policy binding. Only bindings of validating policies have `validationActions`.
pub(super) fn binding(value: &Value, has_actions: bool) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = text::required("spec.policyName", tree::text(spec, &["policyName"]), dns1123_subdomain);
    causes.extend(spec.get("paramRef").into_iter().flat_map(|reference| self::reference("spec.paramRef", reference)));
    let matching = spec.get("matchResources").into_iter();
    causes.extend(matching.flat_map(|matching| matched("spec.matchResources", matching)));
    if has_actions {
        causes.extend(actions("spec.validationActions", tree::items(spec, &["validationActions"])));
    }
    causes
}

fn reference(field: &str, reference: &Value) -> Vec<StatusCause> {
    const BOTH: &str = "name and selector are mutually exclusive";
    let (name, chosen) = (tree::text(reference, &["name"]), reference.get("selector"));
    let is_both = !name.is_empty() && chosen.is_some();
    let mut causes = text::check_optional(&format!("{field}.name"), name, path_segment);
    causes.extend(is_both.then(|| StatusCause::forbidden(format!("{field}.name"), BOTH)));
    let selector_field = format!("{field}.selector");
    causes.extend(chosen.into_iter().flat_map(|chosen| selector::selector(&selector_field, chosen)));
    causes.extend(is_both.then(|| StatusCause::forbidden(selector_field, BOTH)));
    if name.is_empty() && chosen.is_none() {
        causes.push(StatusCause::required(field, "one of name or selector must be specified"));
    }
    let action = tree::text(reference, &["parameterNotFoundAction"]);
    causes.extend(text::choice(&format!("{field}.parameterNotFoundAction"), action, &["Deny", "Allow"]));
    causes
}

fn actions(field: &str, actions: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, action) in actions.iter().enumerate() {
        let (field, text) = (format!("{field}[{index}]"), action.as_str().unwrap_or_default());
        causes.extend(number::one_of(field.as_str(), text, &["Audit", "Deny", "Warn"]));
        if actions[..index].contains(action) {
            causes.push(StatusCause::duplicate(field, quoted(text)));
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action.as_str() == Some(wanted));
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.push(StatusCause::invalid(field, Value::from(actions.to_vec()), why));
    }
    if actions.is_empty() {
        causes.push(StatusCause::required(field, "at least one validation action is required"));
    }
    causes
}

fn expressions(path: &str, value: &Value, field: &str, wanted: &Type) -> Vec<StatusCause> {
    let listed = tree::items(value, &[field]).iter().enumerate();
    let check = |(index, item): (usize, &Value)| {
        let path = format!("{path}[{index}].expression");
        match tree::text(item, &["expression"]).trim() {
            "" => Some(StatusCause::required(path, "expression is not specified")),
            text => expression(path, text, wanted),
        }
    };
    listed.filter_map(check).collect()
}

fn expression(path: String, text: &str, wanted: &Type) -> Option<StatusCause> {
    expression_in(&policy_environment(), path, text, wanted)
}

fn expression_in(environment: &Environment, path: String, text: &str, wanted: &Type) -> Option<StatusCause> {
    match environment.compile(text) {
        Err(error) => Some(StatusCause::invalid(path, quoted(text), &format!("compilation failed: {error}"))),
        Ok(program) if !program.result_type().is_compatible(wanted) => {
            Some(StatusCause::invalid(path, quoted(text), &format!("must evaluate to {wanted}")))
        }
        Ok(_) => None,
    }
}
