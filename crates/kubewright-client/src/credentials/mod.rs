//! Who we are and how we prove it: certificates, tokens, passwords, plugins, and acting as somebody else.
//!
//! Credentials are sent over TLS, or over streams within this process, and nowhere else, not even to this machine: what
//! listens on a loopback port may be anybody's. They appear in no `Debug` form, log or error.

mod authenticator;
pub(crate) mod exec;
mod identity;
mod impersonation;
mod live;
mod oidc;
mod renewal;
mod token_file;

use std::path::PathBuf;

use kubewright_core::ByteString;

pub(crate) use authenticator::{Authenticator, Shown};
pub use exec::{Exec, ExecError, ExecPolicy};
pub(crate) use identity::Identity;
pub use impersonation::Impersonation;
pub use live::LiveCertificate;
pub use oidc::{Oidc, OidcError};

use crate::config::{CertificateSource, ConfigError};
use crate::secret::Secret;

/// How we prove who we are. Empty by default: nobody.
///
/// A plugin or provider is only asked if there is neither certificate, token nor password.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// A certificate, shown in the TLS handshake.
    pub client_certificate: Option<ClientCertificate>,
    /// A certificate that is renewed while connections live. Only shown if there is no `client_certificate`.
    pub live_certificate: Option<LiveCertificate>,
    /// A bearer token. If there is a token file as well, this counts only until the file has been read.
    pub token: Option<Secret<String>>,
    /// A file with a bearer token, read again each minute.
    pub token_file: Option<PathBuf>,
    /// A user name, for basic authentication.
    pub username: Option<String>,
    /// The password that goes with it.
    pub password: Option<Secret<String>>,
    /// A program that prints credentials.
    pub exec: Option<Exec>,
    /// An identity provider that renews tokens.
    pub oidc: Option<Oidc>,
}

/// A certificate and its key. Files are read again when they change, and all connections are then made anew.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The certificate, and those between it and the authority.
    pub certificate: CertificateSource,
    /// Its key.
    pub key: KeySource,
}

/// A private key, in a file or given once and for all.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A file in PEM.
    File(PathBuf),
    /// The PEM itself.
    Data(Secret<ByteString>),
}

impl Credentials {
    /// Whether there is anything to show.
    pub fn is_empty(&self) -> bool {
        !self.has_certificate() && !self.has_token() && !self.has_basic() && self.exec.is_none() && self.oidc.is_none()
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.client_certificate.is_some() || self.live_certificate.is_some()
    }

    fn has_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    fn has_basic(&self) -> bool {
        self.username.is_some() || self.password.is_some()
    }

    /// Refuses credentials of which it is not clear which are meant.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |problem: &str| Err(ConfigError::Invalid(problem.to_owned()));
        if self.has_token() && self.has_basic() {
            return refuse("a user name and password make no sense together with a bearer token");
        }
        if self.exec.is_some() && self.oidc.is_some() {
            return refuse("an exec plugin makes no sense together with an identity provider");
        }
        Ok(())
    }
}
