//! Validates `metav1.Condition` lists.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::qualified_name;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{number, text};

/// Validates conditions. Their types must be unique.
pub(super) fn conditions(field: &str, conditions: &[Value]) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        causes.extend(repeated(&field, &mut seen, condition));
        causes.extend(self::condition(&field, condition));
    }
    causes
}

/// Reports a condition whose type occurred before.
pub(super) fn repeated<'v>(field: &str, seen: &mut HashSet<&'v str>, condition: &'v Value) -> Option<StatusCause> {
    let kind = tree::text(condition, &["type"]);
    let is_known = !seen.insert(kind);
    is_known.then(|| StatusCause::duplicate(format!("{field}.type"), quoted(kind)))
}

fn condition(field: &str, condition: &Value) -> Vec<StatusCause> {
    let text_of = |part: &str| tree::text(condition, &[part]);
    let mut causes = text::check(&format!("{field}.type"), text_of("type"), qualified_name);
    causes.extend(number::one_of(format!("{field}.status"), text_of("status"), &["False", "True", "Unknown"]));
    if let Some(generation) = tree::int(condition, &["observedGeneration"]).filter(|generation| *generation < 0) {
        let why = "must be greater than or equal to zero";
        causes.push(StatusCause::invalid(format!("{field}.observedGeneration"), generation, why));
    }
    causes.extend(text::missing(field, condition, &["lastTransitionTime"]));
    causes.extend(text::required(&format!("{field}.reason"), text_of("reason"), reason_complaints));
    for (part, max) in [("reason", 1 << 10), ("message", 32 << 10)] {
        if text_of(part).len() > max {
            causes.push(StatusCause::too_long(format!("{field}.{part}"), max));
        }
    }
    causes
}

fn reason_complaints(reason: &str) -> Vec<String> {
    let is_inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b',' | b':');
    let is_reason = reason.bytes().next().is_some_and(|c| c.is_ascii_alphabetic())
        && reason.bytes().all(is_inner)
        && !reason.ends_with([',', ':']);
    let why = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
        characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or \
        'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
        '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
    if is_reason { Vec::new() } else { vec![why.to_owned()] }
}
