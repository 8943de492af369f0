//! Errors of starting a server.

use std::net::SocketAddr;
use std::{fmt, io};

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be bound.
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// Plain HTTP on an address that other machines can reach.
    PlainHttpBeyondLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The data directory cannot be used.
    Data {
        /// The cause.
        message: String,
    },
    /// Certificates could not be created.
    Certificates(Box<dyn std::error::Error + Send + Sync>),
    /// A preloaded document is not an object, or the server rejects it.
    Preload {
        /// The cause.
        message: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen { address, .. } => write!(f, "cannot listen on {address}"),
            StartError::PlainHttpBeyondLoopback { address } => write!(
                f,
                "refusing to serve {address} without TLS, because every client of this address would have full access; \
                 listen on 127.0.0.1, or allow it explicitly"
            ),
            StartError::Data { message } => f.write_str(message),
            StartError::Certificates(_) => f.write_str("certificates and keys cannot be used"),
            StartError::Preload { message } => write!(f, "cannot preload an object: {message}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen { source, .. } => Some(source),
            StartError::Certificates(source) => Some(&**source),
            StartError::PlainHttpBeyondLoopback { .. } | StartError::Data { .. } | StartError::Preload { .. } => None,
        }
    }
}
