//! The credentials of a configuration at work: the header of each request, and new ones after a refusal.

use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use kubewright_core::ByteString;

use super::exec::ExecPlugin;
use super::oidc::OidcProvider;
use super::token_file::TokenFile;
use super::{Credentials, Identity};
use crate::config::{Config, ConfigError};
use crate::secret::Secret;
use crate::transport::{TransportError, TransportErrorKind};

/// Where the `Authorization` header comes from.
#[derive(Debug)]
pub(crate) enum Authenticator {
    /// There is none; a client certificate may do.
    None,
    /// It never changes.
    Fixed(Secret<HeaderValue>),
    /// A token in a file.
    File(PathBuf, TokenFile),
    /// A program prints it.
    Exec(Box<ExecPlugin>),
    /// An identity provider renews it.
    Oidc(Box<OidcProvider>),
}

/// What a request is sent with.
#[derive(Default)]
pub(crate) struct Shown {
    /// The `Authorization` header.
    pub(crate) header: Option<HeaderValue>,
    /// The certificate that a plugin has given.
    pub(crate) identity: Option<Arc<Identity>>,
}

impl Authenticator {
    /// The one for these credentials.
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let credentials = &config.credentials;
        credentials.check()?;
        if let Some(path) = &credentials.token_file {
            return Ok(Authenticator::File(path.clone(), TokenFile::new(path.clone(), credentials.token.clone())));
        }
        if let Some(token) = &credentials.token {
            return Ok(Authenticator::Fixed(Secret::new(bearer(token).map_err(invalid)?)));
        }
        if credentials.has_basic() {
            return Ok(Authenticator::Fixed(Secret::new(basic(credentials)?)));
        }
        if credentials.has_certificate() {
            return Ok(Authenticator::None);
        }
        if let Some(exec) = &credentials.exec {
            return Ok(Authenticator::Exec(Box::new(ExecPlugin::new(exec.clone(), config.observer.clone())?)));
        }
        if let Some(oidc) = &credentials.oidc {
            return Ok(Authenticator::Oidc(Box::new(OidcProvider::new(oidc, config)?)));
        }
        Ok(Authenticator::None)
    }

    /// What to send a request with. May run a program or ask a provider, which others then wait for as well.
    pub(crate) async fn show(&self) -> Result<Shown, TransportError> {
        let (token, identity) = match self {
            Authenticator::None => (None, None),
            Authenticator::Fixed(header) => {
                return Ok(Shown { header: Some(header.expose().clone()), identity: None });
            }
            Authenticator::File(path, file) => {
                let named = |error: std::io::Error| {
                    let file = path.clone();
                    TransportError::new(TransportErrorKind::Credentials, ConfigError::Read { file, source: error })
                };
                (Some(file.token().await.map_err(named)?), None)
            }
            Authenticator::Exec(plugin) => {
                let given = plugin.credential().await.map_err(unavailable)?;
                (given.token.clone(), given.identity.clone())
            }
            Authenticator::Oidc(provider) => (Some(provider.token().await.map_err(unavailable)?), None),
        };
        let header = token.as_ref().map(bearer).transpose().map_err(unavailable)?;
        Ok(Shown { header, identity })
    }

    /// After a 401: whether there are other credentials now than those that were refused.
    pub(crate) async fn refresh(&self, refused: &Shown) -> bool {
        let token = refused.header.as_ref().and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        match self {
            Authenticator::None | Authenticator::Fixed(_) => false,
            Authenticator::File(_, file) => match token {
                Some(token) => file.refresh(token).await,
                None => false,
            },
            Authenticator::Exec(plugin) => plugin.refresh(token, refused.identity.as_ref()).await,
            Authenticator::Oidc(provider) => match token {
                Some(token) => provider.refresh(token).await,
                None => false,
            },
        }
    }
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TransportError {
    TransportError::new(TransportErrorKind::Credentials, error)
}

fn invalid(problem: &'static str) -> ConfigError {
    ConfigError::Invalid(problem.to_owned())
}

fn bearer(token: &Secret<String>) -> Result<HeaderValue, &'static str> {
    let header = HeaderValue::from_str(&format!("Bearer {}", token.expose().trim()));
    let mut header = header.map_err(|_| "the token has characters that a header cannot have")?;
    // Keeps it out of logs, and of the tables that compress headers.
    header.set_sensitive(true);
    Ok(header)
}

fn basic(credentials: &Credentials) -> Result<HeaderValue, ConfigError> {
    let user = credentials.username.as_deref().unwrap_or_default();
    let password = credentials.password.as_ref().map(|password| password.expose().as_str()).unwrap_or_default();
    let pair = ByteString::from(format!("{user}:{password}").as_str()).to_base64();
    let mut header =
        HeaderValue::from_str(&format!("Basic {pair}")).map_err(|_| invalid("the user name is no text"))?;
    header.set_sensitive(true);
    Ok(header)
}
