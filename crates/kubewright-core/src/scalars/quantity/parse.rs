//! Parses quantities exactly as kube-apiserver does, oddities included.
//!
//! Common texts take a fast path without allocation. Numbers that it cannot represent exactly (many
//! digits, many decimals, fractions of binary units) are rounded up to nano units; binary ones are
//! also capped at 2^63 - 1.

use std::fmt;

use super::{Quantity, QuantityFormat, decimal::Decimal, decimal::power_of_ten};

/// The smallest unit of a quantity: 10^-9.
pub(super) const NANO: i32 = -9;

/// The maximum number of digits of the fast path, which always fit 64 bits.
const SHORT_DIGITS: usize = 18;

/// Why a text is not a quantity. Its messages are those of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseQuantityError(QuantityErrorKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityErrorKind {
    Form,
    Number,
    Suffix,
}

impl fmt::Display for ParseQuantityError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            QuantityErrorKind::Form => {
                r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            QuantityErrorKind::Number => "unable to parse numeric part of quantity",
            QuantityErrorKind::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for ParseQuantityError {}

/// The parts of a text.
struct QuantityParts<'a> {
    negative: bool,
    /// Without leading zeros.
    whole: &'a [u8],
    fraction: &'a [u8],
    has_digits: bool,
    /// Whether there is no plus sign, leading zero or point, as in canonical texts.
    is_plain: bool,
    suffix: Suffix,
}

struct Suffix {
    format: QuantityFormat,
    /// A power of two for binary suffixes, of ten for others.
    exponent: i32,
    is_plain: bool,
}

#[inline]
pub(super) fn parse(text: &str) -> Result<Quantity, ParseQuantityError> {
    let parts = split(text.as_bytes())?;
    if let Some(quantity) = parse_short(text, &parts) {
        return Ok(quantity);
    }
    if !parts.has_digits {
        return Err(ParseQuantityError(QuantityErrorKind::Number));
    }
    let (number, format) = match parts.suffix.format {
        QuantityFormat::BinarySi => long_binary(&parts),
        format => (long_decimal(&parts)?, format),
    };
    let mantissa = if parts.negative { -number.mantissa } else { number.mantissa };
    Ok(Quantity::from_decimal(Decimal { mantissa, ..number }, format))
}

#[inline]
fn split(text: &[u8]) -> Result<QuantityParts<'_>, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError(QuantityErrorKind::Form));
    }
    let signs = usize::from(matches!(text[0], b'+' | b'-'));
    let zeros = count(&text[signs..], |byte| byte == b'0');
    let (whole, mut rest) = take_digits(&text[signs + zeros..]);
    let mut fraction: &[u8] = &[];
    let has_point = rest.first() == Some(&b'.');
    if has_point {
        (fraction, rest) = take_digits(&rest[1..]);
    }
    Ok(QuantityParts {
        negative: text[0] == b'-',
        whole,
        fraction,
        has_digits: zeros + whole.len() + fraction.len() > 0,
        is_plain: text[0] != b'+' && zeros == 0 && !has_point,
        suffix: interpret_suffix(rest)?,
    })
}

#[inline]
fn interpret_suffix(suffix: &[u8]) -> Result<Suffix, ParseQuantityError> {
    use QuantityFormat::{BinarySi, DecimalSi};
    let (format, exponent) = match suffix {
        b"" => (DecimalSi, 0),
        b"n" => (DecimalSi, -9),
        b"u" => (DecimalSi, -6),
        b"m" => (DecimalSi, -3),
        b"k" => (DecimalSi, 3),
        b"M" => (DecimalSi, 6),
        b"G" => (DecimalSi, 9),
        b"T" => (DecimalSi, 12),
        b"P" => (DecimalSi, 15),
        b"E" => (DecimalSi, 18),
        b"Ki" => (BinarySi, 10),
        b"Mi" => (BinarySi, 20),
        b"Gi" => (BinarySi, 30),
        b"Ti" => (BinarySi, 40),
        b"Pi" => (BinarySi, 50),
        b"Ei" => (BinarySi, 60),
        _ => return interpret_exponent(suffix),
    };
    Ok(Suffix { format, exponent, is_plain: true })
}

#[inline]
fn interpret_exponent(suffix: &[u8]) -> Result<Suffix, ParseQuantityError> {
    let letters = count(suffix, |byte| b"eEinumkKMGTP".contains(&byte));
    let signs = usize::from(matches!(suffix.get(letters), Some(b'+' | b'-')));
    if !take_digits(&suffix[letters + signs..]).1.is_empty() {
        return Err(ParseQuantityError(QuantityErrorKind::Form));
    }
    let invalid = ParseQuantityError(QuantityErrorKind::Suffix);
    let ([b'e' | b'E', digits @ ..], 1) = (suffix, letters) else { return Err(invalid) };
    let digits = std::str::from_utf8(digits).map_err(|_| invalid)?;
    // Go keeps the low 32 bits of larger exponents, and so reads 1e4294967296 as 1. We reject them.
    let exponent: i32 = digits.parse().map_err(|_| invalid)?;
    let is_plain = suffix[0] == b'e' && exponent != 0 && !digits.trim_start_matches('-').starts_with(['+', '0']);
    Ok(Suffix { format: QuantityFormat::DecimalExponent, exponent, is_plain })
}

