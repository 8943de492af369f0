//! The credentials of a configuration.

use std::path::PathBuf;

use super::certificate::ClientCertificate;
use super::exec::Exec;
use super::live::LiveCertificate;
use super::oidc::Oidc;
use crate::error::ConfigError;
use crate::secret::Secret;

/// Client credentials. Empty by default: anonymous.
///
/// A plugin or provider is only used if there is no certificate, token or password.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// A certificate, presented in the TLS handshake.
    pub client_certificate: Option<ClientCertificate>,
    /// A certificate that is rotated while connections are open. Only used without a
    /// `client_certificate`.
    pub live_certificate: Option<LiveCertificate>,
    /// A bearer token. If there is a token file too, this is used until the file has been read.
    pub token: Option<Secret<String>>,
    /// A file with a bearer token, reloaded every minute.
    pub token_file: Option<PathBuf>,
    /// A user name, for basic authentication.
    pub username: Option<String>,
    /// The password for it.
    pub password: Option<Secret<String>>,
    /// An exec plugin.
    pub exec: Option<Exec>,
    /// An OIDC provider that renews tokens.
    pub oidc: Option<Oidc>,
}

impl Credentials {
    /// Whether there are no credentials.
    pub fn is_empty(&self) -> bool {
        !self.has_certificate() && !self.has_token() && !self.has_basic() && self.exec.is_none() && self.oidc.is_none()
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.client_certificate.is_some() || self.live_certificate.is_some()
    }

    fn has_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    pub(crate) fn has_basic(&self) -> bool {
        self.username.is_some() || self.password.is_some()
    }

    /// Rejects ambiguous credentials.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let refuse = |problem: &str| Err(ConfigError::Invalid(problem.to_owned()));
        if self.has_token() && self.has_basic() {
            return refuse("a user name and password make no sense together with a bearer token");
        }
        if self.exec.is_some() && self.oidc.is_some() {
            return refuse("an exec plugin conflicts with an identity provider");
        }
        Ok(())
    }
}
