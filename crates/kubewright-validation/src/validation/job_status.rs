//! Validates the status of Jobs.
//!
//! Most rules apply only when a field that they read has changed. So a status that an older server
//! accepted can still be updated, and an inconsistent one can be repaired step by step.

use std::collections::HashSet;

use kubewright_core::meta::v1::StatusCause;
use kubewright_core::{Time, Value, tree};

use super::job_policy::{count_indexes, interval};
use super::metadata::quoted;
use super::{number, text};

const CONDITIONS: &str = "status.conditions";

/// Validates the status of a Job.
pub(super) fn status(value: &Value, old: &Value) -> Vec<StatusCause> {
    let change = JobVersions { now: value, before: old };
    let mut causes: Vec<_> = ["active", "succeeded", "failed", "ready", "terminating"]
        .into_iter()
        .filter_map(|field| number::not_negative(value, &["status", field]))
        .collect();
    causes.extend(uncounted(value));
    causes.extend(change.end());
    causes.extend(change.counts_at_end());
    causes.extend(change.indexes());
    causes.extend(success(value));
    causes.extend(change.regressions());
    causes
}

/// The new and the old version of the job.
struct JobVersions<'a> {
    now: &'a Value,
    before: &'a Value,
}

impl JobVersions<'_> {
    /// Whether a status field changed.
    fn has_changed(&self, field: &str) -> bool {
        tree::get(self.now, &["status", field]) != tree::get(self.before, &["status", field])
    }

    /// Whether a condition changed between true and not true.
    fn has_condition_changed(&self, kind: &str) -> bool {
        is_true(self.now, kind) != is_true(self.before, kind)
    }

    fn has_finish_changed(&self) -> bool {
        is_finished(self.now) != is_finished(self.before)
    }

    /// Validates the terminal conditions and the completion time.
    fn end(&self) -> Vec<StatusCause> {
        const FIELD: &str = "status.completionTime";
        let job = self.now;
        let (is_complete, is_changed) = (is_true(job, "Complete"), self.has_condition_changed("Complete"));
        let mut causes = Vec::new();
        for other in ["Failed", "FailureTarget"] {
            if (is_changed || self.has_condition_changed(other)) && is_complete && is_true(job, other) {
                let why = format!("cannot set Complete=True and {other}=true conditions");
                causes.push(text::invalid_without_value(CONDITIONS, &why));
            }
        }
        let end = tree::get(job, &["status", "completionTime"]);
        let is_end_changed = self.has_changed("completionTime");
        if is_changed || is_end_changed {
            match end {
                Some(end) if !is_complete => {
                    let why = "cannot set completionTime when there is no Complete=True condition";
                    causes.push(StatusCause::invalid(FIELD, end, why));
                }
                None if is_complete => {
                    causes.push(StatusCause::required(FIELD, "completionTime is required for Complete jobs"));
                }
                _ => {}
            }
        }
        if let (Some(start), Some(end)) = (time(job, "startTime"), time(job, "completionTime"))
            && (is_end_changed || self.has_changed("startTime"))
            && end < start
        {
            let shown = tree::get(job, &["status", "completionTime"]).cloned().unwrap_or_default();
            causes.push(StatusCause::invalid(FIELD, shown, "completionTime cannot be set before startTime"));
        }
        for (end, target) in [("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")] {
            let is_checked = self.has_condition_changed(end) || self.has_condition_changed(target);
            if is_checked && is_true(job, end) && !is_true(job, target) {
                let why = format!("cannot set {end}=True condition without the {target}=true condition");
                causes.push(text::invalid_without_value(CONDITIONS, &why));
            }
        }
        causes
    }

    /// Validates that a finished job has no active pods and has a start time.
    fn counts_at_end(&self) -> Vec<StatusCause> {
        let job = self.now;
        let mut causes = Vec::new();
        if !is_finished(job) {
            return causes;
        }
        let is_checked = |field: &str| self.has_finish_changed() || self.has_changed(field);
        if let Some(active) = tree::int(job, &["status", "active"]).filter(|active| *active > 0 && is_checked("active"))
        {
            causes.push(StatusCause::invalid("status.active", active, "active>0 is invalid for finished job"));
        }
        if is_checked("startTime") && tree::get(job, &["status", "startTime"]).is_none() {
            causes.push(StatusCause::required("status.startTime", "startTime is required for finished job"));
        }
        if let Some(pods) = tree::get(job, &["status", "uncountedTerminatedPods"])
            && is_checked("uncountedTerminatedPods")
            && ["succeeded", "failed"].iter().any(|list| !tree::items(pods, &[list]).is_empty())
        {
            let shown = text::internal(pods, &[("Succeeded", "succeeded", "null"), ("Failed", "failed", "null")]);
            let why = "uncountedTerminatedPods needs to be empty for finished job";
            causes.push(StatusCause::invalid("status.uncountedTerminatedPods", shown, why));
        }
        causes
    }

    /// Validates the index lists: sorted, valid, and disjoint.
    fn indexes(&self) -> Vec<StatusCause> {
        const COMPLETED: &str = "status.completedIndexes";
        const FAILED: &str = "status.failedIndexes";
        let job = self.now;
        let [completed, failed] = ["completedIndexes", "failedIndexes"]
            .map(|field| tree::get(job, &["status", field]).and_then(Value::as_str));
        let done = completed.unwrap_or_default();
        let completions = tree::int(job, &["spec", "completions"]);
        let is_limited = tree::get(job, &["spec", "backoffLimitPerIndex"]).is_some();
        let (is_done_changed, is_failed_changed) =
            (self.has_changed("completedIndexes"), self.has_changed("failedIndexes"));
        let mut causes = Vec::new();
        if let Some(completions) = completions {
            let checked = [
                ("completedIndexes", completed.filter(|_| is_done_changed)),
                ("failedIndexes", failed.filter(|_| is_failed_changed && is_limited)),
            ];
            for (name, indexes) in checked {
                let Some(indexes) = indexes else { continue };
                if let Err(why) = count_indexes(indexes, completions) {
                    let why = format!("error parsing {name}: {why}");
                    causes.push(StatusCause::invalid(format!("status.{name}"), quoted(indexes), &why));
                }
            }
        }
        if is_done_changed && !done.is_empty() && tree::text(job, &["spec", "completionMode"]) != "Indexed" {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            causes.push(StatusCause::invalid(COMPLETED, quoted(done), why));
        }
        let Some(failed) = failed else {
            causes.extend(self.pods_left());
            return causes;
        };
        if is_failed_changed && !is_limited {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            causes.push(StatusCause::invalid(FAILED, quoted(failed), why));
        }
        if let Some(completions) = completions
            && (is_done_changed || is_failed_changed)
            && let Some(index) = overlap(done, failed, completions)
        {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            causes.push(StatusCause::invalid(FAILED, quoted(failed), &why));
        }
        causes.extend(self.pods_left());
        causes
    }

    fn pods_left(&self) -> Vec<StatusCause> {
        let count = |field: &str| tree::int(self.now, &["status", field]);
        let mut causes = Vec::new();
        let is_checked = is_finished(self.now) && (self.has_finish_changed() || self.has_changed("terminating"));
        if let Some(pods) = count("terminating").filter(|pods| is_checked && *pods > 0) {
            causes.push(StatusCause::invalid("status.terminating", pods, "terminating>0 is invalid for finished job"));
        }
        let is_checked = self.has_changed("ready") || self.has_changed("active");
        if let Some(ready) = count("ready").filter(|ready| is_checked && *ready > count("active").unwrap_or_default()) {
            causes.push(StatusCause::invalid("status.ready", ready, "cannot set more ready pods than active"));
        }
        causes
    }

    /// Rejects the removal of terminal conditions and decreasing counters.
    fn regressions(&self) -> Vec<StatusCause> {
        let (job, old) = (self.now, self.before);
        let mut causes = Vec::new();
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if is_true(old, kind) && !is_true(job, kind) {
                let why = format!("cannot disable the terminal {kind}=True condition");
                causes.push(text::invalid_without_value(CONDITIONS, &why));
            }
        }
        // Scaling an elastic job down drops the results of its last indexes.
        let spec = |field: &str| tree::get(job, &["spec", field]);
        let is_elastic = spec("completionMode").and_then(Value::as_str) == Some("Indexed")
            && spec("completions") == spec("parallelism");
        for (field, is_fixed) in [("failed", true), ("succeeded", !is_elastic)] {
            let count = |job: &Value| tree::int(job, &["status", field]).unwrap_or_default();
            if is_fixed && count(job) < count(old) {
                let why = format!("cannot decrease the {field} counter");
                causes.push(StatusCause::invalid(format!("status.{field}"), count(job), &why));
            }
        }
        let text_of = |job: &Value, field: &str| tree::text(job, &["status", field]).to_owned();
        let [end, before] = [job, old].map(|job| text_of(job, "completionTime"));
        if !end.is_empty() && !before.is_empty() && end != before {
            causes.push(StatusCause::invalid(
                "status.completionTime",
                quoted(&end),
                "completionTime cannot be mutated",
            ));
        }
        let [start, before] = [job, old].map(|job| text_of(job, "startTime"));
        if !before.is_empty() && start != before && !tree::is_true(job, &["spec", "suspend"]) {
            let why = "startTime cannot be removed for unsuspended job";
            causes.push(StatusCause::required("status.startTime", why));
        }
        let [met, was_met] = [job, old].map(|job| is_true(job, "SuccessCriteriaMet"));
        if was_met && !met {
            let why = "cannot disable the SuccessCriteriaMet=True condition";
            causes.push(text::invalid_without_value(CONDITIONS, why));
        }
        if is_true(old, "Complete") && !was_met && met {
            let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            causes.push(text::invalid_without_value(CONDITIONS, why));
        }
        causes
    }
}

