//! Validates FlowSchemas and PriorityLevelConfigurations.

use std::collections::HashSet;

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::{dns1123_label, dns1123_subdomain};

use super::metadata::quoted;
use super::{condition, flow_fixed, number, text};

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
/// Bits of the flow hash that shuffle sharding can use.
const HASH_BITS: u32 = 60;
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Validates the status of both kinds.
pub(super) fn status(value: &Value) -> Vec<StatusCause> {
    let conditions = tree::items(value, &["status", "conditions"]);
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
    for (index, one) in conditions.iter().enumerate() {
        let field = format!("status.conditions[{index}]");
        causes.extend(condition::repeated(&field, &mut seen, one));
        if tree::text(one, &["type"]).is_empty() {
            causes.push(StatusCause::required(format!("{field}.type"), "must not be empty"));
        }
    }
    causes
}

/// Validates a FlowSchema.
pub(super) fn schema(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let precedence = tree::int(spec, &["matchingPrecedence"]).unwrap_or_default();
    let mut causes = Vec::new();
    let mut complain = |why: &str| causes.push(StatusCause::invalid("spec.matchingPrecedence", precedence, why));
    if precedence <= 0 {
        complain("must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        complain(&format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && value.name() != "exempt" {
        complain("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.get("distinguisherMethod") {
        let known = ["ByNamespace", "ByUser"];
        if !known.contains(&tree::text(method, &["type"])) {
            let shown = text::internal(method, &[("Type", "type", "\"\"")]);
            causes.push(StatusCause::not_supported("spec.distinguisherMethod.type", shown, &known));
        }
    }
    const LEVEL: &str = "spec.priorityLevelConfiguration.name";
    match tree::text(spec, &["priorityLevelConfiguration", "name"]) {
        "" => causes.push(StatusCause::required(LEVEL, "must reference a priority level")),
        name => causes.extend(text::check(LEVEL, name, dns1123_subdomain)),
    }
    for (index, rule) in tree::items(spec, &["rules"]).iter().enumerate() {
        causes.extend(self::rule(&format!("spec.rules[{index}]"), rule));
    }
    causes.extend(flow_fixed::schema(value));
    causes
}

fn rule(field: &str, rule: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let subjects = tree::items(rule, &["subjects"]);
    if subjects.is_empty() {
        causes.push(StatusCause::required(format!("{field}.subjects"), "subjects must contain at least one value"));
    }
    for (index, subject) in subjects.iter().enumerate() {
        causes.extend(self::subject(&format!("{field}.subjects[{index}]"), subject));
    }
    let [resources, others] = ["resourceRules", "nonResourceRules"].map(|part| tree::items(rule, &[part]));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        causes.push(StatusCause::required(field, why));
    }
    for (index, rule) in resources.iter().enumerate() {
        causes.extend(resource_rule(&format!("{field}.resourceRules[{index}]"), rule));
    }
    for (index, rule) in others.iter().enumerate() {
        let field = format!("{field}.nonResourceRules[{index}]");
        causes.extend(verbs(&field, rule));
        let urls = tree::items(rule, &["nonResourceURLs"]);
        let why = "nonResourceURLs must contain at least one value";
        causes.extend(listed(&field, "nonResourceURLs", "non-resource URLs", urls, why));
        if !has_wildcard(urls) {
            let urls = urls.iter().filter_map(Value::as_str).enumerate();
            causes.extend(urls.filter_map(|(index, url)| page(&format!("{field}.nonResourceURLs[{index}]"), url)));
        }
    }
    causes
}

fn has_wildcard(items: &[Value]) -> bool {
    items.iter().any(|item| item.as_str() == Some("*"))
}

/// Requires a list that is not empty and does not mix `*` with other values.
fn listed(field: &str, part: &str, what: &str, items: &[Value], empty: &str) -> Option<StatusCause> {
    let field = format!("{field}.{part}");
    if items.is_empty() {
        return Some(StatusCause::required(field, empty));
    }
    let why = format!("if '*' is present, must not specify other {what}");
    let is_both = items.len() > 1 && has_wildcard(items);
    is_both.then(|| StatusCause::invalid(field, Value::from(items.to_vec()), &why))
}

fn verbs(field: &str, rule: &Value) -> Option<StatusCause> {
    let verbs = tree::items(rule, &["verbs"]);
    let cause = listed(field, "verbs", "verbs", verbs, "verbs must contain at least one value");
    let is_known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    let is_unknown = !has_wildcard(verbs) && !verbs.iter().all(is_known);
    cause.or_else(|| {
        is_unknown.then(|| StatusCause::not_supported(format!("{field}.verbs"), Value::from(verbs.to_vec()), &VERBS))
    })
}

fn resource_rule(field: &str, rule: &Value) -> Vec<StatusCause> {
    let list = |part: &str| tree::items(rule, &[part]);
    let mut causes: Vec<_> = verbs(field, rule).into_iter().collect();
    let why = "resource rules must supply at least one api group";
    causes.extend(listed(field, "apiGroups", "api groups", list("apiGroups"), why));
    let why = "resource rules must supply at least one resource";
    causes.extend(listed(field, "resources", "resources", list("resources"), why));
    let namespaces = list("namespaces");
    if !namespaces.is_empty() || !tree::is_true(rule, &["clusterScope"]) {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        causes.extend(listed(field, "namespaces", "namespaces", namespaces, why));
    }
    if !has_wildcard(namespaces) {
        for (index, namespace) in namespaces.iter().filter_map(Value::as_str).enumerate() {
            for why in dns1123_label(namespace) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {why}");
                let field = format!("{field}.namespaces[{index}]");
                causes.push(StatusCause::invalid(field, quoted(namespace), &why));
            }
        }
    }
    causes
}

