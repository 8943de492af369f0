//! Resource quantities such as `250m` CPU or `1Gi` memory: exact fixed-point numbers.
//!
//! `parse` parses them, `canonical` prints them, `decimal` and `operators` compute.

mod canonical;
mod decimal;
mod operators;
mod parse;

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::{fmt, str::FromStr};

use decimal::Decimal;
pub use parse::ParseQuantityError;

use crate::Str;

/// An exact number with a suffix, as Kubernetes counts resources.
///
/// The precision is 10⁻⁹; finer values are rounded up when parsed. Numbers of up to 38 digits are
/// exact, longer ones keep their first 38 digits. Parsing and printing follow kube-apiserver,
/// except that a number too large for the suffix `E` is printed with an exponent, where Go drops
/// the suffix.
///
/// Equality and hash depend on the number, not on its notation.
///
/// ```
/// use kubewright_core::Quantity;
/// let mut memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.to_string(), "1536Mi");
/// memory += &"512Mi".parse()?;
/// assert_eq!(memory.to_string(), "2Gi");
/// assert_eq!("0.5".parse::<Quantity>()?, "500m".parse::<Quantity>()?);
/// assert_eq!(size_of::<Option<Quantity>>(), 16);
/// # Ok::<(), kubewright_core::ParseQuantityError>(())
/// ```
#[derive(Clone)]
pub struct Quantity(Representation);

/// Invariant: no scale is less than [`parse::NANO`].
#[derive(Clone)]
enum Representation {
    Small { mantissa: i64, scale: i32, format: QuantityFormat },
    Boxed(Box<BoxedQuantity>),
}

/// A number of more than 64 bits, or one whose non-canonical text is preserved.
#[derive(Clone)]
struct BoxedQuantity {
    number: Decimal,
    format: QuantityFormat,
    written: Option<Str>,
}

/// The family of suffixes of a quantity.
#[doc(alias = "Format")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuantityFormat {
    /// Powers of ten by exponent: `12e6`.
    DecimalExponent,
    /// Powers of 1024: `12Mi`.
    #[doc(alias = "BinarySI")]
    BinarySi,
    /// Powers of 1000: `12M`.
    #[doc(alias = "DecimalSI")]
    #[default]
    DecimalSi,
}

impl Quantity {
    /// The number zero.
    pub const ZERO: Quantity =
        Quantity(Representation::Small { mantissa: 0, scale: 0, format: QuantityFormat::DecimalSi });

    /// The buffer size that [`Quantity::encode`] needs.
    pub const TEXT_LENGTH: usize = 64;

    /// The integer `value`.
    #[doc(alias = "NewQuantity")]
    #[inline]
    pub const fn new(value: i64, format: QuantityFormat) -> Self {
        Quantity::small(value, 0, format)
    }

    /// A quantity in thousandths.
    #[doc(alias = "NewMilliQuantity")]
    #[inline]
    pub const fn from_milli(thousandths: i64, format: QuantityFormat) -> Self {
        Quantity::small(thousandths, -3, format)
    }

    /// The number `value * 10^scale`, printed with decimal suffixes. Finer values than nano are
    /// rounded up.
    #[doc(alias = "NewScaledQuantity")]
    #[inline]
    pub fn from_scaled(value: i64, scale: i32) -> Self {
        let number = Decimal { mantissa: value.into(), scale };
        Quantity::from_decimal(number.rounded_to(parse::NANO).0, QuantityFormat::DecimalSi)
    }

    /// The family of suffixes that it is printed with, if they can express it.
    #[inline]
    pub fn format(&self) -> QuantityFormat {
        match &self.0 {
            Representation::Small { format, .. } => *format,
            Representation::Boxed(rare) => rare.format,
        }
    }

    /// The same number in another format.
    #[must_use]
    #[inline]
    pub fn with_format(self, format: QuantityFormat) -> Self {
        Quantity::from_decimal(self.decimal(), format)
    }

