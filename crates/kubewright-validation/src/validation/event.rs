//! Validates Events.
//!
//! Events of both groups are stored and validated in the core/v1 form. An event with an `eventTime`
//! is a new-style event, whichever group it comes through. The group `events.k8s.io` accepts only
//! new-style events, and allows changes of `series` only.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta};
use kubewright_core::validation::qualified_name;

use super::metadata::quoted;
use super::text;

/// Maximum lengths of the string fields and of the note, in bytes.
const TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// The fields of ObjectReference and EventSource with their Go names, for messages.
const REFERENCE: [(&str, &str, &str); 7] = [
    ("Kind", "kind", "\"\""),
    ("Namespace", "namespace", "\"\""),
    ("Name", "name", "\"\""),
    ("UID", "uid", "\"\""),
    ("APIVersion", "apiVersion", "\"\""),
    ("ResourceVersion", "resourceVersion", "\"\""),
    ("FieldPath", "fieldPath", "\"\""),
];
const SOURCE: [(&str, &str, &str); 2] = [("Component", "component", "\"\""), ("Host", "host", "\"\"")];

/// Validates an event written through the core group.
pub(super) fn core(value: &Value) -> Vec<StatusCause> {
    any(value, "reportingComponent")
}

/// Validates an event written through `events.k8s.io`, given in the core/v1 form.
pub(super) fn newer(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = any(value, "reportingController");
    if old.is_none_or(|old| old.get("series") != value.get("series")) {
        causes.extend(series(value));
    }
    match old {
        Some(old) => causes.extend(changes(value, old)),
        None => causes.extend(new_style(value)),
    }
    causes
}

/// Validates what both groups require. `reporter` is the group's name of the reporter field.
fn any(value: &Value, reporter: &str) -> Vec<StatusCause> {
    let (about, namespace) = (tree::text(value, &["involvedObject", "namespace"]), value.namespace());
    let is_new_style = set(value, "eventTime").is_some();
    let is_allowed = match (about, is_new_style) {
        ("", false) => namespace == "default",
        (about, false) => namespace == about,
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (_, true) => true,
    };
    let mut causes = Vec::new();
    if !is_allowed {
        let why = "does not match event.namespace";
        causes.push(StatusCause::invalid("involvedObject.namespace", quoted(about), why));
    }
    if !is_new_style {
        return causes;
    }
    let text_of = |field: &str| tree::text(value, &[field]);
    if text_of("reportingComponent").is_empty() {
        causes.push(StatusCause::required(reporter, ""));
    }
    causes.extend(text::check(reporter, text_of("reportingComponent"), qualified_name));
    let too_long = |field: &str, max: usize| {
        let why = format!("can have at most {max} characters");
        (text_of(field).len() > max).then(|| StatusCause::invalid(field, quoted(""), &why))
    };
    for field in ["reportingInstance", "action", "reason"] {
        if text_of(field).is_empty() {
            causes.push(StatusCause::required(field, ""));
        }
        causes.extend(too_long(field, TEXT_MAX));
    }
    causes.extend(too_long("message", NOTE_MAX));
    causes
}

/// Validates the series of an event.
fn series(value: &Value) -> Vec<StatusCause> {
    let Some(series) = set(value, "series") else { return Vec::new() };
    let mut causes = Vec::new();
    if tree::int(series, &["count"]).unwrap_or_default() < 2 {
        causes.push(StatusCause::invalid("series.count", quoted(""), "should be at least 2"));
    }
    if set(series, "lastObservedTime").is_none() {
        causes.push(StatusCause::required("series.lastObservedTime", ""));
    }
    causes
}

/// Validates the rules that only new-style events have.
fn new_style(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    if set(value, "eventTime").is_none() {
        causes.push(StatusCause::required("eventTime", ""));
    }
    let kind = tree::text(value, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(StatusCause::invalid("type", quoted(""), &format!("has invalid value: {kind}")));
    }
    let outdated = ["firstTimestamp", "lastTimestamp", "count", "source"].into_iter();
    let outdated = outdated.filter(|field| set(value, field).is_some());
    causes.extend(outdated.map(|field| StatusCause::invalid(field, quoted(""), "needs to be unset")));
    causes
}

/// Rejects changes of an event through `events.k8s.io`.
fn changes(value: &Value, old: &Value) -> Vec<StatusCause> {
    // The order of the real server, which compares `reason` twice.
    let fields = [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ];
    let name = |field| if field == "reportingComponent" { "reportingController" } else { field };
    let shown = |field: &str| match (field, value.get(field)) {
        ("involvedObject", object) => text::internal(object.unwrap_or(&Value::Null), &REFERENCE),
        ("related", Some(object)) => text::internal(object, &REFERENCE),
        ("source", source) => text::internal(source.unwrap_or(&Value::Null), &SOURCE),
        ("count", count) => count.cloned().unwrap_or(Value::Int(0)).to_string(),
        ("firstTimestamp" | "lastTimestamp" | "eventTime" | "related", other) => {
            other.cloned().unwrap_or_default().to_string()
        }
        (field, _) => quoted(tree::text(value, &[field])),
    };
    let changed = fields.into_iter().filter(|field| set(value, field) != set(old, field));
    changed.map(|field| StatusCause::invalid(name(field), shown(field), "field is immutable")).collect()
}

/// The value of a field, unless it is a Go zero value, which means unset.
fn set<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    let is_zero = |value: &Value| match value {
        Value::Null | Value::Int(0) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.iter().all(|(_, field)| field.as_str() == Some("")),
        _ => false,
    };
    value.get(field).filter(|value| !is_zero(value))
}
