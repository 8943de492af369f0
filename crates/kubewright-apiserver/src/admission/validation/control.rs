//! Webhooks and admission policies: what can be asked at all.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;
use super::{condition, number, text};
use crate::admission::control::{mutation_environment, policy_environment};
use crate::cel::{Environment, Program, Type};
use crate::object::tree;
use crate::table::JsonPath;

/// What is wrong with the webhooks of a configuration.
pub(super) fn webhooks(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (index, webhook) in tree::items(value, &["webhooks"]).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = tree::text(webhook, &["name"]);
        if name.is_empty() {
            causes.push(StatusCause::required(format!("{path}.name"), ""));
        } else if name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            causes.push(StatusCause::invalid(format!("{path}.name"), quoted(name), why));
        }
        if tree::items(webhook, &["admissionReviewVersions"]).is_empty() {
            let why = "must specify one of v1, v1beta1";
            causes.push(StatusCause::required(format!("{path}.admissionReviewVersions"), why));
        }
        let effects = tree::text(webhook, &["sideEffects"]);
        match effects {
            "" => causes
                .push(StatusCause::required(format!("{path}.sideEffects"), "must specify one of None, NoneOnDryRun")),
            _ => causes.extend(number::one_of(format!("{path}.sideEffects"), effects, &["None", "NoneOnDryRun"])),
        }
        if let Some(seconds) = tree::int(webhook, &["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            causes.push(StatusCause::invalid(format!("{path}.timeoutSeconds"), seconds, why));
        }
        causes.extend(client_config(&format!("{path}.clientConfig"), webhook));
        causes.extend(expressions(&format!("{path}.matchConditions"), webhook, "matchConditions", &Type::Bool));
    }
    causes
}

fn client_config(path: &str, webhook: &Value) -> Option<StatusCause> {
    let url = tree::get(webhook, &["clientConfig", "url"]).and_then(Value::as_str);
    let service = tree::get(webhook, &["clientConfig", "service"]);
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            Some(StatusCause::required(path, "exactly one of url or service is required"))
        }
        (Some(url), None) if !url.starts_with("https://") => {
            let shown = quoted(url.split(':').next().unwrap_or_default());
            let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            Some(StatusCause::invalid(format!("{path}.url"), shown, why))
        }
        _ => None,
    }
}

/// What is wrong with that by which any policy says when it applies, and with the variables that it begins with.
fn scope(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if tree::items(spec, &["matchConstraints", "resourceRules"]).is_empty() {
        causes.push(StatusCause::required("spec.matchConstraints.resourceRules", ""));
    }
    causes.extend(expressions("spec.matchConditions", spec, "matchConditions", &Type::Bool));
    causes.extend(expressions("spec.variables", spec, "variables", &Type::Dyn));
    causes
}

/// What is wrong with a policy.
pub(super) fn policy(value: &Value) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let mut causes = scope(spec);
    if tree::items(spec, &["validations"]).is_empty() && tree::items(spec, &["auditAnnotations"]).is_empty() {
        let why = "validations or auditAnnotations must be non-empty";
        causes.push(StatusCause::required("spec.validations", why));
    }
    causes.extend(expressions("spec.validations", spec, "validations", &Type::Bool));
    for (index, validation) in tree::items(spec, &["validations"]).iter().enumerate() {
        let path = format!("spec.validations[{index}].messageExpression");
        let text = tree::text(validation, &["messageExpression"]);
        if !text.is_empty() {
            causes.extend(expression(path, text, &Type::String));
        }
    }
    causes
}

/// What is wrong with the status of a policy: warnings say what they are about.
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

/// What is wrong with a policy that changes objects.
pub(super) fn mutating_policy(value: &Value) -> Vec<StatusCause> {
    let Some(spec) = value.get("spec") else { return vec![StatusCause::required("spec", "")] };
    let mut causes = scope(spec);
    let mutations = tree::items(spec, &["mutations"]);
    if mutations.is_empty() {
        causes.push(StatusCause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let path = format!("spec.mutations[{index}]");
        let patch = tree::text(mutation, &["patchType"]);
        let (field, wanted) = match patch {
            "ApplyConfiguration" => ("applyConfiguration", Type::Named("Object")),
            "JSONPatch" => ("jsonPatch", Type::list(Type::Named("JSONPatch"))),
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

/// What is wrong with a binding.
pub(super) fn binding(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if tree::text(value, &["spec", "policyName"]).is_empty() {
        causes.push(StatusCause::required("spec.policyName", ""));
    }
    let actions = tree::items(value, &["spec", "validationActions"]);
    if actions.is_empty() {
        causes.push(StatusCause::required("spec.validationActions", "at least one validation action is required"));
    }
    let has = |wanted: &str| actions.iter().any(|action| action.as_str() == Some(wanted));
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.push(StatusCause::invalid("spec.validationActions", Value::from(actions.to_vec()), why));
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

fn expression_in(environment: &Environment<'_>, path: String, text: &str, wanted: &Type) -> Option<StatusCause> {
    match Program::compile(text, environment) {
        Err(error) => Some(StatusCause::invalid(path, quoted(text), &format!("compilation failed: {error}"))),
        Ok(program) if !program.result.fits(wanted) => {
            Some(StatusCause::invalid(path, quoted(text), &format!("must evaluate to {wanted}")))
        }
        Ok(_) => None,
    }
}
