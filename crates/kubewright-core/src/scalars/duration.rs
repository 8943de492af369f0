//! Durations in Go's notation: `1h15m30.5s`.

use std::{fmt, str::FromStr};

use crate::Str;
use crate::scalars::text::TextWriter;

/// A duration in nanoseconds as a signed 64-bit integer.
///
/// ```
/// use kubewright_core::Duration;
/// let duration: Duration = "1.5h".parse()?;
/// assert_eq!(duration.to_string(), "1h30m0s");
/// assert_eq!(std::time::Duration::try_from(duration).unwrap().as_secs(), 5400);
/// # Ok::<(), kubewright_core::ParseDurationError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The magnitude of the most negative duration, the limit for a sum of parts.
const LARGEST: u64 = 1 << 63;

impl Duration {
    /// Zero.
    pub const ZERO: Duration = Duration(0);

    /// The buffer size that [`Duration::encode`] needs.
    pub const TEXT_LENGTH: usize = 32;

    /// A duration in nanoseconds.
    #[inline]
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Duration(nanoseconds)
    }

    /// A duration in seconds; saturates at about 292 years.
    #[inline]
    pub const fn from_secs(seconds: i64) -> Self {
        Duration(seconds.saturating_mul(SECOND as i64))
    }

    /// The nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether it is negative.
    #[inline]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The text of `Display`, written into `buffer` without an allocation.
    #[inline]
    pub fn encode(self, buffer: &mut [u8; Duration::TEXT_LENGTH]) -> &str {
        let mut text = TextWriter::new(buffer);
        if self.is_negative() {
            text.push("-");
        }
        let nanos = self.0.unsigned_abs();
        match nanos {
            0 => text.push("0s"),
            1..MICROSECOND => push_with_unit(&mut text, nanos, 1, "ns"),
            MICROSECOND..MILLISECOND => push_with_unit(&mut text, nanos, MICROSECOND, "µs"),
            MILLISECOND..SECOND => push_with_unit(&mut text, nanos, MILLISECOND, "ms"),
            _ => {
                let minutes = nanos / (60 * SECOND);
                if minutes >= 60 {
                    push_with_unit(&mut text, minutes / 60, 1, "h");
                }
                if minutes > 0 {
                    push_with_unit(&mut text, minutes % 60, 1, "m");
                }
                push_with_unit(&mut text, nanos % (60 * SECOND), SECOND, "s");
            }
        }
        text.finish()
    }
}

/// Writes `value / unit` with as many decimals as needed.
#[inline]
fn push_with_unit(text: &mut TextWriter<'_>, value: u64, unit: u64, name: &str) {
    text.push_number((value / unit).into());
    let (mut rest, mut width) = (value % unit, unit.ilog10());
    if rest > 0 {
        while rest.is_multiple_of(10) {
            rest /= 10;
            width -= 1;
        }
        text.push(".");
        text.push_padded(rest as u32, width as usize);
    }
    text.push(name);
}

impl FromStr for Duration {
    type Err = ParseDurationError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        parse(text).map_err(|reason| ParseDurationError { reason, text: text.into() })
    }
}

#[inline]
fn parse(text: &str) -> Result<Duration, DurationErrorKind> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationErrorKind::Invalid);
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let part;
        (part, rest) = parse_part(rest)?;
        total = total.checked_add(part).filter(|total| *total <= LARGEST).ok_or(DurationErrorKind::Invalid)?;
    }
    let nanoseconds = if negative { 0i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
    nanoseconds.map(Duration).ok_or(DurationErrorKind::Invalid)
}

/// Parses one number with its unit, in nanoseconds.
#[inline]
fn parse_part(text: &str) -> Result<(u64, &str), DurationErrorKind> {
    let (whole, rest) = take_while(text, |byte| byte.is_ascii_digit());
    let (decimals, rest) = match rest.strip_prefix('.') {
        Some(rest) => take_while(rest, |byte| byte.is_ascii_digit()),
        None => ("", rest),
    };
    if whole.is_empty() && decimals.is_empty() {
        return Err(DurationErrorKind::Invalid);
    }
    let value = parse_whole(whole).ok_or(DurationErrorKind::Invalid)?;
    let (name, rest) = take_while(rest, |byte| byte != b'.' && !byte.is_ascii_digit());
    let unit = match name {
        "" => return Err(DurationErrorKind::MissingUnit),
        "ns" => 1,
        // The micro sign and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return Err(DurationErrorKind::UnknownUnit(name.into())),
    };
    let nanoseconds = value.checked_mul(unit).filter(|nanos| *nanos <= LARGEST).ok_or(DurationErrorKind::Invalid)?;
    let (fraction, scale) = parse_decimals(decimals);
    // Go computes the fraction in floating point, so the same precision is lost here.
    let fraction = (fraction as f64 * (unit as f64 / scale)) as u64;
    Ok((nanoseconds.checked_add(fraction).ok_or(DurationErrorKind::Invalid)?, rest))
}

