//! Time limits of connections to processes and ports.

use std::time::Duration;

/// How long the peer may be silent: twelve pings plus a second of latency.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(61);
/// Timeout of sending a message.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of closing the connection.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
