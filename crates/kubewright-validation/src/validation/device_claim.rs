//! Validates ResourceClaims and ResourceClaimTemplates.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain, label_value, qualified_name};
use kubewright_core::{Value, tree};

use super::device::{LIST_MAX, config, distinct, each, fully_qualified, name_of, selectors, string_key};
use super::metadata::quoted;
use super::{claim, number, text};

/// Maximum number of subrequests in `firstAvailable`.
const ALTERNATIVES_MAX: usize = 8;
/// Taint effects.
pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates a ResourceClaim. Its spec is immutable.
pub(super) fn claim(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    match old {
        Some(old) => number::immutable(value, old, &["spec"]).into_iter().collect(),
        None => spec_causes("spec", value.get("spec").unwrap_or(&Value::Null)),
    }
}

/// Validates a ResourceClaimTemplate. Its spec is immutable.
pub(super) fn template(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    if let Some(old) = old {
        return number::immutable(value, old, &["spec"]).into_iter().collect();
    }
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = claim::template_metadata("spec.metadata", spec.get("metadata").unwrap_or(&nothing));
    causes.extend(spec_causes("spec.spec", spec.get("spec").unwrap_or(&nothing)));
    causes
}

fn spec_causes(field: &str, spec: &Value) -> Vec<StatusCause> {
    let list = |part: &str| tree::items(spec, &["devices", part]);
    let requests = list("requests");
    let mut causes = distinct(&format!("{field}.devices.requests"), requests, LIST_MAX, request, name_of);
    let constraint = |field: &str, value: &Value| self::constraint(field, value, requests);
    causes.extend(each(&format!("{field}.devices.constraints"), list("constraints"), LIST_MAX, constraint));
    let config = |field: &str, value: &Value| for_requests(field, value, requests);
    causes.extend(each(&format!("{field}.devices.config"), list("config"), LIST_MAX, config));
    causes
}

fn request(field: &str, request: &Value) -> Vec<StatusCause> {
    let mut causes = text::check(&format!("{field}.name"), tree::text(request, &["name"]), dns1123_label);
    let alternatives = tree::items(request, &["firstAvailable"]);
    match (request.get("exactly"), alternatives.is_empty()) {
        (None, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            causes.push(StatusCause::required(field, why));
        }
        (Some(_), false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            causes.push(StatusCause::invalid(field, "null", why));
        }
        (None, false) => {
            let field = format!("{field}.firstAvailable");
            let alternative = |field: &str, one: &Value| {
                let mut causes = text::check(&format!("{field}.name"), tree::text(one, &["name"]), dns1123_label);
                causes.extend(device_rules(field, one));
                causes
            };
            causes.extend(distinct(&field, alternatives, ALTERNATIVES_MAX, alternative, name_of));
        }
        (Some(exactly), true) => causes.extend(device_rules(&format!("{field}.exactly"), exactly)),
    }
    causes
}

/// Validates the device class, selectors, count and tolerations of a request or a subrequest.
fn device_rules(field: &str, request: &Value) -> Vec<StatusCause> {
    let class = tree::text(request, &["deviceClassName"]);
    let mut causes = text::required(&format!("{field}.deviceClassName"), class, dns1123_subdomain);
    causes.extend(selectors(&format!("{field}.selectors"), request));
    let count = tree::int(request, &["count"]).unwrap_or_default();
    let count_field = format!("{field}.count");
    match tree::text(request, &["allocationMode"]) {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            causes.push(StatusCause::invalid(count_field, count, why));
        }
        "ExactCount" if count <= 0 => {
            causes.push(StatusCause::invalid(count_field, count, "must be greater than zero"))
        }
        mode => causes.extend(number::one_of(format!("{field}.allocationMode"), mode, &["All", "ExactCount"])),
    }
    for (index, one) in tree::items(request, &["tolerations"]).iter().enumerate() {
        causes.extend(toleration(&format!("{field}.tolerations[{index}]"), one));
    }
    causes
}

fn toleration(field: &str, toleration: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(toleration, &[part]);
    let mut causes = text::check_optional(&format!("{field}.key"), text_of("key"), qualified_name);
    let value = text_of("value");
    match text_of("operator") {
        "Exists" if !value.is_empty() => {
            let why = "must be empty for operator `Exists`";
            causes.push(StatusCause::invalid(format!("{field}.value"), quoted(value), why));
        }
        "Exists" => {}
        "Equal" => causes.extend(text::check(&format!("{field}.value"), value, label_value)),
        operator => causes.extend(text::choice(&format!("{field}.operator"), operator, &["Equal", "Exists"])),
    }
    if !text_of("effect").is_empty() {
        causes.extend(number::one_of(format!("{field}.effect"), text_of("effect"), &EFFECTS));
    }
    causes
}

/// Validates a constraint over a device attribute.
fn constraint(field: &str, constraint: &Value, requests: &[Value]) -> Vec<StatusCause> {
    let mut causes = names(field, constraint, requests);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|part| Some((part, constraint.get(part)?.as_str()?)));
    match attribute {
        Some((part, name)) => causes.extend(fully_qualified(&format!("{field}.{part}"), name)),
        None => {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields \
                       are set";
            causes.push(StatusCause::required(field, why));
        }
    }
    causes
}

/// Validates a configuration that applies to some requests of a claim.
pub(super) fn for_requests(field: &str, value: &Value, requests: &[Value]) -> Vec<StatusCause> {
    let mut causes = names(field, value, requests);
    causes.extend(config(field, value));
    causes
}

fn names(field: &str, value: &Value, requests: &[Value]) -> Vec<StatusCause> {
    let rule = |field: &str, name: &Value| reference(field, name.as_str().unwrap_or_default(), requests);
    distinct(&format!("{field}.requests"), tree::items(value, &["requests"]), LIST_MAX, rule, string_key)
}

/// Validates a reference to a request, or to a subrequest in the form `request/subrequest`.
pub(super) fn reference(field: &str, name: &str, requests: &[Value]) -> Vec<StatusCause> {
    let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let unknown = || StatusCause::invalid(field, quoted(name), why);
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return vec![unknown()];
    }
    let mut causes: Vec<_> = parts.iter().flat_map(|part| text::check(field, part, dns1123_label)).collect();
    let find = |list: &[Value], name: &str| list.iter().find(|one| tree::text(one, &["name"]) == name).cloned();
    let is_known = find(requests, parts[0]).is_some_and(|request| {
        parts.get(1).is_none_or(|part| find(tree::items(&request, &["firstAvailable"]), part).is_some())
    });
    if !is_known {
        causes.push(unknown());
    }
    causes
}
