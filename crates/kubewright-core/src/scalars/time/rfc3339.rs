//! RFC 3339, with Go's leniency and strictness.
//!
//! Unlike the standard, hours of one digit, a comma before the fraction and offsets up to 24:60 are
//! accepted; lower-case letters and leap seconds are not. Years have four digits, also in UTC.

use crate::scalars::text::TextWriter;

/// The seconds from the beginning of the year 0 to the beginning of 1970.
pub(super) const EPOCH: i64 = 62_167_219_200;

/// The seconds of the years 0 to 9999.
pub(super) const SPAN: i64 = 315_569_520_000;

const SECONDS_OF_DAY: i64 = 86_400;

/// The days of 400 years, the period of the calendar.
const DAYS_OF_ERA: i64 = 146_097;

/// The fraction of the second.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fraction {
    /// Any number of digits, truncated.
    Cut,
    /// Exactly six digits.
    Micros,
}

/// Seconds since 1970 and microseconds within the second.
#[inline]
pub(super) fn parse(text: &[u8], expected: Fraction) -> Option<(i64, u32)> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', rest @ ..] = text else { return None };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let month = number(&[*m1, *m2])?;
    let day = number(&[*d1, *d2])?;
    if !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
        return None;
    }
    let (hour, rest) = match rest {
        [h1, b':', rest @ ..] => (number(&[*h1])?, rest),
        [h1, h2, b':', rest @ ..] => (number(&[*h1, *h2])?, rest),
        _ => return None,
    };
    let [n1, n2, b':', s1, s2, rest @ ..] = rest else { return None };
    let (minute, second) = (number(&[*n1, *n2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (micros, rest) = parse_fraction(rest, expected)?;
    let time_of_day = i64::from(hour * 3600 + minute * 60 + second);
    let since_year_zero = days_before(year, month, day) * SECONDS_OF_DAY + time_of_day - parse_offset(rest)?;
    (0..SPAN).contains(&since_year_zero).then_some((since_year_zero - EPOCH, micros))
}

#[inline]
fn parse_fraction(text: &[u8], expected: Fraction) -> Option<(u32, &[u8])> {
    match (expected, text) {
        (Fraction::Micros, [b'.' | b',', a, b, c, d, e, f, rest @ ..]) => {
            Some((number(&[*a, *b, *c, *d, *e, *f])?, rest))
        }
        (Fraction::Micros, _) => None,
        (Fraction::Cut, [b'.' | b',', b'0'..=b'9', rest @ ..]) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            Some((0, &rest[digits..]))
        }
        (Fraction::Cut, _) => Some((0, text)),
    }
}

/// The offset from UTC in seconds.
#[inline]
fn parse_offset(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let seconds = i64::from(hours * 3600 + minutes * 60);
            (hours <= 24 && minutes <= 60).then_some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// Writes seconds since 1970, without fraction or zone.
#[inline]
pub(super) fn push_date_time(text: &mut TextWriter<'_>, unix: i64) {
    let since_year_zero = unix + EPOCH;
    let (year, month, day) = date_after(since_year_zero.div_euclid(SECONDS_OF_DAY));
    let second = since_year_zero.rem_euclid(SECONDS_OF_DAY) as u32;
    text.push_padded(year, 4);
    text.push("-");
    text.push_padded(month, 2);
    text.push("-");
    text.push_padded(day, 2);
    text.push("T");
    text.push_padded(second / 3600, 2);
    text.push(":");
    text.push_padded(second / 60 % 60, 2);
    text.push(":");
    text.push_padded(second % 60, 2);
}

#[inline]
fn number(digits: &[u8]) -> Option<u32> {
    let mut value = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u32::from(byte - b'0');
    }
    Some(value)
}

#[inline]
fn days_of_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days from the first day of the year 0 to a date.
///
/// Years are counted from March of the year -1, so that a leap day is the last day of its year and
/// any five consecutive months have 153 days. That March is 306 days before the beginning of the
/// year 0.
#[inline]
fn days_before(year: u32, month: u32, day: u32) -> i64 {
    let (years, months) = if month > 2 { (year + 1, month - 3) } else { (year, month + 9) };
    // The leap days passed are those of the calendar's years from 0, a leap year, to `years - 1`.
    let leap_days = years.div_ceil(4) - years.div_ceil(100) + years.div_ceil(400);
    i64::from(years * 365 + leap_days + (153 * months + 2) / 5 + day - 1) - 306
}

/// The date this many days after the first day of the year 0.
#[inline]
fn date_after(days: i64) -> (u32, u32, u32) {
    // From March of the year 0, which is 60 days later; January and February of that year end an
    // era.
    let days = days - 60;
    let (era, day_of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let (carry, month) = if months < 10 { (0, months + 3) } else { (1, months - 9) };
    ((era * 400 + year_of_era + carry) as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_ten_thousand_years_is_counted() {
        let mut days = 0;
        for year in 0..10_000 {
            for month in 1..=12 {
                for day in 1..=days_of_month(year, month) {
                    assert_eq!(days_before(year, month, day), days, "{year}-{month}-{day}");
                    assert_eq!(date_after(days), (year, month, day));
                    days += 1;
                }
            }
        }
        assert_eq!(days * SECONDS_OF_DAY, SPAN);
        assert_eq!(days_before(1970, 1, 1) * SECONDS_OF_DAY, EPOCH);
    }
}
