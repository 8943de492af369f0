//! Jobs, and jobs that are made again and again.

use kubewright_core::Value;
use kubewright_core::meta::v1::StatusCause;

use super::metadata::quoted;
use super::{number, pod, schedule};
use crate::object::{Meta, tree};

/// A name that still fits when the time of each job is added to it.
const CRON_NAME_MAX: usize = 52;
/// So many pods an indexed job may have at a time.
const INDEXED_MAX: i64 = 100_000;

/// What is wrong with a job.
pub(super) fn job(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = spec_causes("spec", value.get("spec").unwrap_or(&Value::Null));
    if let Some(old) = old {
        if tree::text(value, &["spec", "completionMode"]) != "Indexed" {
            causes.extend(number::immutable(value, old, &["spec", "completions"]));
        }
        causes.extend(number::immutable(value, old, &["spec", "selector"]));
        if !tree::is_true(old, &["spec", "suspend"]) {
            causes.extend(number::immutable(value, old, &["spec", "template"]));
        }
        causes.extend(number::immutable(value, old, &["spec", "completionMode"]));
        causes.extend(number::immutable(value, old, &["spec", "podFailurePolicy"]));
        causes.extend(number::immutable(value, old, &["spec", "backoffLimitPerIndex"]));
    }
    causes
}

/// What is wrong with a job that is made again and again.
pub(super) fn cron_job(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let text = tree::text(value, &["spec", "schedule"]);
    if text.is_empty() {
        causes.push(StatusCause::required("spec.schedule", ""));
    } else if let Some(why) = schedule::complaint(text) {
        causes.push(StatusCause::invalid("spec.schedule", quoted(text), &why));
    }
    causes.extend(number::not_negative(value, &["spec", "startingDeadlineSeconds"]));
    let policy = tree::text(value, &["spec", "concurrencyPolicy"]);
    causes.extend(number::one_of("spec.concurrencyPolicy", policy, &["Allow", "Forbid", "Replace"]));
    let template = tree::get(value, &["spec", "jobTemplate", "spec"]).unwrap_or(&Value::Null);
    causes.extend(spec_causes("spec.jobTemplate.spec", template));
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        causes.extend(number::not_negative(value, &["spec", field]));
    }
    if old.is_none() && value.name().len() > CRON_NAME_MAX {
        let why = format!("must be no more than {CRON_NAME_MAX} characters");
        causes.push(StatusCause::invalid("metadata.name", quoted(value.name()), &why));
    }
    causes
}

/// What is wrong with the specification of a job at `field`.
fn spec_causes(field: &str, spec: &Value) -> Vec<StatusCause> {
    const COUNTS: [&str; 7] = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    let mut causes = Vec::new();
    for name in COUNTS {
        if let Some(count) = tree::int(spec, &[name]).filter(|count| *count < 0) {
            causes.push(StatusCause::invalid(format!("{field}.{name}"), count, "must be greater than or equal to 0"));
        }
    }
    let mode = tree::text(spec, &["completionMode"]);
    match mode {
        "" | "NonIndexed" => {
            let why = "requires indexed completion mode";
            let needs = spec.get("backoffLimitPerIndex").filter(|_| mode != "Indexed");
            causes.extend(needs.map(|count| StatusCause::invalid(format!("{field}.backoffLimitPerIndex"), count, why)));
        }
        "Indexed" => {
            if spec.get("completions").is_none() {
                let why = "when completion mode is Indexed";
                causes.push(StatusCause::required(format!("{field}.completions"), why));
            }
            if let Some(count) = tree::int(spec, &["parallelism"]).filter(|count| *count > INDEXED_MAX) {
                let why = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
                causes.push(StatusCause::invalid(format!("{field}.parallelism"), count, &why));
            }
        }
        other => {
            causes.extend(number::one_of(format!("{field}.completionMode"), other, &["Indexed", "NonIndexed"]));
        }
    }
    let field = format!("{field}.template.spec");
    let nothing = Value::default();
    let template = tree::get(spec, &["template", "spec"]).unwrap_or(&nothing);
    causes.extend(pod::spec_causes(&field, template));
    // The pods of a job end, so they are not always started again.
    match tree::text(template, &["restartPolicy"]) {
        "" | "Always" => causes
            .push(StatusCause::required(format!("{field}.restartPolicy"), "valid values: \"OnFailure\", \"Never\"")),
        policy if policy != "Never" && spec.get("podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.push(StatusCause::invalid(format!("{field}.restartPolicy"), quoted(policy), why));
        }
        _ => {}
    }
    causes
}
