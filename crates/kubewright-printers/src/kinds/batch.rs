//! Cells of Jobs and CronJobs.

use kubewright_core::Value;

use crate::human_duration;
use crate::object::{PrintedObject, time_at};

/// Name, status, completions, duration, age; containers, images, selector.
pub(super) fn job(job: &PrintedObject<'_>) -> Vec<Value> {
    let [names, images] = job.containers(&["spec", "template", "spec", "containers"]);
    let duration = match time_at(job.value, &["status", "startTime"]) {
        Some(start) => {
            let end = time_at(job.value, &["status", "completionTime"]).unwrap_or(job.now);
            human_duration(end.as_unix() - start.as_unix())
        }
        None => String::new(),
    };
    vec![
        job.name(),
        status(job).into(),
        completions(job).into(),
        duration.into(),
        job.age(),
        names,
        images,
        job.selector_cell(&["spec", "selector"]),
    ]
}

fn status(job: &PrintedObject<'_>) -> &'static str {
    let is = |condition: &str| job.condition(condition) == Some("True");
    match () {
        _ if is("Complete") => "Complete",
        _ if is("Failed") => "Failed",
        _ if job.is_terminating() => "Terminating",
        _ if is("Suspended") => "Suspended",
        _ if is("FailureTarget") => "FailureTarget",
        _ => "Running",
    }
}

fn completions(job: &PrintedObject<'_>) -> String {
    let succeeded = job.number(&["status", "succeeded"]);
    match (job.at(&["spec", "completions"]).and_then(Value::as_i64), job.number(&["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// Name, schedule, time zone, suspend, active, last schedule, age; containers, images, selector.
pub(super) fn cron_job(object: &PrintedObject<'_>) -> Vec<Value> {
    let job = |rest: &[&'static str]| [&["spec", "jobTemplate", "spec"], rest].concat();
    let [names, images] = object.containers(&job(&["template", "spec", "containers"]));
    let suspended = object.at(&["spec", "suspend"]).and_then(Value::as_bool);
    let last = if object.has(&["status", "lastScheduleTime"]) {
        object.since(&["status", "lastScheduleTime"])
    } else {
        "<none>".to_owned()
    };
    vec![
        object.name(),
        object.text(&["spec", "schedule"]).into(),
        object.text_or(&["spec", "timeZone"], "<none>"),
        suspended.map_or("<unset>", |suspended| if suspended { "True" } else { "False" }).into(),
        object.count(&["status", "active"]).into(),
        last.into(),
        object.age(),
        names,
        images,
        object.selector_cell(&job(&["selector"])),
    ]
}
