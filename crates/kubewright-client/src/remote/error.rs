//! Why connections to processes and ports end prematurely.

use kubewright_net::transport::{TransportError, TransportErrorKind};

/// Why a connection to a process or a port ended prematurely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The connection broke, or the peer was silent for too long.
    #[error("lost connection to pod")]
    #[doc(alias = "ErrLostConnectionToPod")]
    Disconnected(#[source] TransportError),
    /// The peer violated the protocol.
    #[error("protocol violation by the server: {0}")]
    Protocol(String),
    /// The server reported an error, for example that the port is closed.
    #[error("{0}")]
    Refused(String),
}

/// The error of a lost connection.
pub(super) fn lost(
    kind: TransportErrorKind,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> RemoteError {
    RemoteError::Disconnected(TransportError::new(kind, source))
}
