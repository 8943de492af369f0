//! A serving certificate with its key.

use std::fmt;

use kubewright_core::Time;

use super::error::RotationError;
use super::signing;

/// How long a self-signed certificate is valid: a year.
const SELF_SIGNED: i64 = 365 * 24 * 60 * 60;

/// A serving certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServedPair {
    /// The certificate, and its chain if there is one.
    pub(crate) certificate: String,
    /// The private key.
    pub(crate) key: String,
}

impl ServedPair {
    /// A certificate that signs itself, for these names and addresses.
    pub(crate) fn self_signed(names: &[String], now: Time) -> Result<Self, RotationError> {
        signing::self_signed(names, now.as_unix(), SELF_SIGNED)
    }
}

impl fmt::Debug for ServedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedPair").field("certificate", &self.certificate).field("key", &"<redacted>").finish()
    }
}
