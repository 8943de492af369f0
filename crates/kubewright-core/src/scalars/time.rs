//! Timestamps of API objects: [`Time`] with second, [`MicroTime`] with microsecond precision.
//!
//! Both are integers with their own text format. For calendar and time zone arithmetic convert them
//! to a civil time library, such as jiff with the feature of that name.

mod micro;
mod rfc3339;

use std::num::NonZeroI64;
use std::time::{Duration, SystemTime};
use std::{fmt, str::FromStr};

pub use micro::MicroTime;
use rfc3339::{EPOCH, Fraction, SPAN};

use crate::scalars::text::TextWriter;

/// A timestamp of the years 0 to 9999 with second precision.
///
/// Parses any offset and fraction, which is truncated, and prints UTC. `Option<Time>` has eight
/// bytes, too.
///
/// ```
/// use kubewright_core::Time;
/// let time: Time = "2025-10-01T02:00:00.7+02:00".parse()?;
/// assert_eq!(time.to_string(), "2025-10-01T00:00:00Z");
/// assert_eq!(time.as_unix(), 1_759_276_800);
/// assert_eq!(size_of::<Option<Time>>(), 8);
/// # Ok::<(), kubewright_core::ParseTimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Invariant: from 1 to `SPAN`, seconds since just before the year 0; zero is the niche of
    /// `Option`.
    seconds: NonZeroI64,
}

impl Time {
    /// The first second of the year 0.
    pub const MIN: Time = Time::from_unix(-EPOCH).unwrap();

    /// The last second of the year 9999.
    pub const MAX: Time = Time::from_unix(SPAN - EPOCH - 1).unwrap();

    /// The first second of the year 1, Go's zero time: it is serialised as `null`.
    pub const ZERO: Time = Time::from_unix(-62_135_596_800).unwrap();

    /// The length of the text.
    pub const TEXT_LENGTH: usize = "2006-01-02T15:04:05Z".len();

    /// The current time of the system clock.
    #[inline]
    pub fn now() -> Self {
        MicroTime::now().into()
    }

    /// A timestamp in seconds since 1970, if it is in the years 0 to 9999.
    #[doc(alias = "Unix")]
    #[inline]
    pub const fn from_unix(seconds: i64) -> Option<Self> {
        if seconds < -EPOCH || seconds >= SPAN - EPOCH {
            return None;
        }
        match NonZeroI64::new(seconds + EPOCH + 1) {
            Some(seconds) => Some(Time { seconds }),
            None => None,
        }
    }

    /// The seconds since 1970.
    #[inline]
    pub const fn as_unix(self) -> i64 {
        self.seconds.get() - 1 - EPOCH
    }

    /// Whether this is [`Time::ZERO`].
    #[inline]
    pub fn is_zero(self) -> bool {
        self == Time::ZERO
    }

    /// Parses RFC 3339, as `FromStr` does, from bytes.
    #[inline]
    pub fn parse(text: &[u8]) -> Result<Self, ParseTimeError> {
        let (seconds, _) = rfc3339::parse(text, Fraction::Cut).ok_or(ParseTimeError::new(Fraction::Cut))?;
        Time::from_unix(seconds).ok_or(ParseTimeError::new(Fraction::Cut))
    }

    /// The text of `Display`, written into `buffer` without an allocation.
    #[inline]
    pub fn encode(self, buffer: &mut [u8; Time::TEXT_LENGTH]) -> &str {
        let mut text = TextWriter::new(buffer);
        rfc3339::push_date_time(&mut text, self.as_unix());
        text.push("Z");
        text.finish()
    }

    /// The time plus `duration`, truncated to the second.
    #[inline]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        Time::from_unix(self.as_unix().checked_add_unsigned(duration.as_secs())?)
    }

    /// The time minus `duration`, truncated to the second.
    #[inline]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let seconds = duration.as_secs().checked_add(u64::from(duration.subsec_nanos() > 0))?;
        Time::from_unix(self.as_unix().checked_sub_unsigned(seconds)?)
    }

    /// The time elapsed since `earlier`; `None` if that is later.
    #[inline]
    pub fn duration_since(self, earlier: Time) -> Option<Duration> {
        u64::try_from(self.as_unix() - earlier.as_unix()).ok().map(Duration::from_secs)
    }
}

