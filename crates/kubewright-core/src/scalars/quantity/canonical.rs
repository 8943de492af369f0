//! The canonical text of a quantity.
//!
//! Uses the largest suffix that leaves an integer: `0.5` becomes `500m` and `1024Mi` becomes `1Gi`.
//! Binary suffixes apply to integers from 1024 up; smaller and fractional numbers use decimal
//! suffixes.

use super::{Quantity, QuantityFormat, decimal::Decimal};
use crate::scalars::text::TextWriter;

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Writes the canonical form of `number` into `buffer`.
#[inline]
pub(super) fn encode(number: Decimal, format: QuantityFormat, buffer: &mut [u8; Quantity::TEXT_LENGTH]) -> &str {
    let mut text = TextWriter::new(buffer);
    if number.mantissa < 0 {
        text.push("-");
    }
    if format == QuantityFormat::BinarySi
        && let Some(integer) = number.to_integer()
        && integer.unsigned_abs() >= 1024
    {
        push_binary(&mut text, integer.unsigned_abs());
    } else {
        push_decimal(&mut text, number, format);
    }
    text.finish()
}

#[inline]
fn push_binary(text: &mut TextWriter<'_>, mut integer: u128) {
    let mut suffixes = BINARY_SUFFIXES.iter();
    let mut suffix = suffixes.next();
    while integer.is_multiple_of(1024) {
        let Some(larger) = suffixes.next() else { break };
        integer /= 1024;
        suffix = Some(larger);
    }
    text.push_number(integer);
    text.push(suffix.expect("there is at least the empty suffix"));
}

#[inline]
fn push_decimal(text: &mut TextWriter<'_>, number: Decimal, format: QuantityFormat) {
    let (mantissa, exponent) = number.reduced();
    let zeros = exponent.rem_euclid(3);
    let exponent = exponent - zeros;
    text.push_number(mantissa.unsigned_abs());
    text.push(&"00"[..zeros as usize]);
    let suffix = usize::try_from((exponent + 9) / 3).ok().and_then(|at| DECIMAL_SUFFIXES.get(at));
    match (format, suffix) {
        (QuantityFormat::DecimalSi | QuantityFormat::BinarySi, Some(suffix)) => text.push(suffix),
        _ if exponent == 0 => {}
        // Go omits the suffix of such numbers, and so prints 1000E as 1. An exponent preserves the
        // value.
        _ => {
            text.push(if exponent < 0 { "e-" } else { "e" });
            text.push_number(exponent.unsigned_abs().into());
        }
    }
}