/// Validates a subject. Each row of `KINDS` is a kind and its field.
fn subject(field: &str, subject: &Value) -> Vec<StatusCause> {
    const KINDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = tree::text(subject, &["kind"]);
    let Some((_, part)) = KINDS.into_iter().find(|(known, _)| *known == kind) else {
        let known = ["Group", "ServiceAccount", "User"];
        return number::one_of(format!("{field}.kind"), kind, &known).into_iter().collect();
    };
    let mut causes = Vec::new();
    let inner = format!("{field}.{part}");
    match subject.get(part) {
        None => {
            let why = format!("{part} is required when subject kind is '{kind}'");
            causes.push(StatusCause::required(inner, &why));
        }
        Some(named) => {
            let name = tree::text(named, &["name"]);
            if name.is_empty() {
                causes.push(StatusCause::required(format!("{inner}.name"), ""));
            } else if part == "serviceAccount" && name != "*" {
                causes.extend(text::check(&format!("{inner}.name"), name, dns1123_subdomain));
            }
            let namespace = tree::text(named, &["namespace"]);
            if part == "serviceAccount" && namespace.is_empty() {
                let why = "must specify namespace for service account";
                causes.push(StatusCause::required(format!("{inner}.namespace"), why));
            }
            causes.extend(text::check_optional(&format!("{inner}.namespace"), namespace, dns1123_label));
        }
    }
    for (kind, other) in KINDS.into_iter().filter(|(_, other)| *other != part && subject.get(other).is_some()) {
        let why = format!("{other} is forbidden when subject kind is not '{kind}'");
        causes.push(StatusCause::forbidden(format!("{field}.{other}"), &why));
    }
    causes
}

fn page(field: &str, path: &str) -> Option<StatusCause> {
    let stars = path.matches('*').count();
    let why = match path {
        "" => "must not be empty",
        "/" => return None,
        path if !path.starts_with('/') => "must start with slash",
        path if path.contains(' ') => "must not contain white-space",
        path if path.contains("//") => "must not contain double slash",
        path if stars > 1 || stars == 1 && !path.ends_with("/*") => "wildcard can only do suffix matching",
        _ => return None,
    };
    Some(StatusCause::invalid(field, quoted(path), why))
}

