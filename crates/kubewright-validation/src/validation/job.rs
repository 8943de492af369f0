//! Validates Jobs and CronJobs.

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::tree::{self, Meta, text_map};
use kubewright_core::validation::dns1123_label;
use kubewright_core::{Map, Str, Value};

use super::metadata::quoted;
use super::{job_policy, number, pod, schedule, selector, text, workload};

/// Maximum CronJob name length: the controller appends the time of each job.
const CRON_NAME_MAX: usize = 52;
/// Maximum parallelism of an indexed job.
const INDEXED_MAX: i64 = 100_000;
/// Maximum parallelism and `maxFailedIndexes` with `backoffLimitPerIndex` and more than
/// [`INDEXED_MAX`] completions.
const HIGH_MAX: i64 = 10_000;
/// Maximum length of `managedBy`, in bytes.
const MANAGER_MAX: usize = 63;

/// Validates a Job.
pub(super) fn job(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = if old.is_none() { generated(value) } else { Vec::new() };
    causes.extend(spec_causes("spec", value.get("spec").unwrap_or(&Value::Null), old.and_then(|old| old.get("spec"))));
    causes.extend(selection(value));
    let Some(old) = old else {
        causes.extend(host_name(value));
        return causes;
    };
    causes.extend(completions_change(value, old));
    if tree::get(value, &["spec", "completions"]) != tree::get(old, &["spec", "completions"]) {
        causes.extend(host_name(value));
    }
    causes.extend(number::immutable(value, old, &["spec", "selector"]));
    causes.extend(template_change(value, old));
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        causes.extend(number::immutable(value, old, &["spec", field]));
    }
    causes
}

/// Validates a generated selector: it must select by the labels of this job only.
fn generated(value: &Value) -> Vec<StatusCause> {
    const FIELD: &str = "spec.template.metadata.labels";
    let (uid, name) = (value.uid(), value.name());
    let Some(chosen) = tree::get(value, &["spec", "selector"]) else { return Vec::new() };
    if tree::is_true(value, &["spec", "manualSelector"]) {
        return Vec::new();
    }
    let shown = tree::get(value, &["spec", "template", "metadata", "labels"]);
    let labels = text_map(shown);
    let wanted = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let mut causes = Vec::new();
    for (key, text) in wanted {
        let (field, why) = (format!("{FIELD}[{key}]"), format!("must be '{text}'"));
        match labels.get(key) {
            None => causes.push(StatusCause::required(field, &why)),
            Some(label) if label != text => {
                causes.push(StatusCause::invalid(field, shown.cloned().unwrap_or_default(), &why));
            }
            Some(_) => {}
        }
    }
    let wanted: Map<Str> = wanted.into_iter().map(|(key, text)| (key, Str::from(text))).collect();
    if selector::usable(Some(chosen)).is_some_and(|selector| !selector.matches(&wanted)) {
        causes.push(StatusCause::invalid("spec.selector", chosen, "`selector` not auto-generated"));
    }
    causes
}

/// Validates that the selector matches the pod template.
fn selection(value: &Value) -> Vec<StatusCause> {
    let nothing = Value::default();
    let chosen = tree::get(value, &["spec", "selector"]);
    let mut causes = match chosen {
        None => vec![StatusCause::required("spec.selector", "")],
        Some(chosen) => selector::selector("spec.selector", chosen),
    };
    let template = tree::get(value, &["spec", "template"]).unwrap_or(&nothing);
    causes.extend(selector::usable(chosen).and_then(|chosen| workload::matched(&chosen, template)));
    causes
}

/// Validates that the host name of the last index is a DNS label.
fn host_name(value: &Value) -> Option<StatusCause> {
    let is_indexed = tree::text(value, &["spec", "completionMode"]) == "Indexed";
    let count = tree::int(value, &["spec", "completions"]).filter(|count| is_indexed && *count > 0)?;
    let longest = format!("{}-{}", value.name(), count - 1);
    let why = format!("will not able to create pod with invalid DNS label: {longest}");
    (!dns1123_label(&longest).is_empty()).then(|| StatusCause::invalid("metadata.name", quoted(value.name()), &why))
}

