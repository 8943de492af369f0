//! The output of exec plugins.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use crate::credentials::Identity;
use crate::secret::Secret;

/// The output of a program.
#[derive(Clone)]
pub(crate) struct ExecCredential {
    pub(crate) token: Option<Secret<String>>,
    pub(crate) identity: Option<Arc<Identity>>,
    /// When it expires; `None` means until the server rejects it.
    pub(super) expires: Option<CredentialExpiry>,
    /// When it was received.
    pub(super) since: Instant,
}

/// An expiry by two clocks, whichever is first: the monotonic clock stops during suspend, and the
/// system clock may be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct CredentialExpiry {
    pub(super) by_clock: Instant,
    pub(super) by_calendar: SystemTime,
}

impl CredentialExpiry {
    pub(super) fn has_come(&self) -> bool {
        self.by_clock <= Instant::now() || self.by_calendar <= SystemTime::now()
    }
}

impl ExecCredential {
    pub(super) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expiry| expiry.has_come())
    }

    pub(super) fn differs(&self, token: Option<&str>, identity: Option<&Arc<Identity>>) -> bool {
        self.token.as_ref().map(|token| token.expose().as_str()) != token || self.identity.as_ref() != identity
    }
}
