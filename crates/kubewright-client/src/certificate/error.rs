//! Errors of certificate requests.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use crate::error::Error;
use kubewright_net::config::ConfigError;

/// Why a certificate could not be obtained or stored. Never contains a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Certificate and key do not match, or no client could be created with them.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate is malformed.
    #[error("not an X.509 certificate")]
    Unreadable,
    /// The key could not be generated, or signers do not accept it.
    #[error("cannot create a certificate request: {0}")]
    Key(String),
    /// The server rejected the request, or was unreachable.
    #[error("cannot request a certificate")]
    Request(#[source] Error),
    /// The request was denied or failed.
    #[error("certificate signing request {name:?} was {decision}{}", because(.reason, .message))]
    Refused {
        /// The request.
        name: String,
        /// The decision.
        decision: SigningRefusal,
        /// The machine-readable reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// The request was deleted, or replaced by another of its name.
    #[error("certificate signing request {name:?} was deleted before it was signed")]
    Deleted {
        /// The request.
        name: String,
    },
    /// The request was not signed in time.
    #[error("certificate signing request {name:?} was not signed within {limit:?}")]
    NotSigned {
        /// The request.
        name: String,
        /// The time limit.
        limit: Duration,
    },
    /// The template has changed since.
    #[error("certificate signing request {name:?} was superseded")]
    Superseded {
        /// The request.
        name: String,
    },
    /// The certificate lacks requested names. It is used nevertheless.
    #[error("the certificate for signing request {name:?} lacks requested names")]
    Incomplete {
        /// The request.
        name: String,
    },
    /// The signed certificate has already expired.
    #[error("the certificate for signing request {name:?} has already expired")]
    Expired {
        /// The request.
        name: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A negative decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningRefusal {
    /// It was not approved.
    Denied,
    /// It was approved, and could not be signed.
    Failed,
}

impl fmt::Display for SigningRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SigningRefusal::Denied => "denied",
            SigningRefusal::Failed => "not signed",
        })
    }
}

fn because(reason: &str, message: &str) -> String {
    match (reason.is_empty(), message.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!(": {reason}"),
        (true, false) => format!(": {message}"),
        (false, false) => format!(": {reason}: {message}"),
    }
}
