//! Cron schedules: five fields, a macro, or a period.
//!
//! Compatible with Go's robfig/cron. An hour skipped by a time zone has no matches, and a repeated
//! hour has them twice.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use kubewright_core::Time;

/// Minimum, maximum and names of a field.
type FieldRange = (u8, u8, &'static [&'static str]);

const MINUTES: FieldRange = (0, 59, &[]);
const HOURS: FieldRange = (0, 23, &[]);
const DAYS: FieldRange = (1, 31, &[]);
const MONTHS: FieldRange =
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]);
const WEEKDAYS: FieldRange = (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

/// A schedule without a match within this many years has none.
const YEARS: i16 = 5;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Schedule {
    /// Calendar times in a time zone.
    Calendar { fields: Box<CronFields>, zone: TimeZone },
    /// A fixed period after the last time.
    Every(Duration),
}

/// Matching minutes, hours and days as bit sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CronFields {
    minutes: u64,
    hours: u64,
    days: CronField,
    months: u64,
    weekdays: CronField,
}

/// Matching numbers, and whether the field is a star.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CronField {
    bits: u64,
    is_any: bool,
}

impl Schedule {
    /// Parses a schedule in a time zone.
    ///
    /// # Errors
    /// The problem.
    #[doc(alias = "ParseStandard")]
    pub(super) fn parse(text: &str, zone: TimeZone) -> Result<Self, String> {
        if let Some(period) = text.strip_prefix("@every ") {
            let period = duration(period).ok_or_else(|| format!("failed to parse duration {text}"))?;
            // Fractions of seconds are truncated, as times in objects have none.
            return Ok(Schedule::Every(Duration::from_secs(period.as_secs().max(1))));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            word if word.starts_with('@') => return Err(format!("unrecognized descriptor: {word}")),
            fields => fields,
        };
        let [minutes, hours, days, months, weekdays] = text.split_whitespace().collect::<Vec<_>>()[..] else {
            let count = text.split_whitespace().count();
            return Err(format!("expected exactly 5 fields, found {count}: {text}"));
        };
        let fields = CronFields {
            minutes: field(minutes, MINUTES)?.bits,
            hours: field(hours, HOURS)?.bits,
            days: field(days, DAYS)?,
            months: field(months, MONTHS)?.bits,
            weekdays: field(weekdays, WEEKDAYS)?,
        };
        Ok(Schedule::Calendar { fields: Box::new(fields), zone })
    }

    /// The next time after this one, if there is one within the search limit.
    #[doc(alias = "Next")]
    pub(super) fn next(&self, after: Time) -> Option<Time> {
        match self {
            Schedule::Every(period) => after.checked_add(*period),
            Schedule::Calendar { fields, zone } => fields.next(after, zone),
        }
    }
}

impl CronFields {
    fn next(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        let minute = after.as_unix().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60).ok()?.to_zoned(zone.clone());
        let last = at.year() + YEARS;
        while at.year() <= last {
            // The first field that does not match determines where to continue.
            at = if !has(self.months, at.month()) {
                midnight(at.date().last_of_month().tomorrow().ok()?, zone)?
            } else if !self.is_day(&at) {
                midnight(at.date().tomorrow().ok()?, zone)?
            } else if !has(self.hours, at.hour()) {
                later(&at, 60 - i64::from(at.minute()))?
            } else if !has(self.minutes, at.minute()) {
                later(&at, 1)?
            } else {
                return Time::from_unix(at.timestamp().as_second());
            };
        }
        None
    }

    /// If one of the day fields is a star both must match, otherwise either.
    #[doc(alias = "dayMatches")]
    fn is_day(&self, at: &Zoned) -> bool {
        let day = has(self.days.bits, at.day());
        let weekday = has(self.weekdays.bits, at.weekday().to_sunday_zero_offset());
        if self.days.is_any || self.weekdays.is_any { day && weekday } else { day || weekday }
    }
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits & (1 << number) != 0)
}

/// The start of a day, which in some time zones is not always midnight.
fn midnight(date: Date, zone: &TimeZone) -> Option<Zoned> {
    date.to_zoned(zone.clone()).ok()
}

/// The time some minutes later.
fn later(at: &Zoned, minutes: i64) -> Option<Zoned> {
    let later = at.timestamp().as_second() + minutes * 60;
    Some(Timestamp::from_second(later).ok()?.to_zoned(at.time_zone().clone()))
}

/// Parses a field: comma-separated ranges.
fn field(text: &str, bounds: FieldRange) -> Result<CronField, String> {
    let mut all = CronField { bits: 0, is_any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let one = range(part, bounds)?;
        all = CronField { bits: all.bits | one.bits, is_any: all.is_any | one.is_any };
    }
    Ok(all)
}

