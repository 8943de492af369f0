//! Accessors of timestamps and durations.

use crate::error::EvaluationError;
use crate::timestamp::SECOND;
use crate::value::{EvaluationResult, Value};

const DAY: i64 = 86_400;

/// Calls a method of a timestamp or a duration.
pub(super) fn method(target: &Value, function: &str, arguments: &[Value]) -> EvaluationResult {
    match (target, arguments) {
        (Value::Duration(nanos), []) => {
            let unit = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return Err(EvaluationError::no_overload()),
            };
            Ok(Value::Int(nanos / unit))
        }
        (Value::Timestamp(nanos), []) => component(*nanos, function),
        (Value::Timestamp(nanos), [Value::String(zone)]) => component(nanos + utc_offset(zone)?, function),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// A component of the date or of the time of day.
fn component(nanos: i128, function: &str) -> EvaluationResult {
    let seconds =
        i64::try_from(nanos.div_euclid(SECOND)).map_err(|_| EvaluationError::new("timestamp out of range"))?;
    let (days, second_of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil_date(days);
    Ok(Value::Int(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDate" => day,
        "getDayOfMonth" => day - 1,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getDayOfYear" => days - days_before_year(year),
        "getHours" => second_of_day / 3600,
        "getMinutes" => second_of_day / 60 % 60,
        "getSeconds" => second_of_day % 60,
        "getMilliseconds" => (nanos.rem_euclid(SECOND) / 1_000_000) as i64,
        _ => return Err(EvaluationError::no_overload()),
    }))
}

/// The offset of a time zone from UTC.
///
/// Named zones are not supported: they need the time zone database.
fn utc_offset(zone: &str) -> Result<i128, EvaluationError> {
    let unknown = || EvaluationError::new(format!("unknown time zone {zone}"));
    if matches!(zone, "UTC" | "Z" | "") {
        return Ok(0);
    }
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = digits.split_once(':').ok_or_else(unknown)?;
    let number = |text: &str| text.parse::<u8>().map(i128::from).map_err(|_| unknown());
    Ok(sign * (number(hours)? * 3600 + number(minutes)? * 60) * SECOND)
}

/// Year, month and day of a day since 1970.
///
/// Years start in March here, so that leap days come last. Hand-written because timestamps of jiff
/// end a day before the last one of CEL.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Days from 1970 to January 1 of a year.
fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 719_162
}