/// Validates a PriorityLevelConfiguration.
pub(super) fn level(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let kind = tree::text(spec, &["type"]);
    let mut causes = Vec::new();
    if (value.name() == "exempt") != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        causes.push(StatusCause::invalid("spec.type", quoted(kind), why));
    }
    match (kind, spec.get("limited")) {
        ("Exempt", limited) => {
            if limited.is_some() {
                causes.push(StatusCause::forbidden("spec.limited", "must be nil if the type is Exempt"));
            }
            if let Some(exempt) = spec.get("exempt") {
                causes.extend(shares("spec.exempt", exempt));
            }
        }
        ("Limited", limited) => {
            if spec.get("exempt").is_some() {
                causes.push(StatusCause::forbidden("spec.exempt", "must be nil if the type is Limited"));
            }
            match limited {
                None => causes.push(StatusCause::required("spec.limited", "must not be empty when type is Limited")),
                Some(limited) => causes.extend(self::limited("spec.limited", limited)),
            }
        }
        (other, _) => causes.extend(number::one_of("spec.type", other, &["Exempt", "Limited"])),
    }
    causes.extend(flow_fixed::level(value));
    causes
}

fn shares(field: &str, level: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let number = |part: &str| tree::int(level, &[part]);
    if let Some(shares) = number("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let why = "must be a non-negative integer";
        causes.push(StatusCause::invalid(format!("{field}.nominalConcurrencyShares"), shares, why));
    }
    if let Some(share) = number("lendablePercent").filter(|share| !(0..=100).contains(share)) {
        let why = "must be between 0 and 100, inclusive";
        causes.push(StatusCause::invalid(format!("{field}.lendablePercent"), share, why));
    }
    if let Some(limit) = number("borrowingLimitPercent").filter(|limit| *limit < 0) {
        let why = "if specified, must be a non-negative integer";
        causes.push(StatusCause::invalid(format!("{field}.borrowingLimitPercent"), limit, why));
    }
    causes
}

fn limited(field: &str, limited: &Value) -> Vec<StatusCause> {
    let mut causes = shares(field, limited);
    let field = format!("{field}.limitResponse");
    let queuing = tree::get(limited, &["limitResponse", "queuing"]);
    let inner = format!("{field}.queuing");
    match (tree::text(limited, &["limitResponse", "type"]), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            causes.push(StatusCause::forbidden(inner, why));
        }
        ("Queue", None) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            causes.push(StatusCause::required(inner, why));
        }
        ("Queue", Some(queuing)) => causes.extend(self::queuing(&inner, queuing)),
        (other, _) => causes.extend(number::one_of(format!("{field}.type"), other, &["Queue", "Reject"])),
    }
    causes
}

fn queuing(field: &str, queuing: &Value) -> Vec<StatusCause> {
    let number = |part: &str| tree::int(queuing, &[part]).unwrap_or_default();
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    let mut causes = Vec::new();
    let mut complain =
        |part: &str, shown: i64, why: &str| causes.push(StatusCause::invalid(format!("{field}.{part}"), shown, why));
    if length <= 0 {
        complain("queueLengthLimit", length, "must be positive");
    }
    if queues <= 0 {
        complain("queues", queues, "must be positive");
    } else if queues > QUEUES_MAX {
        complain("queues", queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        complain("handSize", hand, "must be positive");
    } else if hand > queues {
        complain("handSize", hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy(queues, hand) > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        complain("handSize", hand, &why);
    }
    causes
}

/// Bits of entropy needed to deal `hand` cards from a deck of `deck` cards.
fn entropy(deck: i64, hand: i64) -> u32 {
    (hand as f64 * (deck as f64).log2()).ceil() as u32
}
