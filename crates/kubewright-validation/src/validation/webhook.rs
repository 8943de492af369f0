//! Validates webhook configurations, and the match rules that policies share with them.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1035_label, dns1123_subdomain};
use kubewright_core::{Value, tree};

use super::control::match_conditions;
use super::metadata::quoted;
use super::{number, selector, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
/// AdmissionReview versions that this server sends.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// Side effect classes. Only the first two are accepted in new objects.
const EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// Rules that were added later. An object that already violates one may continue to.
struct AddedRules {
    names: bool,
    reviews: bool,
    effects: bool,
    selectors: bool,
    conditions: bool,
}

impl AddedRules {
    fn new(webhooks: &[Value], old: Option<&[Value]>) -> Self {
        let all = |rule: &dyn Fn(&Value) -> bool| old.is_none_or(|old| old.iter().all(rule));
        let conditions = |webhooks: &[Value]| -> Vec<Option<Value>> {
            webhooks.iter().map(|webhook| webhook.get("matchConditions").cloned()).collect()
        };
        AddedRules {
            names: old.is_none_or(|old| (0..old.len()).all(|index| !is_known(old, index))),
            reviews: all(&has_known_review),
            effects: all(&|webhook| EFFECTS[..2].contains(&tree::text(webhook, &["sideEffects"]))),
            selectors: all(&|webhook| selectors("", webhook).is_empty()),
            conditions: old.is_none_or(|old| conditions(old) != conditions(webhooks)),
        }
    }
}

/// Validates the webhooks of a configuration.
pub(super) fn webhooks(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let webhooks = tree::items(value, &["webhooks"]);
    let rules = AddedRules::new(webhooks, old.map(|old| tree::items(old, &["webhooks"])));
    for (index, webhook) in webhooks.iter().enumerate() {
        let field = format!("webhooks[{index}]");
        causes.extend(self::webhook(&field, webhook, &rules));
        causes.extend(reviews(&format!("{field}.admissionReviewVersions"), webhook, &rules));
        if rules.names && is_known(webhooks, index) {
            let name = quoted(tree::text(webhook, &["name"]));
            causes.push(StatusCause::duplicate(format!("{field}.name"), name));
        }
    }
    causes
}

/// Whether an earlier webhook has the same name.
fn is_known(webhooks: &[Value], index: usize) -> bool {
    let name = tree::text(&webhooks[index], &["name"]);
    !name.is_empty() && webhooks[..index].iter().any(|other| tree::text(other, &["name"]) == name)
}

fn webhook(field: &str, webhook: &Value, rules: &AddedRules) -> Vec<StatusCause> {
    let field_of = |part: &str| format!("{field}.{part}");
    let name = tree::text(webhook, &["name"]);
    let mut causes = text::required(&field_of("name"), name, qualified_domain);
    for (index, rule) in tree::items(webhook, &["rules"]).iter().enumerate() {
        causes.extend(self::rule(&format!("{field}.rules[{index}]"), rule));
    }
    let choice = |part: &str, allowed| text::optional_choice(&field_of(part), webhook.get(part), allowed);
    causes.extend(choice("failurePolicy", &FAILURE_POLICIES));
    causes.extend(choice("matchPolicy", &MATCH_POLICIES));
    let allowed = if rules.effects { &EFFECTS[..2] } else { &EFFECTS };
    match tree::text(webhook, &["sideEffects"]) {
        "" => {
            let why = format!("must specify one of {}", allowed.join(", "));
            causes.push(StatusCause::required(field_of("sideEffects"), &why));
        }
        effects => causes.extend(number::one_of(field_of("sideEffects"), effects, allowed)),
    }
    if let Some(seconds) = tree::int(webhook, &["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        causes.push(StatusCause::invalid(field_of("timeoutSeconds"), seconds, why));
    }
    if rules.selectors {
        causes.extend(selectors(field, webhook));
    }
    causes.extend(choice("reinvocationPolicy", &["IfNeeded", "Never"]));
    let nowhere = Value::default();
    let config = webhook.get("clientConfig").unwrap_or(&nowhere);
    causes.extend(self::client_config(&field_of("clientConfig"), config));
    if rules.conditions {
        causes.extend(match_conditions(&field_of("matchConditions"), webhook));
    }
    causes
}

fn selectors(field: &str, webhook: &Value) -> Vec<StatusCause> {
    let parts = ["namespaceSelector", "objectSelector"].into_iter();
    let chosen = parts.filter_map(|part| Some((format!("{field}.{part}"), webhook.get(part)?)));
    chosen.flat_map(|(field, chosen)| selector::selector(&field, chosen)).collect()
}

/// Returns the problems of a webhook name, which has at least three labels.
fn qualified_domain(name: &str) -> Vec<String> {
    let complaints = dns1123_subdomain(name);
    if !complaints.is_empty() {
        return vec![complaints.join(",")];
    }
    let why = "should be a domain with at least three segments separated by dots";
    if name.split('.').count() < 3 { vec![why.to_owned()] } else { Vec::new() }
}

fn has_known_review(webhook: &Value) -> bool {
    let versions = tree::items(webhook, &["admissionReviewVersions"]).iter();
    versions.filter_map(Value::as_str).any(|version| REVIEWS.contains(&version))
}

fn reviews(field: &str, webhook: &Value, rules: &AddedRules) -> Vec<StatusCause> {
    let versions = tree::items(webhook, &["admissionReviewVersions"]);
    if versions.is_empty() {
        return vec![StatusCause::required(field, "must specify one of v1, v1beta1")];
    }
    let mut causes = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let (field, name) = (format!("{field}[{index}]"), version.as_str().unwrap_or_default());
        if versions[..index].contains(version) {
            causes.push(StatusCause::invalid(field, quoted(name), "duplicate version"));
            continue;
        }
        causes.extend(text::check(&field, name, dns1035_label));
    }
    if rules.reviews && !has_known_review(webhook) {
        let shown = Value::from(versions.to_vec());
        causes.push(StatusCause::invalid(field, shown, "must include at least one of v1, v1beta1"));
    }
    causes
}

/// Validates a match rule.
pub(super) fn rule(field: &str, rule: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (part, others) in [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let (field, items) = (format!("{field}.{part}"), tree::items(rule, &[part]));
        if items.is_empty() {
            causes.push(StatusCause::required(field.as_str(), ""));
        }
        if items.len() > 1 && items.iter().any(|item| item.as_str() == Some("*")) {
            let why = format!("if '*' is present, must not specify other {others}");
            causes.push(StatusCause::invalid(field.as_str(), Value::from(items.to_vec()), &why));
        }
        for (index, item) in items.iter().filter_map(Value::as_str).enumerate() {
            let field = format!("{field}[{index}]");
            match part {
                "operations" => causes.extend(number::one_of(field, item, &OPERATIONS)),
                "apiVersions" if item.is_empty() => causes.push(StatusCause::required(field, "")),
                _ => {}
            }
        }
    }
    causes.extend(resources(&format!("{field}.resources"), tree::items(rule, &["resources"])));
    let scopes = ["*", "Cluster", "Namespaced"];
    causes.extend(text::optional_choice(&format!("{field}.scope"), rule.get("scope"), &scopes));
    causes
}

/// Validates match rule resources such as `pods`, `pods/*`, `*/scale` and `*`. They must not
/// overlap.
fn resources(field: &str, listed: &[Value]) -> Vec<StatusCause> {
    let names: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
    let mut causes = Vec::new();
    if names.is_empty() {
        causes.push(StatusCause::required(field, ""));
    }
    // As in the real server, only the last name without a slash counts.
    let mut has_plain = false;
    let mut earlier: HashSet<&str> = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if name.is_empty() {
            causes.push(StatusCause::required(field, ""));
            continue;
        }
        let Some((resource, subresource)) = name.split_once('/') else {
            has_plain = *name != "*";
            continue;
        };
        for all in [format!("{resource}/*"), format!("*/{subresource}")] {
            if earlier.contains(all.as_str()) {
                let why = format!("if '{all}' is present, must not specify {name}");
                causes.push(StatusCause::invalid(field.as_str(), quoted(name), &why));
            }
        }
        // Only names with a slash are compared.
        earlier.insert(name);
    }
    let mut complain = |why: &str| causes.push(StatusCause::invalid(field, Value::from(listed.to_vec()), why));
    if names.len() > 1 && names.contains(&"*/*") {
        complain("if '*/*' is present, must not specify other resources");
    }
    if names.contains(&"*") && has_plain {
        complain("if '*' is present, must not specify other resources without subresources");
    }
    causes
}

