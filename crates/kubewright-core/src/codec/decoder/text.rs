//! Strings from bytes.

use super::error::DecodeError;
use crate::Str;

/// Sets `place` to the string of `bytes`, without interning.
pub(super) fn set_new_text(place: &mut Str, bytes: &[u8]) -> Result<(), DecodeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            *place = Str::from(text);
            Ok(())
        }
        Err(error) => Err(DecodeError::utf8(error)),
    }
}