/// Validates that uncounted terminated pods are listed once.
fn uncounted(value: &Value) -> Vec<StatusCause> {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut causes = Vec::new();
    for list in ["succeeded", "failed"] {
        let field = format!("status.uncountedTerminatedPods.{list}");
        for (index, id) in tree::items(value, &["status", "uncountedTerminatedPods", list]).iter().enumerate() {
            match id.as_str().unwrap_or_default() {
                "" => causes.push(StatusCause::invalid(format!("{field}[{index}]"), "\"\"", "must not be empty")),
                id if !seen.insert(id) => {
                    causes.push(StatusCause::duplicate(format!("{field}[{index}]"), quoted(id)));
                }
                _ => {}
            }
        }
    }
    causes
}

/// Validates that `SuccessCriteriaMet` excludes failure, and that a success policy requires it.
fn success(value: &Value) -> Vec<StatusCause> {
    let is_met = is_true(value, "SuccessCriteriaMet");
    let mut causes = Vec::new();
    for other in ["Failed", "FailureTarget"] {
        if is_met && is_true(value, other) {
            let why = format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
            causes.push(text::invalid_without_value(CONDITIONS, &why));
        }
    }
    if tree::get(value, &["spec", "successPolicy"]).is_some() && !is_met && is_true(value, "Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        causes.push(text::invalid_without_value(CONDITIONS, why));
    }
    causes
}

/// The first index that is in both lists. Syntax errors are reported elsewhere.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut done, mut lost) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((from, to)), Some((lost_from, lost_to))) = (done.peek(), lost.peek()) {
        if from <= lost_to && lost_from <= to {
            return Some(*from.max(lost_from));
        }
        if from <= lost_from {
            done.next()
        } else {
            lost.next()
        };
    }
    None
}

fn is_true(job: &Value, kind: &str) -> bool {
    let mut conditions = tree::items(job, &["status", "conditions"]).iter();
    conditions.any(|one| tree::text(one, &["type"]) == kind && tree::text(one, &["status"]) == "True")
}

fn is_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

fn time(job: &Value, field: &str) -> Option<Time> {
    tree::text(job, &["status", field]).parse().ok()
}
