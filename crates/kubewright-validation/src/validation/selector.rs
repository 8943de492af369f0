//! Validates label selectors, port names and int-or-string values.

use kubewright_core::meta::v1::{LabelSelector, StatusCause};
use kubewright_core::tree::{self, to_json};
use kubewright_core::validation::{label_value, qualified_name};
use kubewright_core::{Decoder, Selector, Value};

use super::metadata::{self, quoted};

/// Validates a label selector.
pub(super) fn selector(field: &str, selector: &Value) -> Vec<StatusCause> {
    let mut causes = metadata::labels(&format!("{field}.matchLabels"), selector.get("matchLabels"));
    for (index, expression) in tree::items(selector, &["matchExpressions"]).iter().enumerate() {
        causes.extend(requirement(&format!("{field}.matchExpressions[{index}]"), expression));
    }
    causes
}

fn requirement(field: &str, expression: &Value) -> Vec<StatusCause> {
    let values = tree::items(expression, &["values"]);
    let mut causes = Vec::new();
    match tree::text(expression, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.push(StatusCause::required(format!("{field}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(StatusCause::forbidden(format!("{field}.values"), why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let why = "not a valid selector operator";
            causes.push(StatusCause::invalid(format!("{field}.operator"), quoted(other), why));
        }
    }
    let key = tree::text(expression, &["key"]);
    causes.extend(qualified_name(key).iter().map(|why| StatusCause::invalid(format!("{field}.key"), quoted(key), why)));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        let complaints = label_value(value);
        let field = format!("{field}.values[{index}]");
        causes.extend(complaints.iter().map(|why| StatusCause::invalid(field.as_str(), quoted(value), why)));
    }
    causes
}

/// Parses a label selector. An absent one selects nothing; an invalid one returns `None`.
pub(super) fn usable(selector: Option<&Value>) -> Option<Selector> {
    let selector = selector.filter(|selector| !selector.is_null());
    let decoded: Option<LabelSelector> = selector.and_then(|selector| Decoder::new().json(&to_json(selector)).ok());
    Selector::from_label_selector(decoded.as_ref()).ok()
}

/// Validates a port name.
pub(super) fn port_name(field: &str, name: &str) -> Vec<StatusCause> {
    let mut complaints = Vec::new();
    if name.len() > 15 {
        complaints.push("must be no more than 15 characters");
    }
    if name.is_empty() || !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-') {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        complaints.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        complaints.push("must not begin or end with a hyphen");
    }
    complaints.into_iter().map(|why| StatusCause::invalid(field, quoted(name), why)).collect()
}

/// Validates a port number or port name.
pub(super) fn port(field: &str, port: Option<&Value>) -> Vec<StatusCause> {
    match port {
        Some(Value::String(name)) => port_name(field, name),
        Some(Value::Int(number)) => super::number::port(field.to_owned(), *number).into_iter().collect(),
        _ => super::number::port(field.to_owned(), 0).into_iter().collect(),
    }
}

/// Validates an integer or a percentage. `is_bounded` limits percentages to 100%.
pub(super) fn amount(field: &str, amount: Option<&Value>, is_bounded: bool) -> Vec<StatusCause> {
    match amount {
        Some(Value::Int(number)) if *number < 0 => {
            vec![StatusCause::invalid(field, *number, "must be greater than or equal to 0")]
        }
        Some(Value::String(text)) => match text.strip_suffix('%').filter(|digits| is_number(digits)) {
            None => vec![StatusCause::invalid(
                field,
                quoted(text),
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )],
            Some(digits) if is_bounded && digits.parse::<u64>().is_ok_and(|percent| percent > 100) => {
                vec![StatusCause::invalid(field, quoted(text), "must not be greater than 100%")]
            }
            Some(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Rejects a percentage above 100%.
pub(super) fn above_100_percent(field: &str, amount: Option<&Value>) -> Option<StatusCause> {
    let text = amount?.as_str()?;
    let percent = text.strip_suffix('%').filter(|digits| is_number(digits))?.parse::<u64>().ok()?;
    (percent > 100).then(|| StatusCause::invalid(field, quoted(text), "must not be greater than 100%"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}
