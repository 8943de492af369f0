//! Validates probes and lifecycle hooks.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Value, tree};

use super::metadata::quoted;
use super::{number, selector};

/// Validates lifecycle hooks and probes. Init containers have none, except restartable ones
/// (sidecars).
pub(super) fn all(field: &str, container: &Value, is_init: bool, spec: &Value) -> Vec<StatusCause> {
    let is_brief = is_init && tree::text(container, &["restartPolicy"]) != "Always";
    let grace = tree::int(spec, &["terminationGracePeriodSeconds"]).unwrap_or_default();
    let mut causes = Vec::new();
    for part in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(value) = container.get(part) else { continue };
        let field = format!("{field}.{part}");
        if is_brief {
            let why = "may not be set for init containers without restartPolicy=Always";
            causes.push(StatusCause::forbidden(field, why));
        } else if part == "lifecycle" {
            for moment in ["postStart", "preStop"] {
                let handler = value.get(moment).into_iter();
                let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
                let check = |handler| self::handler(&format!("{field}.{moment}"), handler, &kinds, grace);
                causes.extend(handler.flat_map(check));
            }
        } else {
            causes.extend(probe(&field, value, grace));
            let successes = tree::int(value, &["successThreshold"]).filter(|count| *count != 1);
            if let Some(count) = successes.filter(|_| part != "readinessProbe") {
                causes.push(StatusCause::invalid(format!("{field}.successThreshold"), count, "must be 1"));
            }
            let grace = tree::int(value, &["terminationGracePeriodSeconds"]);
            if let Some(seconds) = grace.filter(|_| part == "readinessProbe") {
                let why = "must not be set for readinessProbes";
                causes.push(StatusCause::invalid(format!("{field}.terminationGracePeriodSeconds"), seconds, why));
            }
        }
    }
    causes
}

fn probe(field: &str, probe: &Value, grace: i64) -> Vec<StatusCause> {
    let mut causes = handler(field, probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace);
    for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        if let Some(value) = tree::int(probe, &[number]).filter(|value| *value < 0) {
            causes.push(StatusCause::invalid(format!("{field}.{number}"), value, "must be greater than or equal to 0"));
        }
    }
    if let Some(seconds) = tree::int(probe, &["terminationGracePeriodSeconds"]).filter(|seconds| *seconds <= 0) {
        let why = "must be greater than 0";
        causes.push(StatusCause::invalid(format!("{field}.terminationGracePeriodSeconds"), seconds, why));
    }
    causes
}

/// Validates a handler, which has exactly one of `kinds`.
fn handler(field: &str, handler: &Value, kinds: &[&str], grace: i64) -> Vec<StatusCause> {
    let found: Vec<&str> = kinds.iter().copied().filter(|kind| handler.get(kind).is_some()).collect();
    let mut causes = Vec::new();
    match &found[..] {
        [] => causes.push(StatusCause::required(field, "must specify a handler type")),
        [first, more @ ..] => {
            let value = handler.get(first).unwrap_or(&Value::Null);
            causes.extend(self::action(&format!("{field}.{first}"), first, value, grace));
            let why = "may not specify more than 1 handler type";
            causes.extend(more.iter().map(|kind| StatusCause::forbidden(format!("{field}.{kind}"), why)));
        }
    }
    causes
}

fn action(field: &str, kind: &str, action: &Value, grace: i64) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    match kind {
        "exec" if tree::items(action, &["command"]).is_empty() => {
            causes.push(StatusCause::required(format!("{field}.command"), ""));
        }
        "httpGet" => {
            if tree::text(action, &["path"]).is_empty() {
                causes.push(StatusCause::required(format!("{field}.path"), ""));
            }
            causes.extend(selector::port(&format!("{field}.port"), action.get("port")));
            let scheme = tree::text(action, &["scheme"]);
            causes.extend(number::one_of(format!("{field}.scheme"), scheme, &["HTTP", "HTTPS"]));
            for header in tree::items(action, &["httpHeaders"]) {
                let name = tree::text(header, &["name"]);
                if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
                    let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                               'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
                    let field = format!("{field}.httpHeaders");
                    causes.push(StatusCause::invalid(field, quoted(name), why));
                }
            }
        }
        "sleep" => {
            let seconds = tree::int(action, &["seconds"]).unwrap_or_default();
            if !(0..=grace).contains(&seconds) {
                let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                causes.push(StatusCause::invalid(field, seconds, &why));
            }
        }
        "tcpSocket" | "grpc" => causes.extend(selector::port(&format!("{field}.port"), action.get("port"))),
        _ => {}
    }
    causes
}
