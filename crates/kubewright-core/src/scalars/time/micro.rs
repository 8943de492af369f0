//! Timestamps with microsecond precision, for leases and events.

use std::num::NonZeroI64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, str::FromStr};

use super::rfc3339::{self, EPOCH, Fraction, SPAN};
use super::{ParseTimeError, Time, TimeRangeError};
use crate::scalars::text::TextWriter;

const MICROS: i64 = 1_000_000;

/// A timestamp of the years 0 to 9999 with microsecond precision.
///
/// Prints UTC with six fractional digits and parses exactly six, because Kubernetes accepts no
/// others. `Option<MicroTime>` has eight bytes, too.
///
/// ```
/// use kubewright_core::MicroTime;
/// let time: MicroTime = "2025-10-01T02:00:00.500000+02:00".parse()?;
/// assert_eq!(time.to_string(), "2025-10-01T00:00:00.500000Z");
/// assert!("2025-10-01T00:00:00.5Z".parse::<MicroTime>().is_err());
/// # Ok::<(), kubewright_core::ParseTimeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime {
    /// Invariant: from 1 to `SPAN * MICROS`, counted as in [`Time`].
    micros: NonZeroI64,
}

impl MicroTime {
    /// The first microsecond of the year 0.
    pub const MIN: MicroTime = MicroTime::from_unix_micros(-EPOCH * MICROS).unwrap();

    /// The last microsecond of the year 9999.
    pub const MAX: MicroTime = MicroTime::from_unix_micros((SPAN - EPOCH) * MICROS - 1).unwrap();

    /// The beginning of the year 1, Go's zero time: it is serialised as `null`.
    pub const ZERO: MicroTime = MicroTime::from_unix_micros(Time::ZERO.as_unix() * MICROS).unwrap();

    /// The length of the text.
    pub const TEXT_LENGTH: usize = "2006-01-02T15:04:05.000000Z".len();

    /// The current time of the system clock.
    #[doc(alias = "NowMicro")]
    #[inline]
    pub fn now() -> Self {
        let now = SystemTime::now();
        now.try_into().unwrap_or(if now < UNIX_EPOCH { MicroTime::MIN } else { MicroTime::MAX })
    }

    /// A timestamp in microseconds since 1970, if it is in the years 0 to 9999.
    #[doc(alias = "UnixMicro")]
    #[inline]
    pub const fn from_unix_micros(micros: i64) -> Option<Self> {
        if micros < -EPOCH * MICROS || micros >= (SPAN - EPOCH) * MICROS {
            return None;
        }
        match NonZeroI64::new(micros + EPOCH * MICROS + 1) {
            Some(micros) => Some(MicroTime { micros }),
            None => None,
        }
    }

    /// The microseconds since 1970.
    #[inline]
    pub const fn as_unix_micros(self) -> i64 {
        self.micros.get() - 1 - EPOCH * MICROS
    }

    /// Whether this is [`MicroTime::ZERO`].
    #[inline]
    pub fn is_zero(self) -> bool {
        self == MicroTime::ZERO
    }

    /// Parses RFC 3339 with six fractional digits, as `FromStr` does, from bytes.
    #[inline]
    pub fn parse(text: &[u8]) -> Result<Self, ParseTimeError> {
        rfc3339::parse(text, Fraction::Micros)
            .and_then(|(seconds, micros)| MicroTime::from_unix_micros(seconds * MICROS + i64::from(micros)))
            .ok_or(ParseTimeError::new(Fraction::Micros))
    }

    /// The text of `Display`, written into `buffer` without an allocation.
    #[inline]
    pub fn encode(self, buffer: &mut [u8; MicroTime::TEXT_LENGTH]) -> &str {
        let micros = self.as_unix_micros();
        let mut text = TextWriter::new(buffer);
        rfc3339::push_date_time(&mut text, micros.div_euclid(MICROS));
        text.push(".");
        text.push_padded(micros.rem_euclid(MICROS) as u32, 6);
        text.push("Z");
        text.finish()
    }

    /// The time plus `duration`, truncated to the microsecond.
    #[inline]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let micros = u64::try_from(duration.as_micros()).ok()?;
        MicroTime::from_unix_micros(self.as_unix_micros().checked_add_unsigned(micros)?)
    }

    /// The time minus `duration`, truncated to the microsecond.
    #[inline]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let micros = u64::try_from(duration.as_nanos().div_ceil(1000)).ok()?;
        MicroTime::from_unix_micros(self.as_unix_micros().checked_sub_unsigned(micros)?)
    }

    /// The time elapsed since `earlier`; `None` if that is later.
    #[inline]
    pub fn duration_since(self, earlier: MicroTime) -> Option<Duration> {
        u64::try_from(self.as_unix_micros() - earlier.as_unix_micros()).ok().map(Duration::from_micros)
    }
}