/// The zero time, as in Go.
impl Default for Time {
    #[inline]
    fn default() -> Self {
        Time::ZERO
    }
}

impl FromStr for Time {
    type Err = ParseTimeError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        Time::parse(text.as_bytes())
    }
}

impl fmt::Display for Time {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; Time::TEXT_LENGTH]))
    }
}

impl fmt::Debug for Time {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({self})")
    }
}

/// Truncates the fraction of the second.
impl From<MicroTime> for Time {
    #[inline]
    fn from(time: MicroTime) -> Self {
        let seconds = time.as_unix_micros().div_euclid(1_000_000);
        Time::from_unix(seconds).expect("both have the same range")
    }
}

/// Truncates the fraction of the second.
impl TryFrom<SystemTime> for Time {
    type Error = TimeRangeError;
    #[inline]
    fn try_from(time: SystemTime) -> Result<Self, TimeRangeError> {
        MicroTime::try_from(time).map(Time::from)
    }
}

/// Fails only if the system cannot represent the time.
impl TryFrom<Time> for SystemTime {
    type Error = TimeRangeError;
    #[inline]
    fn try_from(time: Time) -> Result<Self, TimeRangeError> {
        MicroTime::from(time).try_into()
    }
}

/// Times of the last day of 9999 become jiff's maximum.
#[cfg(feature = "jiff")]
impl From<Time> for jiff::Timestamp {
    #[inline]
    fn from(time: Time) -> Self {
        MicroTime::from(time).into()
    }
}

/// Truncates the fraction of the second. Times before the year 0 become [`Time::MIN`].
#[cfg(feature = "jiff")]
impl From<jiff::Timestamp> for Time {
    #[inline]
    fn from(time: jiff::Timestamp) -> Self {
        MicroTime::from(time).into()
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for Time {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_zero() {
            return serializer.serialize_none();
        }
        serializer.serialize_str(self.encode(&mut [0; Time::TEXT_LENGTH]))
    }
}

/// Accepts a string; `null` is the zero time.
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Time {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeVisitor;
        impl serde_core::de::Visitor<'_> for TimeVisitor {
            type Value = Time;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as in RFC 3339")
            }
            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_unit<E>(self) -> Result<Time, E> {
                Ok(Time::ZERO)
            }
        }
        deserializer.deserialize_any(TimeVisitor)
    }
}

/// A text is not a time, or not one of the years 0 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTimeError {
    layout: &'static str,
}

impl ParseTimeError {
    #[inline]
    fn new(expected: Fraction) -> Self {
        ParseTimeError {
            layout: match expected {
                Fraction::Cut => "2006-01-02T15:04:05Z07:00",
                Fraction::Micros => "2006-01-02T15:04:05.000000Z07:00",
            },
        }
    }
}

impl fmt::Display for ParseTimeError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time is not of the form {}", self.layout)
    }
}

impl std::error::Error for ParseTimeError {}

/// A time is out of the range of the other type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRangeError(());

impl fmt::Display for TimeRangeError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time is out of range")
    }
}

