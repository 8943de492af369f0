//! Why a request failed, by what a caller can do about it.

use kubewright_core::DecodeError;
use kubewright_core::meta::v1::Status;

use crate::transport::TransportError;

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered that it will not do it.
    #[error("{}", message_of(.0))]
    Status(Box<Status>),
    /// The server was not reached, or was lost on the way.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The server's answer is not what was asked for.
    #[error("cannot decode the answer of the server")]
    Decode(#[from] DecodeError),
    /// The request makes no sense and was not sent.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
}

impl Error {
    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Whether the object was changed by somebody else meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// Whether the asked-for version is no longer remembered, so that only a fresh list helps.
    pub fn is_expired(&self) -> bool {
        self.status().is_some_and(Status::is_expired)
    }
}

fn message_of(status: &Status) -> &str {
    match status.message.as_deref() {
        Some(message) if !message.is_empty() => message,
        _ => "the server refused without a reason",
    }
}
