//! Timestamps as nanoseconds since 1970.

use kubewright_core::Time;

/// Nanoseconds of a second.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// The seconds of the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i128> = -62_135_596_800..=253_402_300_799;

/// Parses an RFC 3339 timestamp with up to nine fractional digits.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let time: Time = text.parse().ok()?;
    let fraction = text.split_once('.').map(|(_, rest)| rest).unwrap_or_default();
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).take(9).collect();
    let nanos: i128 = format!("{digits:0<9}").parse().ok()?;
    Some(i128::from(time.as_unix()) * SECOND + nanos)
}

/// Whether a timestamp is in the years 1 to 9999.
pub(crate) fn is_in_range(nanos: i128) -> bool {
    SECONDS.contains(&nanos.div_euclid(SECOND))
}

/// Formats a timestamp with as many fractional digits as it needs.
pub(crate) fn format(nanos: i128) -> String {
    let seconds = nanos.div_euclid(SECOND);
    let time = i64::try_from(seconds).ok().and_then(Time::from_unix).unwrap_or(Time::MAX).to_string();
    match nanos.rem_euclid(SECOND) {
        0 => time,
        fraction => {
            let digits = format!("{fraction:09}");
            format!("{}.{}Z", time.trim_end_matches('Z'), digits.trim_end_matches('0'))
        }
    }
}
