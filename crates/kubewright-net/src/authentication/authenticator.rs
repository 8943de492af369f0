//! Applies credentials to requests, and refreshes them after a 401.

use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use kubewright_core::ByteString;

use super::connect::Connect;
use super::exec::ExecPlugin;
use super::oidc::OidcProvider;
use super::token_file::TokenFile;
use crate::config::Config;
use crate::credentials::{Credentials, Identity};
use crate::error::ConfigError;
use crate::secret::Secret;
use crate::transport::{TransportError, TransportErrorKind};

/// The source of the `Authorization` header.
#[derive(Debug)]
pub(crate) enum AuthorizationSource {
    /// None; a client certificate may suffice.
    None,
    /// It never changes.
    Fixed(Secret<HeaderValue>),
    /// A token in a file.
    File(PathBuf, TokenFile),
    /// An exec plugin.
    Exec(Box<ExecPlugin>),
    /// An OIDC provider.
    Oidc(Box<OidcProvider>),
}

/// The credentials of a request.
#[derive(Default)]
pub(crate) struct RequestCredentials {
    /// The `Authorization` header.
    pub(crate) header: Option<HeaderValue>,
    /// The certificate from a plugin.
    pub(crate) identity: Option<Arc<Identity>>,
}

impl AuthorizationSource {
    /// The authenticator for these credentials. It sends its own requests over what `connect`
    /// returns.
    pub(crate) fn new(config: &Config, connect: Connect) -> Result<Self, ConfigError> {
        let credentials = &config.credentials;
        credentials.check()?;
        if let Some(path) = &credentials.token_file {
            return Ok(AuthorizationSource::File(
                path.clone(),
                TokenFile::new(path.clone(), credentials.token.clone()),
            ));
        }
        if let Some(token) = &credentials.token {
            return Ok(AuthorizationSource::Fixed(Secret::new(bearer(token).map_err(invalid)?)));
        }
        if credentials.has_basic() {
            return Ok(AuthorizationSource::Fixed(Secret::new(basic(credentials)?)));
        }
        if credentials.has_certificate() {
            return Ok(AuthorizationSource::None);
        }
        if let Some(exec) = &credentials.exec {
            return Ok(AuthorizationSource::Exec(Box::new(ExecPlugin::new(exec.clone(), config.observer.clone())?)));
        }
        if let Some(oidc) = &credentials.oidc {
            return Ok(AuthorizationSource::Oidc(Box::new(OidcProvider::new(oidc, config, connect)?)));
        }
        Ok(AuthorizationSource::None)
    }

    /// The credentials for a request. May run a program or contact a provider; concurrent callers
    /// wait for it.
    pub(crate) async fn show(&self) -> Result<RequestCredentials, TransportError> {
        let (token, identity) = match self {
            AuthorizationSource::None => (None, None),
            AuthorizationSource::Fixed(header) => {
                return Ok(RequestCredentials { header: Some(header.expose().clone()), identity: None });
            }
            AuthorizationSource::File(path, file) => {
                let named = |error: std::io::Error| {
                    let file = path.clone();
                    TransportError::new(TransportErrorKind::Credentials, ConfigError::Read { file, source: error })
                };
                (Some(file.token().await.map_err(named)?), None)
            }
            AuthorizationSource::Exec(plugin) => {
                let given = plugin.credential().await.map_err(unavailable)?;
                (given.token.clone(), given.identity.clone())
            }
            AuthorizationSource::Oidc(provider) => (Some(provider.token().await.map_err(unavailable)?), None),
        };
        let header = token.as_ref().map(bearer).transpose().map_err(unavailable)?;
        Ok(RequestCredentials { header, identity })
    }

    /// After a 401: whether there are new credentials, other than the rejected ones.
    pub(crate) async fn refresh(&self, refused: &RequestCredentials) -> bool {
        let token = refused.header.as_ref().and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        match self {
            AuthorizationSource::None | AuthorizationSource::Fixed(_) => false,
            AuthorizationSource::File(_, file) => match token {
                Some(token) => file.refresh(token).await,
                None => false,
            },
            AuthorizationSource::Exec(plugin) => plugin.refresh(token, refused.identity.as_ref()).await,
            AuthorizationSource::Oidc(provider) => match token {
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
    // Keeps it out of logs and of header compression tables.
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