/// Allows changes of `completions` for indexed jobs only, together with `parallelism`.
fn completions_change(value: &Value, old: &Value) -> Option<StatusCause> {
    const PATH: [&str; 2] = ["spec", "completions"];
    if tree::text(value, &["spec", "completionMode"]) != "Indexed" {
        return number::immutable(value, old, &PATH);
    }
    let count = tree::int(value, &PATH)?;
    let lacks_parallelism =
        tree::int(old, &PATH) != Some(count) && tree::int(value, &["spec", "parallelism"]) != Some(count);
    lacks_parallelism.then(|| {
        StatusCause::invalid("spec.completions", count, "can only be modified in tandem with spec.parallelism")
    })
}

/// Rejects template changes. In a suspended job, scheduling directives and resources may change.
fn template_change(value: &Value, old: &Value) -> Option<StatusCause> {
    const DIRECTIVES: [&[&str]; 6] = [
        &["spec", "affinity", "nodeAffinity"],
        &["spec", "nodeSelector"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
        &["metadata", "annotations"],
        &["metadata", "labels"],
    ];
    if !tree::is_true(old, &["spec", "suspend"]) {
        return number::immutable(value, old, &["spec", "template"]);
    }
    let [now, before] = [value, old].map(|job| {
        let mut template = tree::get(job, &["spec", "template"]).cloned().unwrap_or_default();
        for path in DIRECTIVES {
            tree::remove(&mut template, path);
        }
        // After the removal above, an empty affinity equals no affinity.
        for path in [&["spec", "affinity"][..], &["metadata"]] {
            if tree::get(&template, path).and_then(Value::as_object).is_some_and(|left| left.is_empty()) {
                tree::remove(&mut template, path);
            }
        }
        if let Some(spec) = tree::field_mut(&mut template, "spec") {
            for list in ["containers", "initContainers"] {
                for container in tree::items_mut(spec, list) {
                    tree::remove(container, &["resources"]);
                }
            }
        }
        template
    });
    let shown = tree::get(value, &["spec", "template"]).cloned().unwrap_or_default();
    (now != before).then(|| StatusCause::invalid("spec.template", shown, "field is immutable"))
}

/// Validates a CronJob.
pub(super) fn cron_job(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let text = tree::text(value, &["spec", "schedule"]);
    if text.is_empty() {
        causes.push(StatusCause::required("spec.schedule", ""));
    } else if let Some(why) = schedule::complaint(text) {
        causes.push(StatusCause::invalid("spec.schedule", quoted(text), &why));
    }
    causes.extend(number::not_negative(value, &["spec", "startingDeadlineSeconds"]));
    let zone = |value: &Value| tree::get(value, &["spec", "timeZone"]).and_then(Value::as_str).map(str::to_owned);
    if old.is_none_or(|old| zone(old) != zone(value)) {
        causes.extend(zone(value).and_then(|zone| schedule::zone("spec.timeZone", &zone)));
    }
    let policy = tree::text(value, &["spec", "concurrencyPolicy"]);
    causes.extend(number::one_of("spec.concurrencyPolicy", policy, &["Allow", "Forbid", "Replace"]));
    let template = tree::get(value, &["spec", "jobTemplate", "spec"]).unwrap_or(&Value::Null);
    let before = old.and_then(|old| tree::get(old, &["spec", "jobTemplate", "spec"]));
    causes.extend(spec_causes("spec.jobTemplate.spec", template, before));
    if let Some(selector) = template.get("selector") {
        let why = "`selector` will be auto-generated";
        causes.push(StatusCause::invalid("spec.jobTemplate.spec.selector", selector, why));
    }
    if tree::is_true(template, &["manualSelector"]) {
        causes.push(StatusCause::not_supported("spec.jobTemplate.spec.manualSelector", true, &["nil", "false"]));
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        causes.extend(number::not_negative(value, &["spec", field]));
    }
    if old.is_none() && value.name().len() > CRON_NAME_MAX {
        let why = format!("must be no more than {CRON_NAME_MAX} characters");
        causes.push(StatusCause::invalid("metadata.name", quoted(value.name()), &why));
    }
    causes
}

/// Validates a job spec at `field` that replaces `old`.
fn spec_causes(field: &str, spec: &Value, old: Option<&Value>) -> Vec<StatusCause> {
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
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        let why = "when maxFailedIndexes is specified";
        causes.push(StatusCause::required(format!("{field}.backoffLimitPerIndex"), why));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        let field = format!("{field}.managedBy");
        causes.extend(text::domain_path(&field, manager));
        if manager.len() > MANAGER_MAX {
            causes.push(StatusCause::too_long(field, MANAGER_MAX));
        }
    }
    causes.extend(completion(field, spec));
    causes.extend(job_policy::failure(&format!("{field}.podFailurePolicy"), spec));
    causes.extend(job_policy::success(&format!("{field}.successPolicy"), spec));
    causes.extend(job_policy::replacement(&format!("{field}.podReplacementPolicy"), spec));
    let template = spec.get("template").unwrap_or(&Value::Null);
    let before = old.and_then(|old| old.get("template"));
    causes.extend(pod::changed_template(&format!("{field}.template"), template, before));
    let field = format!("{field}.template.spec.restartPolicy");
    // Job pods must terminate, so `Always` is not allowed.
    match tree::text(spec, &["template", "spec", "restartPolicy"]) {
        "" | "Always" => causes.push(StatusCause::required(field, "valid values: \"OnFailure\", \"Never\"")),
        policy @ ("OnFailure" | "Never") => {
            if policy != "Never" && spec.get("podFailurePolicy").is_some() {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                causes.push(StatusCause::invalid(field, quoted(policy), why));
            }
        }
        other => causes.push(StatusCause::not_supported(field, quoted(other), &["OnFailure", "Never"])),
    }
    causes
}

