//! Points and spans of time.

use kubewright_core::Time;

use super::Evaluated;
use crate::cel::error::EvaluationError;
use crate::cel::value::Value;

const SECOND: i128 = 1_000_000_000;
/// The first and the last second that a time can have: those of the years 1 and 9999.
const SECONDS: std::ops::RangeInclusive<i128> = -62_135_596_800..=253_402_300_799;
const DAY: i64 = 86_400;

/// Reads a time with up to nine digits behind the second, in nanoseconds since 1970.
pub(in crate::cel) fn parse_timestamp(text: &str) -> Option<i128> {
    let time: Time = text.parse().ok()?;
    let fraction = text.split_once('.').map(|(_, rest)| rest).unwrap_or_default();
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).take(9).collect();
    let nanos: i128 = format!("{digits:0<9}").parse().ok()?;
    Some(i128::from(time.as_unix()) * SECOND + nanos)
}

/// A time of so many nanoseconds since 1970, if there is one.
pub(in crate::cel) fn timestamp(nanos: i128) -> Evaluated {
    match SECONDS.contains(&nanos.div_euclid(SECOND)) {
        true => Ok(Value::Timestamp(nanos)),
        false => Err(EvaluationError::new("timestamp overflow")),
    }
}

/// A time as text, with as many digits behind the second as it takes.
pub(super) fn show_timestamp(nanos: i128) -> String {
    let (seconds, rest) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND));
    let time = i64::try_from(seconds).ok().and_then(Time::from_unix).unwrap_or(Time::MAX).to_string();
    match rest {
        0 => time,
        rest => {
            let digits = format!("{rest:09}");
            format!("{}.{}Z", time.trim_end_matches('Z'), digits.trim_end_matches('0'))
        }
    }
}

/// Calls a function of a time or a duration.
pub(super) fn method(target: &Value, function: &str, arguments: &[Value]) -> Evaluated {
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
        (Value::Timestamp(nanos), []) => part(*nanos, function),
        (Value::Timestamp(nanos), [Value::String(zone)]) => part(nanos + offset(zone)?, function),
        _ => Err(EvaluationError::no_overload()),
    }
}

/// A part of a date, or of the time of day.
fn part(nanos: i128, function: &str) -> Evaluated {
    let seconds =
        i64::try_from(nanos.div_euclid(SECOND)).map_err(|_| EvaluationError::new("timestamp out of range"))?;
    let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    Ok(Value::Int(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDate" => day,
        "getDayOfMonth" => day - 1,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getDayOfYear" => days - days_before(year),
        "getHours" => of_day / 3600,
        "getMinutes" => of_day / 60 % 60,
        "getSeconds" => of_day % 60,
        "getMilliseconds" => (nanos.rem_euclid(SECOND) / 1_000_000) as i64,
        _ => return Err(EvaluationError::no_overload()),
    }))
}

/// How far a time zone is from UTC. Names of places would need a table of all their laws; only offsets are known.
fn offset(zone: &str) -> Result<i128, EvaluationError> {
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

/// Year, month and day of a day since 1970. Years begin in March here, so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Days from 1970 to the first of January of a year.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) - 719_162
}
