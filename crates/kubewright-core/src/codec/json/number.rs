//! Numbers in JSON.

use crate::codec::decoder::DecodeError;

/// A finite number of any magnitude.
#[inline]
pub(crate) fn finite(number: &str) -> Result<f64, DecodeError> {
    let value: f64 = number.parse().map_err(|_| DecodeError::new(format!("malformed number {number}")))?;
    if value.is_finite() { Ok(value) } else { Err(DecodeError::new(format!("number {number} is too large"))) }
}