impl std::error::Error for TimeRangeError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_optional_time_takes_one_word() {
        assert_eq!((size_of::<Option<Time>>(), size_of::<Option<MicroTime>>()), (8, 8));
    }

    /// The table contains the results of Go's `time.Parse` for the layouts of both types.
    #[test]
    fn texts_are_read_and_printed_as_go_does() {
        for row in include_str!("../../tests/data/time.tsv").lines() {
            let mut columns = row.split('\t');
            let text = columns.next().unwrap();
            match columns.next().unwrap() {
                "error" => assert!(text.parse::<Time>().is_err(), "{text}"),
                printed => {
                    let time: Time = text.parse().expect(text);
                    assert_eq!(time.to_string(), printed);
                    assert_eq!(time.as_unix().to_string(), columns.next().unwrap(), "{text}");
                }
            }
            match columns.next().unwrap() {
                "error" => assert!(text.parse::<MicroTime>().is_err(), "{text}"),
                printed => {
                    let time: MicroTime = text.parse().expect(text);
                    assert_eq!(time.to_string(), printed);
                    assert_eq!(time.as_unix_micros().to_string(), columns.next().unwrap(), "{text}");
                }
            }
        }
    }

    #[test]
    fn times_beyond_four_digits_of_the_year_are_refused() {
        assert!("0000-01-01T00:00:00+00:01".parse::<Time>().is_err());
        assert!("9999-12-31T23:59:59-00:01".parse::<Time>().is_err());
        assert_eq!(Time::from_unix(Time::MIN.as_unix() - 1), None);
        assert_eq!(Time::MAX.checked_add(Duration::from_secs(1)), None);
        assert_eq!(Time::MAX.checked_add(Duration::MAX), None);
        assert_eq!(Time::MIN.checked_sub(Duration::MAX), None);
    }

    #[test]
    fn differences_are_cut_to_the_second() {
        let time = Time::from_unix(100).unwrap();
        assert_eq!(time.checked_add(Duration::from_millis(1500)), Time::from_unix(101));
        assert_eq!(time.checked_sub(Duration::from_millis(1500)), Time::from_unix(98));
        assert_eq!(time.duration_since(Time::from_unix(40).unwrap()), Some(Duration::from_secs(60)));
        assert_eq!(time.duration_since(Time::MAX), None);
    }

    #[test]
    fn the_zero_time_is_null_in_json() {
        for (json, time) in
            [("null", Time::ZERO), (r#""2025-10-01T00:00:00Z""#, Time::from_unix(1_759_276_800).unwrap())]
        {
            assert_eq!(serde_json::from_str::<Time>(json).unwrap(), time);
            assert_eq!(serde_json::to_string(&time).unwrap(), json);
        }
        assert_eq!(Time::ZERO.to_string(), "0001-01-01T00:00:00Z");
        assert!(serde_json::from_str::<Time>("1759276800").is_err());
    }

    #[test]
    fn the_clock_is_a_time() {
        let now = SystemTime::try_from(Time::now()).unwrap();
        assert!(now <= SystemTime::now() && now.elapsed().unwrap() < Duration::from_secs(60));
    }

    #[cfg(feature = "jiff")]
    #[test]
    fn times_agree_with_jiff() {
        let time: Time = "2025-10-01T00:00:00Z".parse().unwrap();
        assert_eq!(jiff::Timestamp::from(time).to_string(), time.to_string());
        assert_eq!(Time::from(jiff::Timestamp::from(time)), time);
        assert_eq!(jiff::Timestamp::from(Time::MAX).as_second(), jiff::Timestamp::MAX.as_second());
        assert_eq!(Time::from(jiff::Timestamp::MIN), Time::MIN);
    }

    proptest! {
        #[test]
        fn every_time_reads_back_as_itself(seconds in Time::MIN.as_unix()..=Time::MAX.as_unix(), micros in 0..1_000_000i64) {
            let time = Time::from_unix(seconds).unwrap();
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            prop_assert_eq!(Time::try_from(SystemTime::try_from(time).unwrap()), Ok(time));
            let micro_time = MicroTime::from_unix_micros(seconds * 1_000_000 + micros).unwrap();
            prop_assert_eq!(micro_time.to_string().parse(), Ok(micro_time));
            prop_assert_eq!(MicroTime::try_from(SystemTime::try_from(micro_time).unwrap()), Ok(micro_time));
            prop_assert_eq!(Time::from(micro_time), time);
        }

        #[test]
        fn no_text_is_too_strange(text in "[-+.,:TZ0-9]{0,40}|[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-9:]{5,9}[.,]?[0-9]{0,9}[-+:Z0-9]{0,7}") {
            let _ = text.parse::<Time>();
            let _ = text.parse::<MicroTime>();
        }
    }
}