/// Validates the client configuration of a webhook.
pub(super) fn client_config(field: &str, config: &Value) -> Vec<StatusCause> {
    match (config.get("url").and_then(Value::as_str), config.get("service")) {
        (Some(url), None) => self::url(&format!("{field}.url"), url),
        (None, Some(service)) => self::service(&format!("{field}.service"), service),
        _ => vec![StatusCause::required(field, "exactly one of url or service is required")],
    }
}

fn url(field: &str, url: &str) -> Vec<StatusCause> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut causes = Vec::new();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        causes.push(StatusCause::invalid(field, quoted(scheme), &why));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        causes.push(StatusCause::invalid(field, quoted(""), &format!("host must be specified{FORM}")));
    }
    for (part, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            causes.push(StatusCause::invalid(field, quoted(part), why));
        }
    }
    causes
}

/// Validates a service reference. The real server reports `name` as `namespace` and vice versa.
fn service(field: &str, service: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (part, shown) in [("namespace", "name"), ("name", "namespace")] {
        let is_missing = tree::text(service, &[part]).is_empty();
        causes.extend(is_missing.then(|| StatusCause::required(format!("{field}.{shown}"), "")));
    }
    let port = tree::int(service, &["port"]).unwrap_or_default();
    if number::port(String::new(), port).is_some() {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(StatusCause::invalid(format!("{field}.port"), port, why));
    }
    let path = tree::text(service, &["path"]);
    let mut complain = |why: &str| causes.push(StatusCause::invalid(format!("{field}.path"), quoted(path), why));
    if matches!(path, "" | "/") {
        return causes;
    }
    if !path.starts_with('/') {
        complain("must start with a '/'");
    }
    // The real server skips the first character without checking that it is the slash.
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            complain(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in dns1123_subdomain(step) {
            complain(&format!("segment[{index}]: {why}"));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previously_accepted_webhooks_stay_valid() {
        let configuration = |versions: &str, conditions: &str, ca: &str| {
            let webhook = format!(
                r#"{{"name":"a.example.com","sideEffects":"Some","admissionReviewVersions":{versions},"matchConditions":{conditions},
                "objectSelector":{{"matchLabels":{{"a":"not a label"}}}},"clientConfig":{{"url":"https://example.com","caBundle":"{ca}"}}}}"#
            );
            Value::from_json(format!(r#"{{"webhooks":[{webhook},{webhook}]}}"#).as_bytes()).expect("it is JSON")
        };
        let fields = |new: &Value, old: Option<&Value>| -> Vec<String> {
            let causes = webhooks(new, old).into_iter().filter_map(|cause| cause.field);
            causes.map(|field| field.to_string()).filter(|field| field.starts_with("webhooks[1]")).collect()
        };
        let (old, new) = (configuration(r#"["v7"]"#, "[{}]", "YQ=="), configuration(r#"["v8"]"#, "[{}]", "Yg=="));
        assert_eq!(fields(&new, Some(&old)), [""; 0]);
        let broken = ["sideEffects", "objectSelector.matchLabels", "matchConditions[0].expression"];
        let broken = broken.into_iter().chain(["matchConditions[0].name", "admissionReviewVersions", "name"]);
        assert_eq!(fields(&new, None), broken.map(|part| format!("webhooks[1].{part}")).collect::<Vec<_>>());
        let conditions = configuration(r#"["v7"]"#, "[{},{}]", "YQ==");
        assert_eq!(fields(&conditions, Some(&old)).len(), 4, "conditions that are changed are looked at");
        let kept = Value::from_json(br#"{"webhooks":[]}"#).expect("it is JSON");
        assert_eq!(fields(&new, Some(&kept)).len(), 6, "who has kept the rules keeps them");
    }
}