/// The quantity if Go's conservative estimate says that it is exact in 64 bits.
#[inline]
fn parse_short(text: &str, parts: &QuantityParts<'_>) -> Option<Quantity> {
    let Suffix { format, exponent, .. } = parts.suffix;
    // A missing integer part counts as a zero.
    let digits = parts.whole.len().max(1) + parts.fraction.len();
    let binary = format == QuantityFormat::BinarySi;
    let fits = if binary {
        parts.fraction.is_empty() && digits as i64 + i64::from(exponent * 3 / 10) <= 14
    } else {
        digits <= SHORT_DIGITS && exponent >= NANO + parts.fraction.len() as i32
    };
    if !fits {
        return None;
    }
    let value = parts.whole.iter().chain(parts.fraction).fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    let (mantissa, scale) =
        if binary { (value << exponent, 0) } else { (value, exponent - parts.fraction.len() as i32) };
    let quantity = Quantity::small(if parts.negative { -mantissa } else { mantissa }, scale, format);

    // Go takes some non-canonical texts for canonical and prints them unchanged: 1.234, +5, 1E3.
    // Stored and returned objects depend on it, so these texts are preserved.
    let is_kept = if binary { value % 8 != 0 } else { scale % 3 == 0 && value % 1000 != 0 && !parts.whole.is_empty() };
    if is_kept && !(parts.is_plain && parts.suffix.is_plain) {
        return Some(quantity.written_as(text));
    }
    Some(quantity)
}

#[inline]
fn long_decimal(parts: &QuantityParts<'_>) -> Result<Decimal, ParseQuantityError> {
    let limit = 10u128.pow(37);
    let (mut mantissa, mut scale, mut has_more) = (0u128, i64::from(parts.suffix.exponent), false);
    let digits = parts.whole.iter().map(|digit| (digit, 0)).chain(parts.fraction.iter().map(|digit| (digit, 1)));
    for (digit, decimals) in digits {
        if mantissa < limit {
            mantissa = mantissa * 10 + u128::from(digit - b'0');
            scale -= decimals;
        } else {
            has_more |= *digit != b'0';
            scale += 1 - decimals;
        }
    }
    if scale < i64::from(NANO) {
        let unit = power_of_ten(i64::from(NANO) - scale).map_or(u128::MAX, i128::unsigned_abs);
        has_more |= mantissa % unit != 0;
        mantissa /= unit;
        scale = i64::from(NANO);
    }
    mantissa += u128::from(has_more);
    let mantissa = i128::try_from(mantissa).expect("at most 38 digits were taken");
    let scale = i32::try_from(scale).map_err(|_| ParseQuantityError(QuantityErrorKind::Suffix))?;
    Ok(Decimal { mantissa, scale })
}

/// Multiplies integer part and fraction by 1024 separately, so that no digit is lost.
#[inline]
fn long_binary(parts: &QuantityParts<'_>) -> (Decimal, QuantityFormat) {
    // A fraction of 35 digits times 1024 still fits 128 bits. Further digits only affect the
    // rounding.
    const FRACTION_DIGITS: u32 = 35;
    let one = 10u128.pow(FRACTION_DIGITS);
    let mut whole = parts
        .whole
        .iter()
        .fold(0u128, |value, digit| value.saturating_mul(10).saturating_add(u128::from(digit - b'0')));
    let (taken, beyond) = parts.fraction.split_at(parts.fraction.len().min(FRACTION_DIGITS as usize));
    let mut fraction = taken.iter().fold(0, |value, digit| value * 10 + u128::from(digit - b'0'));
    fraction *= 10u128.pow(FRACTION_DIGITS - taken.len() as u32);
    for _ in 0..parts.suffix.exponent / 10 {
        fraction *= 1024;
        whole = whole.saturating_mul(1024).saturating_add(fraction / one);
        fraction %= one;
    }
    let unit = 10u128.pow(FRACTION_DIGITS - NANO.unsigned_abs());
    let has_more = fraction % unit != 0 || beyond.iter().any(|digit| *digit != b'0');
    let nanos = fraction / unit + u128::from(has_more);

    let largest = i64::MAX.unsigned_abs().into();
    if whole > largest || (whole == largest && nanos > 0) {
        return (Decimal { mantissa: i64::MAX.into(), scale: 0 }, QuantityFormat::BinarySi);
    }
    // Numbers below one have no binary form, now or after arithmetic.
    let format = if whole == 0 && (1..1_000_000_000).contains(&nanos) {
        QuantityFormat::DecimalSi
    } else {
        QuantityFormat::BinarySi
    };
    if nanos == 0 {
        return (Decimal { mantissa: whole as i128, scale: 0 }, format);
    }
    (Decimal { mantissa: (whole * 1_000_000_000 + nanos) as i128, scale: NANO }, format)
}

#[inline]
fn take_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(count(text, |byte| byte.is_ascii_digit()))
}

fn count(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| belongs(**byte)).count()
}