/// Parses `*`, `n` or `n-m`, optionally with `/step`.
fn range(text: &str, (least, most, names): FieldRange) -> Result<CronField, String> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(number(step)?)),
        None => (text, None),
    };
    let (least, most) = (u32::from(least), u32::from(most));
    let parse = |text: &str| match names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(place) => Ok(least + u32::try_from(place).unwrap_or_default()),
        None => number(text),
    };
    let (is_star, start, end) = match range.split_once('-') {
        // Anything may follow a star, as in kube-apiserver.
        _ if matches!(range.split('-').next(), Some("*" | "?")) => (true, least, most),
        Some((start, end)) => (false, parse(start)?, parse(end)?),
        // With a step, a single number starts a range.
        None => (false, parse(range)?, if step.is_some() { most } else { parse(range)? }),
    };
    let step = step.unwrap_or(1);
    match () {
        () if start < least => Err(format!("beginning of range ({start}) below minimum ({least}): {text}")),
        () if end > most => Err(format!("end of range ({end}) above maximum ({most}): {text}")),
        () if start > end => Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}")),
        () if step == 0 => Err(format!("step of range should be a positive number: {text}")),
        () => {
            let bits = (start..=end).step_by(step as usize).fold(0, |bits, number| bits | 1 << number);
            Ok(CronField { bits, is_any: is_star && step == 1 })
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("failed to parse int from {text}"))
}

/// Parses a Go duration: `1h30m`, `90s`, `1.5h`.
#[doc(alias = "ParseDuration")]
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(digits);
        let end = unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(unit.len());
        let seconds = match &unit[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = &unit[end..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, after: &str) -> Option<String> {
        let zone = if zone == "UTC" { TimeZone::UTC } else { TimeZone::get(zone).unwrap() };
        let next = Schedule::parse(schedule, zone).unwrap().next(after.parse().unwrap());
        next.map(|time| time.to_string())
    }

    #[test]
    fn the_next_moment_is_the_first_that_fits_all_fields() {
        for (schedule, after, want) in [
            ("* * * * *", "2024-02-28T23:59:30Z", "2024-02-29T00:00:00Z"),
            ("* * * * *", "2024-02-28T23:59:00Z", "2024-02-29T00:00:00Z"),
            ("*/15 * * * *", "2024-01-01T00:45:00Z", "2024-01-01T01:00:00Z"),
            ("5/20 3-5,9 * * *", "2024-01-01T05:45:00Z", "2024-01-01T09:05:00Z"),
            ("0 0 29 2 *", "2025-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("30 4 1 jan-mar/2 ?", "2024-01-02T00:00:00Z", "2024-03-01T04:30:00Z"),
            // A Monday, because any day of the month matches.
            ("0 12 * * MON", "2024-01-02T00:00:00Z", "2024-01-08T12:00:00Z"),
            // The 13th or a Friday, whichever is first.
            ("0 0 13 * 5", "2024-01-06T00:00:00Z", "2024-01-12T00:00:00Z"),
            ("0 0 13 * 5", "2024-01-12T00:00:00Z", "2024-01-13T00:00:00Z"),
            // A step is not a star: either day field suffices.
            ("0 0 */30 * 5", "2024-01-06T00:00:00Z", "2024-01-12T00:00:00Z"),
            // Accepted by kube-apiserver: a step beyond the range, and anything after a star.
            ("*/300 * * * *", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"),
            ("*-5 * * * *", "2024-01-01T00:30:00Z", "2024-01-01T00:31:00Z"),
            ("@hourly", "2024-01-01T00:00:01Z", "2024-01-01T01:00:00Z"),
            ("@weekly", "2024-01-01T00:00:00Z", "2024-01-07T00:00:00Z"),
            ("@yearly", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
            ("@every 1h30m", "2024-01-01T00:00:10Z", "2024-01-01T01:30:10Z"),
            ("@every 0.1s", "2024-01-01T00:00:10Z", "2024-01-01T00:00:11Z"),
        ] {
            assert_eq!(next(schedule, "UTC", after).as_deref(), Some(want), "{schedule} after {after}");
        }
        assert_eq!(next("0 0 31 2 *", "UTC", "2024-01-01T00:00:00Z"), None, "there is no such day");
    }

    #[test]
    fn a_schedule_is_meant_in_its_zone() {
        let zone = "Europe/Berlin";
        assert_eq!(next("30 9 * * *", zone, "2024-01-15T00:00:00Z").unwrap(), "2024-01-15T08:30:00Z");
        assert_eq!(next("30 9 * * *", zone, "2024-07-15T00:00:00Z").unwrap(), "2024-07-15T07:30:00Z");
        // The hour from 2 is skipped on one day, and repeated on another.
        assert_eq!(next("30 2 * * *", zone, "2024-03-31T00:00:00Z").unwrap(), "2024-04-01T00:30:00Z");
        assert_eq!(next("30 2 * * *", zone, "2024-10-26T12:00:00Z").unwrap(), "2024-10-27T00:30:00Z");
        assert_eq!(next("30 2 * * *", zone, "2024-10-27T00:30:00Z").unwrap(), "2024-10-27T01:30:00Z");
    }

    #[test]
    fn invalid_schedules_are_rejected() {
        for wrong in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 5-3 * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "* * * * 7",
            "x * * * *",
            "1-2-3 * * * *",
            "@sometimes",
            "@every",
            "@every soon",
            "@every 5",
        ] {
            assert!(Schedule::parse(wrong, TimeZone::UTC).is_err(), "{wrong}");
        }
    }
}