#[inline]
fn parse_whole(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value <= LARGEST)
    })
}

/// The decimals as an integer, and the power of ten to divide it by. Digits that do not fit are
/// dropped.
#[inline]
fn parse_decimals(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0u64, 1.0);
    for digit in digits.bytes() {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if value <= (LARGEST - 1) / 10 && next <= LARGEST => (value, scale) = (next, scale * 10.0),
            _ => break,
        }
    }
    (value, scale)
}

fn take_while(text: &str, belongs: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|byte| belongs(*byte)).count())
}

impl fmt::Display for Duration {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; Duration::TEXT_LENGTH]))
    }
}

impl fmt::Debug for Duration {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Duration({self})")
    }
}

/// Fails beyond 292 years.
impl TryFrom<std::time::Duration> for Duration {
    type Error = DurationRangeError;
    #[inline]
    fn try_from(duration: std::time::Duration) -> Result<Self, DurationRangeError> {
        i64::try_from(duration.as_nanos()).map(Duration).map_err(|_| DurationRangeError(()))
    }
}

/// Fails for negative durations.
impl TryFrom<Duration> for std::time::Duration {
    type Error = DurationRangeError;
    #[inline]
    fn try_from(duration: Duration) -> Result<Self, DurationRangeError> {
        u64::try_from(duration.0).map(std::time::Duration::from_nanos).map_err(|_| DurationRangeError(()))
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for Duration {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.encode(&mut [0; Duration::TEXT_LENGTH]))
    }
}

#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Duration {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;
        impl serde_core::de::Visitor<'_> for DurationVisitor {
            type Value = Duration;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as 1h30m")
            }
            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<Duration, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(DurationVisitor)
    }
}

/// Why a text is not a duration. Its messages are those of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDurationError {
    reason: DurationErrorKind,
    text: Str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DurationErrorKind {
    Invalid,
    MissingUnit,
    UnknownUnit(Str),
}

impl fmt::Display for ParseDurationError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = HexQuoted(&self.text);
        match &self.reason {
            DurationErrorKind::Invalid => write!(f, "time: invalid duration {text}"),
            DurationErrorKind::MissingUnit => write!(f, "time: missing unit in duration {text}"),
            DurationErrorKind::UnknownUnit(unit) => {
                write!(f, "time: unknown unit {} in duration {text}", HexQuoted(unit))
            }
        }
    }
}

impl std::error::Error for ParseDurationError {}

/// Quoted text; everything but printable ASCII is escaped in hexadecimal.
struct HexQuoted<'a>(&'a str);

impl fmt::Display for HexQuoted<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..0x80 => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A duration is out of the range of the other type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationRangeError(());

impl fmt::Display for DurationRangeError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("duration is out of range")
    }
}

impl std::error::Error for DurationRangeError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table contains the results of Go's `time.ParseDuration`.
    #[test]
    fn texts_are_read_and_printed_as_go_does() {
        for row in include_str!("../../tests/data/duration.tsv").lines() {
            let columns: Vec<_> = row.split('\t').collect();
            match columns[..] {
                [text, "error", message] => {
                    assert_eq!(text.parse::<Duration>().expect_err(text).to_string(), message);
                }
                [text, nanoseconds, printed] => {
                    let duration: Duration = text.parse().expect(text);
                    assert_eq!(duration.as_nanos().to_string(), nanoseconds, "{text}");
                    assert_eq!(duration.to_string(), printed);
                }
                _ => panic!("{row:?}"),
            }
        }
    }

    #[test]
    fn parts_that_add_up_to_too_much_are_refused() {
        assert!("9223372036854775808ns9223372036854775808ns".parse::<Duration>().is_err());
    }

    #[test]
    fn durations_of_the_standard_library_convert() {
        let two_seconds = std::time::Duration::from_secs(2);
        assert_eq!(Duration::try_from(two_seconds), Ok(Duration::from_secs(2)));
        assert_eq!(std::time::Duration::try_from(Duration::from_secs(2)), Ok(two_seconds));
        assert!(std::time::Duration::try_from(Duration::from_nanos(-1)).is_err());
        assert!(Duration::try_from(std::time::Duration::MAX).is_err());
    }

    #[test]
    fn json_is_a_string() {
        let duration: Duration = serde_json::from_str(r#""90s""#).unwrap();
        assert_eq!(serde_json::to_string(&duration).unwrap(), r#""1m30s""#);
        assert!(serde_json::from_str::<Duration>("90").is_err());
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_itself(nanoseconds in prop_oneof![any::<i64>(), -100_000_000_000..100_000_000_000i64]) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_is_too_strange(text in "[-+]?([0-9]{0,22}[.]?[0-9]{0,22}(ns|us|µs|ms|s|m|h|é)?){0,3}") {
            let _ = text.parse::<Duration>();
        }
    }
}
