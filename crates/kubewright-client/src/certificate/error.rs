//! Why there is no new certificate.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use crate::config::ConfigError;
use crate::error::Error;

/// Why a certificate could not be had or kept. Never contains a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Certificate and key are not usable together, or no client could be made with them.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate cannot be understood.
    #[error("the certificate is no X.509 certificate")]
    Unreadable,
    /// The key could not be made, or is one that signers do not take.
    #[error("cannot make a request for a certificate: {0}")]
    Key(String),
    /// The server did not take the request, or was lost.
    #[error("cannot ask for a certificate")]
    Request(#[source] Error),
    /// Somebody decided against it.
    #[error("certificate signing request {name:?} was {decision}{}", because(.reason, .message))]
    Refused {
        /// The request.
        name: String,
        /// What was decided.
        decision: Decision,
        /// The word for why.
        reason: String,
        /// The sentence for why.
        message: String,
    },
    /// The request is gone, or there is another of its name.
    #[error("certificate signing request {name:?} was deleted before it was signed")]
    Deleted {
        /// The request.
        name: String,
    },
    /// Nobody signed in time.
    #[error("certificate signing request {name:?} was not signed within {limit:?}")]
    NotSigned {
        /// The request.
        name: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Another certificate is wanted by now.
    #[error("certificate signing request {name:?} is no longer what is wanted")]
    Superseded {
        /// The request.
        name: String,
    },
    /// What was signed lacks something that was asked for. It is used all the same.
    #[error("the signer left out some of the names that certificate signing request {name:?} asked for")]
    Incomplete {
        /// The request.
        name: String,
    },
    /// What was signed has expired already.
    #[error("what was signed for certificate signing request {name:?} has expired already")]
    Expired {
        /// The request.
        name: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What was decided against a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It was not approved.
    Denied,
    /// It was approved, and could not be signed.
    Failed,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decision::Denied => "denied",
            Decision::Failed => "not signed",
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