    /// The same number in canonical form.
    ///
    /// Like kube-apiserver, `Display` preserves some non-canonical texts: those with a multiple of
    /// three decimals, a plus sign, leading zeros or a capital exponent.
    ///
    /// ```
    /// # use kubewright_core::Quantity;
    /// let cpu: Quantity = "1.250".parse()?;
    /// assert_eq!(cpu.to_string(), "1.250");
    /// assert_eq!(cpu.to_canonical().to_string(), "1250m");
    /// # Ok::<(), kubewright_core::ParseQuantityError>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn to_canonical(&self) -> Self {
        Quantity::from_decimal(self.decimal(), self.format())
    }

    /// Whether the number is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.decimal().mantissa == 0
    }

    /// -1, 0 or 1 for a negative, zero or positive number.
    #[doc(alias = "Sign")]
    #[inline]
    pub fn signum(&self) -> i32 {
        self.decimal().mantissa.signum() as i32
    }

    /// The number rounded away from zero to an integer, saturating.
    #[inline]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The number in thousandths, rounded and saturated as in [`Quantity::value`].
    #[inline]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The number in units of `10^scale`, rounded and saturated as in [`Quantity::value`].
    ///
    /// Go returns 0 or arbitrary numbers out of range, and rounds some negative numbers wrongly.
    #[inline]
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let number = self.decimal();
        let limit = if number.mantissa < 0 { i64::MIN } else { i64::MAX };
        number.in_units_of(scale).and_then(|value| i64::try_from(value).ok()).unwrap_or(limit)
    }

    /// The number if it is a 64-bit integer.
    #[doc(alias = "AsInt64")]
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        i64::try_from(self.decimal().to_integer()?).ok()
    }

    /// The nearest floating-point number.
    #[doc(alias = "AsApproximateFloat64")]
    #[doc(alias = "AsFloat64Slow")]
    #[inline]
    pub fn to_f64(&self) -> f64 {
        let Decimal { mantissa, scale } = self.decimal();
        if scale == 0 {
            return mantissa as f64;
        }
        // The standard parser rounds correctly; a multiplication by a power of ten does not.
        format!("{mantissa}e{scale}").parse().expect("an integer with an exponent is a number")
    }

    /// Rounds away from zero to units of `10^scale`. Returns whether the number was unchanged.
    #[inline]
    pub fn round_up(&mut self, scale: i32) -> bool {
        let number = self.decimal();
        if number.scale >= scale {
            return true;
        }
        let (rounded, exact) = number.rounded_to(scale);
        *self = Quantity::from_decimal(rounded, self.format());
        exact
    }

    /// The text of `Display`, written into `buffer` without an allocation.
    #[inline]
    pub fn encode<'a>(&'a self, buffer: &'a mut [u8; Quantity::TEXT_LENGTH]) -> &'a str {
        match &self.0 {
            Representation::Boxed(rare) if rare.written.is_some() => rare.written.as_deref().unwrap_or_default(),
            _ => canonical::encode(self.decimal(), self.format(), buffer),
        }
    }

    #[inline]
    const fn small(mantissa: i64, scale: i32, format: QuantityFormat) -> Self {
        Quantity(Representation::Small { mantissa, scale, format })
    }

    #[inline]
    fn from_decimal(number: Decimal, format: QuantityFormat) -> Self {
        if let Ok(mantissa) = i64::try_from(number.mantissa) {
            return Quantity::small(mantissa, number.scale, format);
        }
        let (mantissa, exponent) = number.reduced();
        match (i64::try_from(mantissa), i32::try_from(exponent)) {
            (Ok(mantissa), Ok(scale)) => Quantity::small(mantissa, scale, format),
            _ => Quantity(Representation::Boxed(Box::new(BoxedQuantity { number, format, written: None }))),
        }
    }

    #[inline]
    fn written_as(self, text: &str) -> Self {
        let (number, format) = (self.decimal(), self.format());
        Quantity(Representation::Boxed(Box::new(BoxedQuantity { number, format, written: Some(text.into()) })))
    }

    #[inline]
    fn decimal(&self) -> Decimal {
        match &self.0 {
            Representation::Small { mantissa, scale, .. } => Decimal { mantissa: i128::from(*mantissa), scale: *scale },
            Representation::Boxed(rare) => rare.number,
        }
    }
}

impl Default for Quantity {
    #[inline]
    fn default() -> Self {
        Quantity::ZERO
    }
}

impl PartialEq for Quantity {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.decimal().compare(other.decimal())
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.decimal().reduced().hash(state);
    }
}

impl From<i64> for Quantity {
    #[inline]
    fn from(value: i64) -> Self {
        Quantity::new(value, QuantityFormat::DecimalSi)
    }
}

impl From<i32> for Quantity {
    #[inline]
    fn from(value: i32) -> Self {
        Quantity::from(i64::from(value))
    }
}

impl From<u32> for Quantity {
    #[inline]
    fn from(value: u32) -> Self {
        Quantity::from(i64::from(value))
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;
    #[inline]
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        parse::parse(text)
    }
}

impl fmt::Display for Quantity {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut [0; Quantity::TEXT_LENGTH]))
    }
}

impl fmt::Debug for Quantity {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

#[cfg(feature = "serde")]
impl serde_core::Serialize for Quantity {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.encode(&mut [0; Quantity::TEXT_LENGTH]))
    }
}

/// Accepts a string, with surrounding space, or a number; `null` is zero.
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Quantity {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl serde_core::de::Visitor<'_> for QuantityVisitor {
            type Value = Quantity;
            #[inline]
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }
            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }
            fn visit_i64<E>(self, value: i64) -> Result<Quantity, E> {
                Ok(value.into())
            }
            fn visit_u64<E: serde_core::de::Error>(self, value: u64) -> Result<Quantity, E> {
                match i64::try_from(value) {
                    Ok(value) => Ok(value.into()),
                    Err(_) => value.to_string().parse().map_err(E::custom),
                }
            }
            fn visit_f64<E: serde_core::de::Error>(self, value: f64) -> Result<Quantity, E> {
                value.to_string().parse().map_err(E::custom)
            }
            fn visit_unit<E>(self) -> Result<Quantity, E> {
                Ok(Quantity::ZERO)
            }
        }
        deserializer.deserialize_any(QuantityVisitor)
    }
}

#[cfg(test)]
mod tests;
