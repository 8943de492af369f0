//! A value that is an integer or a string, such as a port or a percentage.

use std::{convert::Infallible, fmt, str::FromStr};

use crate::Str;

/// An integer or a string.
///
/// ```
/// use kubewright_core::IntOrString;
/// assert_eq!(IntOrString::from("25%").scaled_value_from(10, true), Ok(3));
/// assert_eq!(IntOrString::from(2).scaled_value_from(10, true), Ok(2));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntOrString {
    /// An integer.
    Int(i32),
    /// A string, which may be a percentage.
    String(Str),
}

impl IntOrString {
    /// The integer, also if it is written as a string; 0 if there is none.
    #[inline]
    pub fn int_value(&self) -> i64 {
        match self {
            IntOrString::Int(value) => i64::from(*value),
            IntOrString::String(text) => text.parse().unwrap_or(0),
        }
    }

    /// The integer itself, or this percentage of `total`, rounded up or down.
    ///
    /// # Errors
    /// If it is a string that is not an integer percentage.
    #[doc(alias = "GetScaledValueFromIntOrPercent")]
    #[inline]
    pub fn scaled_value_from(&self, total: i64, round_up: bool) -> Result<i64, PercentError> {
        let text = match self {
            IntOrString::Int(value) => return Ok(i64::from(*value)),
            IntOrString::String(text) => text,
        };
        let digits = text.strip_suffix('%').ok_or(PercentError(None))?;
        let percent: i64 = digits.parse().map_err(|error| PercentError(Some((text.clone(), error))))?;
        // Floating point, as in Go: results are inexact for totals of more than 53 bits.
        let share = percent as f64 * total as f64 / 100.0;
        Ok(if round_up { share.ceil() } else { share.floor() } as i64)
    }
}

/// The integer 0, as in Go.
impl Default for IntOrString {
    #[inline]
    fn default() -> Self {
        IntOrString::Int(0)
    }
}

impl From<i32> for IntOrString {
    #[inline]
    fn from(value: i32) -> Self {
        IntOrString::Int(value)
    }
}

impl From<&str> for IntOrString {
    #[inline]
    fn from(text: &str) -> Self {
        IntOrString::String(text.into())
    }
}

impl From<String> for IntOrString {
    #[inline]
    fn from(text: String) -> Self {
        IntOrString::String(text.into())
    }
}

impl From<Str> for IntOrString {
    #[inline]
    fn from(text: Str) -> Self {
        IntOrString::String(text)
    }
}

/// An integer if the text is a 32-bit integer, otherwise a string.
impl FromStr for IntOrString {
    type Err = Infallible;
    #[inline]
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| text.into(), IntOrString::Int))
    }
}

impl fmt::Display for IntOrString {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(value) => fmt::Display::fmt(value, f),
            IntOrString::String(text) => fmt::Display::fmt(text, f),
        }
    }
}

impl fmt::Debug for IntOrString {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(value) => fmt::Debug::fmt(value, f),
            IntOrString::String(text) => fmt::Debug::fmt(text, f),
        }
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for IntOrString {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            IntOrString::Int(value) => serializer.serialize_i32(*value),
            IntOrString::String(text) => serializer.serialize_str(text),
        }
    }
}

/// Accepts a 32-bit integer or a string; `null` is 0.
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for IntOrString {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntOrStringVisitor;
        impl serde_core::de::Visitor<'_> for IntOrStringVisitor {
            type Value = IntOrString;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer of 32 bits or a string")
            }
            fn visit_i64<E: serde_core::de::Error>(self, value: i64) -> Result<IntOrString, E> {
                let unexpected = serde_core::de::Unexpected::Signed(value);
                i32::try_from(value).map(IntOrString::Int).map_err(|_| E::invalid_value(unexpected, &self))
            }
            fn visit_u64<E: serde_core::de::Error>(self, value: u64) -> Result<IntOrString, E> {
                let unexpected = serde_core::de::Unexpected::Unsigned(value);
                i32::try_from(value).map(IntOrString::Int).map_err(|_| E::invalid_value(unexpected, &self))
            }
            fn visit_str<E>(self, text: &str) -> Result<IntOrString, E> {
                Ok(text.into())
            }
            fn visit_unit<E>(self) -> Result<IntOrString, E> {
                Ok(IntOrString::Int(0))
            }
        }
        deserializer.deserialize_any(IntOrStringVisitor)
    }
}

/// A string is not an integer percentage. Its messages are those of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PercentError(
    /// The text before the percent sign and its error; `None` without a percent sign.
    Option<(Str, std::num::ParseIntError)>,
);

impl fmt::Display for PercentError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid value for IntOrString: ")?;
        let Some((text, error)) = &self.0 else { return f.write_str("invalid type: string is not a percentage") };
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let digits = text.strip_suffix('%').unwrap_or(text);
        write!(f, "invalid value {text:?}: strconv.Atoi: parsing {digits:?}: {reason}")
    }
}

impl std::error::Error for PercentError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_value_is_no_larger_than_a_string() {
        assert_eq!((size_of::<IntOrString>(), size_of::<Option<IntOrString>>()), (16, 16));
    }

    /// The table contains the results of Go's `intstr.GetScaledValueFromIntOrPercent`, rounding up
    /// and down.
    #[test]
    fn percentages_are_scaled_as_go_does() {
        for row in include_str!("../../tests/data/percent.tsv").lines() {
            let columns: Vec<_> = row.split('\t').collect();
            let [text, total, up, down] = columns[..] else { panic!("{row:?}") };
            for (round_up, expected) in [(true, up), (false, down)] {
                let answer = IntOrString::from(text).scaled_value_from(total.parse().unwrap(), round_up);
                let answer = answer.map_or_else(|error| error.to_string(), |value| value.to_string());
                assert_eq!(answer, expected, "{row}");
            }
        }
    }

    #[test]
    fn texts_are_parsed_to_integers_where_they_are_such() {
        for (text, value) in [
            ("8080", IntOrString::Int(8080)),
            ("-1", IntOrString::Int(-1)),
            ("2147483648", IntOrString::from("2147483648")),
            ("http", IntOrString::from("http")),
            ("", IntOrString::from("")),
        ] {
            assert_eq!(text.parse(), Ok(value.clone()));
            assert_eq!(value.to_string(), text);
        }
        assert_eq!((IntOrString::from("80").int_value(), IntOrString::from("http").int_value()), (80, 0));
    }

    #[test]
    fn json_distinguishes_integers_and_strings() {
        for json in ["80", "-1", r#""80""#, r#""25%""#, r#""""#] {
            let value: IntOrString = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), json);
            assert_eq!(format!("{value:?}"), json);
        }
        assert_eq!(serde_json::from_str::<IntOrString>("null").unwrap(), IntOrString::Int(0));
        for json in ["2147483648", "-2147483649", "1.5", "true", "{}"] {
            assert!(serde_json::from_str::<IntOrString>(json).is_err(), "{json}");
        }
    }
}
