//! Errors of certificate rotation.

use std::io;
use std::path::PathBuf;

/// Why a certificate cannot be issued or stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// The Secret cannot be read or written.
    #[error("cannot use the secret {namespace}/{name}")]
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The server's error.
        source: kubewright_client::Error,
    },
    /// The directory cannot be read or written.
    #[error("cannot use {}", .path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other replicas keep replacing the stored certificates.
    #[error("the stored certificates change faster than they can be read")]
    Contended,
    /// A certificate needs at least one name.
    #[error("the certificate has no names; add the service or an address")]
    NoNames,
    /// A name is neither a DNS name nor an address.
    #[error("{name:?} is neither an address nor a DNS name")]
    Name {
        /// The name.
        name: String,
    },
    /// A lifetime exceeds the range of certificates.
    #[error("{seconds} seconds since 1970 is no time of a certificate")]
    Time {
        /// The time.
        seconds: i64,
    },
    /// A key or a certificate cannot be created.
    #[error("cannot create a certificate")]
    Signing(#[from] rcgen::Error),
}
