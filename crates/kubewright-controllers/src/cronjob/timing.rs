//! The due time of a cron job.

use std::time::Duration;

use kubewright_api::batch::v1::CronJob;
use kubewright_core::{Object, Time};

use super::schedule::Schedule;

/// The last due time, and the time until the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    /// The last time without a job, if there is one. Earlier missed times are skipped.
    pub(super) due: Option<Time>,
    /// Whether too many times were missed.
    pub(super) has_missed_many: bool,
    pub(super) wait: Option<Duration>,
}

/// More missed times than this cause a warning.
const MAX_SILENT_MISSES: u32 = 100;

/// Computes the due time.
#[doc(alias = "mostRecentScheduleTime")]
#[doc(alias = "nextScheduleTimeDuration")]
pub(super) fn timing(cron: &CronJob, schedule: &Schedule, now: Time) -> Timing {
    let last = cron.status.as_ref().and_then(|status| status.last_schedule_time);
    let since = last.or_else(|| cron.creation_timestamp()).unwrap_or(now);
    // Times beyond the starting deadline need not be searched.
    let deadline = cron.spec.starting_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let oldest = deadline.and_then(|seconds| now.checked_sub(Duration::from_secs(seconds)));
    let from = oldest.map_or(since, |oldest| oldest.max(since));
    let (_, count) = latest(schedule, from, now);
    // Periods continue from the last time, too late or not.
    let (base, _) = latest(schedule, since, now);
    let due = base.filter(|due| oldest.is_none_or(|oldest| *due >= oldest));
    let next = schedule.next(base.unwrap_or(since));
    Timing {
        due,
        has_missed_many: count > MAX_SILENT_MISSES,
        wait: next.map(|next| next.duration_since(now).unwrap_or_default()),
    }
}

/// The last time after `from` up to `now`, and the approximate number of times.
fn latest(schedule: &Schedule, from: Time, now: Time) -> (Option<Time>, u32) {
    let passed = |from: Time| schedule.next(from).filter(|time| *time <= now);
    let Some(first) = passed(from) else { return (None, 0) };
    let Some(second) = passed(first) else { return (Some(first), 1) };
    let step = second.duration_since(first).unwrap_or_default().max(Duration::from_secs(1));
    let count = now.duration_since(first).unwrap_or_default().as_secs() / step.as_secs() + 1;
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // Searches from the end, to avoid walking through years of minutes; aligned to the period.
    let mut start = first.checked_add(step.saturating_mul(count.saturating_sub(2))).unwrap_or(first);
    while start > first && passed(start).is_none() {
        let back = now.duration_since(start).unwrap_or_default().max(step) * 2;
        let steps = u32::try_from(back.as_secs() / step.as_secs()).unwrap_or(u32::MAX);
        start = start.checked_sub(step.saturating_mul(steps)).map_or(first, |start| start.max(first));
    }
    let mut latest = passed(start).unwrap_or(first);
    while let Some(next) = passed(latest) {
        latest = next;
    }
    (Some(latest), count)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn cron(created: &str, last: Option<&str>, deadline: Option<i64>) -> CronJob {
        let mut cron = CronJob::default();
        cron.metadata.creation_timestamp = created.parse().ok();
        cron.spec.starting_deadline_seconds = deadline;
        cron.status.get_or_insert_default().last_schedule_time = last.and_then(|last| last.parse().ok());
        cron
    }

    #[test]
    fn the_latest_past_time_is_due() {
        let created = "2024-01-01T00:00:30Z";
        for (schedule, last, deadline, now, due, wait) in [
            ("0 * * * *", None, None, "2024-01-01T00:30:30Z", None, 1770),
            ("0 * * * *", None, None, "2024-01-01T01:00:00Z", Some("2024-01-01T01:00:00Z"), 3600),
            ("0 * * * *", Some("2024-01-01T01:00:00Z"), None, "2024-01-01T01:00:01Z", None, 3599),
            // A deadline shorter than the period.
            ("@every 1h", None, Some(60), "2024-01-01T01:00:40Z", Some("2024-01-01T01:00:30Z"), 3590),
            ("@every 1h", None, Some(60), "2024-01-01T01:02:40Z", None, 3470),
            // One job replaces all missed ones.
            (
                "0 * * * *",
                Some("2024-01-01T01:00:00Z"),
                None,
                "2024-01-01T05:10:00Z",
                Some("2024-01-01T05:00:00Z"),
                3000,
            ),
            ("* * * * *", None, None, "2026-06-01T12:00:30Z", Some("2026-06-01T12:00:00Z"), 30),
            // Working days only; this is a Sunday.
            ("*/5 * * * 1-5", None, None, "2024-02-04T12:00:00Z", Some("2024-02-02T23:55:00Z"), 43_200),
            ("0 * * * *", None, Some(60), "2024-01-01T05:10:00Z", None, 3000),
            ("0 * * * *", None, Some(660), "2024-01-01T05:10:00Z", Some("2024-01-01T05:00:00Z"), 3000),
            ("@every 1h", None, None, "2024-01-01T03:30:00Z", Some("2024-01-01T03:00:30Z"), 1830),
            ("@every 1h", Some("2024-01-01T03:00:30Z"), None, "2024-01-01T03:30:00Z", None, 1830),
        ] {
            let schedule_of = Schedule::parse(schedule, TimeZone::UTC).unwrap();
            let got = timing(&cron(created, last, deadline), &schedule_of, now.parse().unwrap());
            assert_eq!(got.due.map(|due| due.to_string()).as_deref(), due, "{schedule} {last:?} {now}");
            assert_eq!(got.wait, Some(Duration::from_secs(wait)), "{schedule} {last:?} {now}");
        }
        let never = Schedule::parse("0 0 31 2 *", TimeZone::UTC).unwrap();
        let got = timing(&cron(created, None, None), &never, "2024-01-01T05:10:00Z".parse().unwrap());
        assert_eq!((got.due, got.wait), (None, None));
    }

    #[test]
    fn many_that_were_missed_are_noticed() {
        let minutely = Schedule::parse("* * * * *", TimeZone::UTC).unwrap();
        let cron = cron("2024-01-01T00:00:00Z", None, None);
        for (now, want) in [("2024-01-01T01:40:00Z", false), ("2024-01-01T01:41:00Z", true)] {
            assert_eq!(timing(&cron, &minutely, now.parse().unwrap()).has_missed_many, want, "{now}");
        }
    }
}
