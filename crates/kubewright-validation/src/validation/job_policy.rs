//! Validates the pod failure policy and the success policy of jobs.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::qualified_name;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{number, text};

const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
/// Maximum length of an index list, in bytes.
const INDEXES_MAX: usize = 64 << 10;

/// A required enum value. The message for a missing one lists the allowed values.
fn listed_choice(field: String, text: &str, allowed: &[&str]) -> Option<StatusCause> {
    if text.is_empty() {
        let shown: Vec<String> = allowed.iter().map(|one| quoted(one)).collect();
        return Some(StatusCause::required(field, &format!("valid values: [{}]", shown.join(" "))));
    }
    number::one_of(field, text, allowed)
}

/// Validates the pod failure policy.
pub(super) fn failure(field: &str, spec: &Value) -> Vec<StatusCause> {
    let Some(policy) = spec.get("podFailurePolicy") else { return Vec::new() };
    let (rules, field) = (tree::items(policy, &["rules"]), format!("{field}.rules"));
    let mut causes = Vec::new();
    if rules.len() > RULES_MAX {
        causes.push(StatusCause::too_many(field.as_str(), rules.len(), RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        causes.extend(failure_rule(&format!("{field}[{index}]"), rule, spec));
    }
    causes
}

fn failure_rule(field: &str, rule: &Value, spec: &Value) -> Vec<StatusCause> {
    let action = tree::text(rule, &["action"]);
    let mut causes = Vec::new();
    if action == "FailIndex" && spec.get("backoffLimitPerIndex").is_none() {
        let why = "requires the backoffLimitPerIndex to be set";
        causes.push(StatusCause::invalid(format!("{field}.action"), quoted(action), why));
    }
    causes.extend(listed_choice(format!("{field}.action"), action, &["Count", "FailIndex", "FailJob", "Ignore"]));
    let (codes, conditions) = (rule.get("onExitCodes"), tree::items(rule, &["onPodConditions"]));
    if let Some(codes) = codes {
        causes.extend(exit_codes(&format!("{field}.onExitCodes"), codes, spec));
    }
    let conditions_field = format!("{field}.onPodConditions");
    if conditions.len() > PATTERNS_MAX {
        causes.push(StatusCause::too_many(conditions_field.as_str(), conditions.len(), PATTERNS_MAX));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let field = format!("{conditions_field}[{index}]");
        causes.extend(text::check(&format!("{field}.type"), tree::text(pattern, &["type"]), qualified_name));
        let status = tree::text(pattern, &["status"]);
        causes.extend(listed_choice(format!("{field}.status"), status, &["False", "True", "Unknown"]));
    }
    let why = match (codes.is_some(), conditions.is_empty()) {
        (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return causes,
    };
    causes.push(text::invalid_without_value(field, why));
    causes
}

fn exit_codes(field: &str, rule: &Value, spec: &Value) -> Vec<StatusCause> {
    let operator = tree::text(rule, &["operator"]);
    let mut causes: Vec<_> =
        listed_choice(format!("{field}.operator"), operator, &["In", "NotIn"]).into_iter().collect();
    if let Some(name) = rule.get("containerName").and_then(Value::as_str) {
        let lists = ["containers", "initContainers"].into_iter();
        let mut containers = lists.flat_map(|list| tree::items(spec, &["template", "spec", list]));
        if !containers.any(|container| tree::text(container, &["name"]) == name) {
            let why = "must be one of the container or initContainer names in the pod template";
            causes.push(StatusCause::invalid(format!("{field}.containerName"), quoted(name), why));
        }
    }
    let (values, field) = (tree::items(rule, &["values"]), format!("{field}.values"));
    let shown = || Value::from(values.to_vec());
    match values.len() {
        0 => causes.push(StatusCause::invalid(field.as_str(), "null", "at least one value is required")),
        count if count > CODES_MAX => causes.push(StatusCause::too_many(field.as_str(), count, CODES_MAX)),
        _ => {}
    }
    let codes: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
    for (index, code) in codes.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if operator == "In" && *code == 0 {
            causes.push(StatusCause::invalid(field.as_str(), code, "must not be 0 for the In operator"));
        }
        if codes[..index].contains(code) {
            causes.push(StatusCause::duplicate(field, code));
        }
    }
    if !codes.is_sorted() {
        causes.push(StatusCause::invalid(field, shown(), "must be ordered"));
    }
    causes
}

/// Validates the success policy.
pub(super) fn success(field: &str, spec: &Value) -> Vec<StatusCause> {
    let Some(policy) = spec.get("successPolicy") else { return Vec::new() };
    if tree::text(spec, &["completionMode"]) != "Indexed" {
        let shown = text::internal(policy, &[("Rules", "rules", "null")]);
        return vec![StatusCause::invalid(field, shown, "requires indexed completion mode")];
    }
    let (rules, field) = (tree::items(policy, &["rules"]), format!("{field}.rules"));
    let mut causes = Vec::new();
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        causes.push(StatusCause::required(field.as_str(), why));
    }
    if rules.len() > RULES_MAX {
        causes.push(StatusCause::too_many(field.as_str(), rules.len(), RULES_MAX));
    }
    let completions = tree::int(spec, &["completions"]).unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        causes.extend(success_rule(&format!("{field}[{index}]"), rule, completions));
    }
    causes
}

fn success_rule(field: &str, rule: &Value, completions: i64) -> Vec<StatusCause> {
    let (count, indexes) = (tree::int(rule, &["succeededCount"]), rule.get("succeededIndexes").and_then(Value::as_str));
    let mut causes = Vec::new();
    if count.is_none() && indexes.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        causes.push(StatusCause::required(field, why));
    }
    let mut named = 0;
    if let Some(text) = indexes {
        let field = format!("{field}.succeededIndexes");
        if text.len() > INDEXES_MAX {
            causes.push(StatusCause::too_long(field.as_str(), INDEXES_MAX));
        }
        match count_indexes(text, completions) {
            Ok(count) => named = count,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                causes.push(StatusCause::invalid(field, quoted(text), &why));
            }
        }
    }
    if let Some(count) = count {
        let mut complain = |why: &str| causes.push(StatusCause::invalid(format!("{field}.succeededCount"), count, why));
        if count < 0 {
            complain("must be greater than or equal to 0");
        }
        if count > completions {
            complain(&format!("must be less than or equal to {completions} (the number of specified completions)"));
        }
        if indexes.is_some() && count > named {
            complain(&format!(
                "must be less than or equal to {named} (the number of indexes in the specified succeededIndexes field)"
            ));
        }
    }
    causes
}

/// Counts the indexes of a list such as `0,2-4`. They must ascend and be below `completions`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut count, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| first <= *last) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        count += end - first + 1;
        last = Some(end);
    }
    Ok(count)
}

/// Parses an interval such as `2-4` or `3` into its first and last index.
pub(super) fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() > 2 {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let mut numbers = Vec::new();
    for part in parts {
        let number: i64 = part.parse().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
        if number >= completions {
            return Err(format!("too large index: {part:?}"));
        }
        numbers.push(number);
    }
    match numbers[..] {
        [first, end] if first >= end => Err(format!("non-increasing order, previous: {first}, current: {end}")),
        [first, end] => Ok((first, end)),
        _ => Ok((numbers[0], numbers[0])),
    }
}

/// Validates the pod replacement policy.
pub(super) fn replacement(field: &str, spec: &Value) -> Option<StatusCause> {
    let allowed: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    text::optional_choice(field, spec.get("podReplacementPolicy"), allowed)
}