/// The zero time, as in Go.
impl Default for MicroTime {
    #[inline]
    fn default() -> Self {
        MicroTime::ZERO
    }
}

impl FromStr for MicroTime {
    type Err = ParseTimeError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        MicroTime::parse(text.as_bytes())
    }
}

impl fmt::Display for MicroTime {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; MicroTime::TEXT_LENGTH]))
    }
}

impl fmt::Debug for MicroTime {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MicroTime({self})")
    }
}

impl From<Time> for MicroTime {
    #[inline]
    fn from(time: Time) -> Self {
        MicroTime::from_unix_micros(time.as_unix() * MICROS).expect("both have the same range")
    }
}

/// Truncates to the microsecond.
impl TryFrom<SystemTime> for MicroTime {
    type Error = TimeRangeError;
    #[inline]
    fn try_from(time: SystemTime) -> Result<Self, TimeRangeError> {
        let epoch = MicroTime::from_unix_micros(0).expect("1970 is in range");
        match time.duration_since(UNIX_EPOCH) {
            Ok(later) => epoch.checked_add(later),
            Err(earlier) => epoch.checked_sub(earlier.duration()),
        }
        .ok_or(TimeRangeError(()))
    }
}

/// Fails only if the system cannot represent the time.
impl TryFrom<MicroTime> for SystemTime {
    type Error = TimeRangeError;
    #[inline]
    fn try_from(time: MicroTime) -> Result<Self, TimeRangeError> {
        let micros = time.as_unix_micros();
        let distance = Duration::from_micros(micros.unsigned_abs());
        let time = if micros < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        time.ok_or(TimeRangeError(()))
    }
}

/// Times of the last day of 9999 become jiff's maximum.
#[cfg(feature = "jiff")]
impl From<MicroTime> for jiff::Timestamp {
    #[inline]
    fn from(time: MicroTime) -> Self {
        jiff::Timestamp::from_microsecond(time.as_unix_micros()).unwrap_or(jiff::Timestamp::MAX)
    }
}

/// Truncates to the microsecond. Times before the year 0 become [`MicroTime::MIN`].
#[cfg(feature = "jiff")]
impl From<jiff::Timestamp> for MicroTime {
    #[inline]
    fn from(time: jiff::Timestamp) -> Self {
        let micros = i64::try_from(time.as_nanosecond().div_euclid(1000)).unwrap_or(i64::MIN);
        MicroTime::from_unix_micros(micros).unwrap_or(MicroTime::MIN)
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for MicroTime {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_zero() {
            return serializer.serialize_none();
        }
        serializer.serialize_str(self.encode(&mut [0; MicroTime::TEXT_LENGTH]))
    }
}

/// Accepts a string; `null` is the zero time.
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for MicroTime {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MicroTimeVisitor;
        impl serde_core::de::Visitor<'_> for MicroTimeVisitor {
            type Value = MicroTime;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as in RFC 3339 with six digits after the seconds")
            }
            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<MicroTime, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_unit<E>(self) -> Result<MicroTime, E> {
                Ok(MicroTime::ZERO)
            }
        }
        deserializer.deserialize_any(MicroTimeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_cut_to_the_microsecond() {
        let time = MicroTime::from_unix_micros(100).unwrap();
        assert_eq!(time.checked_add(Duration::from_nanos(1500)), MicroTime::from_unix_micros(101));
        assert_eq!(time.checked_sub(Duration::from_nanos(1500)), MicroTime::from_unix_micros(98));
        assert_eq!(time.duration_since(MicroTime::from_unix_micros(40).unwrap()), Some(Duration::from_micros(60)));
        assert_eq!(time.checked_add(Duration::MAX), None);
        assert_eq!(time.checked_sub(Duration::MAX), None);
    }

    #[test]
    fn the_zero_time_is_null_in_json() {
        let time = MicroTime::from_unix_micros(1).unwrap();
        for (json, time) in [("null", MicroTime::ZERO), (r#""1970-01-01T00:00:00.000001Z""#, time)] {
            assert_eq!(serde_json::from_str::<MicroTime>(json).unwrap(), time);
            assert_eq!(serde_json::to_string(&time).unwrap(), json);
        }
    }

    #[cfg(feature = "jiff")]
    #[test]
    fn times_agree_with_jiff() {
        let time: MicroTime = "1969-12-31T23:59:59.999999Z".parse().unwrap();
        assert_eq!(jiff::Timestamp::from(time).as_microsecond(), -1);
        assert_eq!(MicroTime::from(jiff::Timestamp::from(time)), time);
        assert_eq!(MicroTime::from(jiff::Timestamp::MIN), MicroTime::MIN);
    }
}