/// Validates the completion mode and the back-off limits.
fn completion(field: &str, spec: &Value) -> Vec<StatusCause> {
    const HIGH: &str = "when completions are above 100000 and used with backoff limit per index";
    let number = |part: &str| tree::int(spec, &[part]);
    let mut causes = Vec::new();
    let mut complain =
        |part: &str, shown: i64, why: &str| causes.push(StatusCause::invalid(format!("{field}.{part}"), shown, why));
    let (completions, parallelism, failed) = (number("completions"), number("parallelism"), number("maxFailedIndexes"));
    match tree::text(spec, &["completionMode"]) {
        "" | "NonIndexed" => {
            for part in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(count) = number(part) {
                    complain(part, count, "requires indexed completion mode");
                }
            }
        }
        "Indexed" => {
            if completions.is_none() {
                let why = "when completion mode is Indexed";
                causes.push(StatusCause::required(format!("{field}.completions"), why));
            }
            let mut complain = |part: &str, shown: i64, why: &str| {
                causes.push(StatusCause::invalid(format!("{field}.{part}"), shown, why));
            };
            if let Some(count) = parallelism.filter(|count| *count > INDEXED_MAX) {
                let why = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
                complain("parallelism", count, &why);
            }
            if let Some(count) = failed.filter(|count| completions.is_some_and(|all| *count > all)) {
                complain("maxFailedIndexes", count, "must be less than or equal to completions");
            }
            if let Some(count) = failed.filter(|count| *count > INDEXED_MAX) {
                complain("maxFailedIndexes", count, &format!("must be less than or equal to {INDEXED_MAX}"));
            }
            if completions.is_some_and(|count| count > INDEXED_MAX) && number("backoffLimitPerIndex").is_some() {
                let why = format!("must be less than or equal to {HIGH_MAX} {HIGH}");
                if let Some(count) = parallelism.filter(|count| *count > HIGH_MAX) {
                    complain("parallelism", count, &why);
                }
                match failed {
                    Some(count) if count > HIGH_MAX => complain("maxFailedIndexes", count, &why),
                    Some(_) => {}
                    None => {
                        let why = format!("must be specified when completions is above {INDEXED_MAX}");
                        causes.push(StatusCause::required(format!("{field}.maxFailedIndexes"), &why));
                    }
                }
            }
        }
        other => {
            causes.extend(number::one_of(format!("{field}.completionMode"), other, &["NonIndexed", "Indexed"]));
        }
    }
    causes
}
