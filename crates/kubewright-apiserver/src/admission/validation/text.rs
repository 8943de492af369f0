//! Rules for texts and paths, which all kinds share.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::dns1123_subdomain;

use super::metadata::quoted;
use crate::object::tree;

/// What is wrong with a text, by a rule that says so in words.
pub(super) fn kept(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    rule(text).iter().map(|why| StatusCause::invalid(field, quoted(text), why)).collect()
}

/// The same for a text that may be empty.
pub(super) fn kept_if_any(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    if text.is_empty() { Vec::new() } else { kept(field, text, rule) }
}

/// The same for a text that may not be empty.
pub(super) fn required(field: &str, text: &str, rule: impl Fn(&str) -> Vec<String>) -> Vec<StatusCause> {
    if text.is_empty() { vec![StatusCause::required(field, "")] } else { kept(field, text, rule) }
}

/// Texts of an object that may not be empty.
pub(super) fn missing(field: &str, value: &Value, names: &[&str]) -> Vec<StatusCause> {
    let empty = names.iter().filter(|name| tree::text(value, &[name]).is_empty());
    empty.map(|name| StatusCause::required(format!("{field}.{name}"), "")).collect()
}

/// A choice that has to be made among these, in the order in which messages list them.
pub(super) fn choice(field: &str, text: &str, allowed: &[&str]) -> Option<StatusCause> {
    match text {
        "" => Some(StatusCause::required(field, "")),
        text => super::number::one_of(field, text, allowed),
    }
}

/// A choice that may be left open.
pub(super) fn optional_choice(field: &str, value: Option<&Value>, allowed: &[&str]) -> Option<StatusCause> {
    super::number::one_of(field, value?.as_str()?, allowed)
}

/// What is wrong with a value that messages do not show.
pub(super) fn invalid_unseen(field: &str, why: &str) -> StatusCause {
    let mut cause = StatusCause::invalid(field, "", "");
    cause.message = Some(format!("Invalid value: {why}").into());
    cause
}

/// A path does not go up.
pub(super) fn without_backsteps(field: &str, path: &str) -> Option<StatusCause> {
    let goes_up = path.split('/').any(|part| part == "..");
    goes_up.then(|| StatusCause::invalid(field, quoted(path), "must not contain '..'"))
}

/// A path stays below where it starts.
pub(super) fn descending(field: &str, path: &str) -> Vec<StatusCause> {
    let is_absolute = path.starts_with('/');
    let absolute = is_absolute.then(|| StatusCause::invalid(field, quoted(path), "must be a relative path"));
    absolute.into_iter().chain(without_backsteps(field, path)).collect()
}

/// A path stays below where it starts, and does not begin as those do that kubelet keeps for itself.
pub(super) fn unreserved(field: &str, path: &str) -> Vec<StatusCause> {
    let mut causes = descending(field, path);
    if path.starts_with("..") && !path.starts_with("../") {
        causes.push(StatusCause::invalid(field, quoted(path), "must not start with '..'"));
    }
    causes
}

/// Permissions of a file.
pub(super) fn file_mode(field: &str, mode: Option<i64>) -> Option<StatusCause> {
    let mode = mode.filter(|mode| !(0..=0o777).contains(mode))?;
    Some(StatusCause::invalid(field, mode, "must be a number between 0 and 0777 (octal), both inclusive"))
}

/// A name such as `example.com/name`.
pub(super) fn domain_path(field: &str, text: &str) -> Vec<StatusCause> {
    if text.is_empty() {
        return vec![StatusCause::required(field, "")];
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![StatusCause::invalid(field, quoted(text), why)];
    };
    let mut causes = kept(field, host, dns1123_subdomain);
    let is_path_byte = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !path.bytes().all(is_path_byte) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        causes.push(StatusCause::invalid(field, quoted(path), why));
    }
    causes
}

/// What is wrong with a name of up to 63 letters, digits and dashes that begins with a letter.
pub(crate) fn dns1035_label(name: &str) -> Vec<String> {
    const MAX: usize = 63;
    let mut complaints = Vec::new();
    if name.len() > MAX {
        complaints.push(format!("must be no more than {MAX} characters"));
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
    if !begins || name.ends_with('-') || !name.bytes().all(is_plain) {
        let why = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                   character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
                   validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        complaints.push(why.to_owned());
    }
    complaints
}

/// A structure as the server shows its own types: all fields by their names in Go, of which each is given with the name
/// in the API and with what it shows when it is not set.
pub(super) fn internal(value: &Value, fields: &[(&str, &str, &str)]) -> String {
    let shown = fields.iter().map(|(go, name, zero)| match value.get(name) {
        Some(value) => format!("{go:?}:{value}"),
        None => format!("{go:?}:{zero}"),
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}
