//! Validation rules for strings and paths.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;
use kubewright_core::{Value, tree};

use super::metadata::quoted;

/// Applies a rule that returns messages to a string.
pub(super) fn check(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    rule(text).iter().map(|why| StatusCause::invalid(field, quoted(text), why)).collect()
}

/// Like [`check`], for an optional string.
pub(super) fn check_optional(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    if text.is_empty() { Vec::new() } else { check(field, text, rule) }
}

/// Like [`check`], for a required string.
pub(super) fn required(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    if text.is_empty() { vec![StatusCause::required(field, "")] } else { check(field, text, rule) }
}

/// Requires that the named string fields are not empty.
pub(super) fn missing(field: &str, value: &Value, names: &[&str]) -> Vec<StatusCause> {
    let empty = names.iter().filter(|name| tree::text(value, &[name]).is_empty());
    empty.map(|name| StatusCause::required(format!("{field}.{name}"), "")).collect()
}

/// A required enum value. `allowed` is in the order of messages.
pub(super) fn choice(field: &str, text: &str, allowed: &[&str]) -> Option<StatusCause> {
    match text {
        "" => Some(StatusCause::required(field, "")),
        text => super::number::one_of(field, text, allowed),
    }
}

/// An optional enum value.
pub(super) fn optional_choice(field: &str, value: Option<&Value>, allowed: &[&str]) -> Option<StatusCause> {
    super::number::one_of(field, value?.as_str()?, allowed)
}

/// An invalid value that the message does not show.
pub(super) fn invalid_without_value(field: &str, why: &str) -> StatusCause {
    let mut cause = StatusCause::invalid(field, "", "");
    cause.message = Some(format!("Invalid value: {why}").into());
    cause
}

/// Rejects a path with `..`.
pub(super) fn no_parent_segments(field: &str, path: &str) -> Option<StatusCause> {
    let has_parent = path.split('/').any(|part| part == "..");
    has_parent.then(|| StatusCause::invalid(field, quoted(path), "must not contain '..'"))
}

/// Requires a relative path without `..`.
pub(super) fn descending(field: &str, path: &str) -> Vec<StatusCause> {
    let is_absolute = path.starts_with('/');
    let absolute = is_absolute.then(|| StatusCause::invalid(field, quoted(path), "must be a relative path"));
    absolute.into_iter().chain(no_parent_segments(field, path)).collect()
}

/// Like [`descending`], and rejects a leading `..`, which the kubelet reserves for its own files.
pub(super) fn unreserved(field: &str, path: &str) -> Vec<StatusCause> {
    let mut causes = descending(field, path);
    if path.starts_with("..") && !path.starts_with("../") {
        causes.push(StatusCause::invalid(field, quoted(path), "must not start with '..'"));
    }
    causes
}

/// Validates file permissions.
pub(super) fn file_mode(field: &str, mode: Option<i64>) -> Option<StatusCause> {
    let mode = mode.filter(|mode| !(0..=0o777).contains(mode))?;
    Some(StatusCause::invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive"))
}

/// Whether a text is a domain-prefixed path such as `example.com/name`.
pub fn is_domain_path(text: &str) -> bool {
    domain_path("", text).is_empty()
}

/// Validates a domain-prefixed path such as `example.com/name`.
pub(super) fn domain_path(field: &str, text: &str) -> Vec<StatusCause> {
    if text.is_empty() {
        return vec![StatusCause::required(field, "")];
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![StatusCause::invalid(field, quoted(text), why)];
    };
    let mut causes = check(field, host, dns1123_subdomain);
    let is_path_byte = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !path.bytes().all(is_path_byte) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        causes.push(StatusCause::invalid(field, quoted(path), why));
    }
    causes
}

/// Renders a structure as the real server prints its internal types.
///
/// Each row is the Go name, the API name, and the text of an unset field.
pub(super) fn internal(value: &Value, fields: &[(&str, &str, &str)]) -> String {
    let shown = fields.iter().map(|(go, name, zero)| match value.get(name) {
        Some(value) => format!("{go:?}:{value}"),
        None => format!("{go:?}:{zero}"),
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}
