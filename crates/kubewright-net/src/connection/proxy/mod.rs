//! Proxies: selection and tunnelling.

mod environment;
mod socks;
mod tunnel;

use std::io;
use std::sync::Arc;

use kubewright_core::ByteString;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use crate::config::{Config, ProxyChoice};
use crate::error::ConfigError;
use crate::proxy_url::{ProxyKind, ProxyUrl};
use crate::secret::Secret;
use crate::transport::BoxedStream;

/// A proxy and how to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    url: ProxyUrl,
    tls: Option<Arc<ClientConfig>>,
}

impl Proxy {
    /// The proxy of this configuration, if there is one.
    pub(super) fn of(config: &Config) -> Result<Option<Proxy>, ConfigError> {
        let url = match &config.proxy {
            ProxyChoice::Direct => None,
            ProxyChoice::Url(url) => Some(url.clone()),
            ProxyChoice::FromEnvironment => environment::proxy_for(&config.server, &config.environment),
        };
        let Some(url) = url else { return Ok(None) };
        let url = ProxyUrl::parse(url.expose()).map_err(|problem| ConfigError::Invalid(format!("proxy: {problem}")))?;
        let tls = (url.kind == ProxyKind::Https).then(|| super::tls::for_proxy(&config.tls)).transpose()?;
        Ok(Some(Proxy { url, tls }))
    }

    /// Its host.
    pub(super) fn host(&self) -> &str {
        &self.url.host
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.url.port
    }

    /// Tunnels a connection to the proxy through to `host`. The proxy resolves names.
    pub(super) async fn pass(&self, stream: BoxedStream, host: &str, port: u16) -> io::Result<BoxedStream> {
        match self.url.kind {
            ProxyKind::Socks5 => socks::pass(stream, host, port, self.url.user.as_ref()).await,
            ProxyKind::Http => tunnel::pass(stream, host, port, self.authorization()).await,
            ProxyKind::Https => {
                let tls = self.tls.clone().ok_or_else(|| io::Error::other("the proxy has no TLS configuration"))?;
                let name = ServerName::try_from(self.url.host.clone()).map_err(io::Error::other)?;
                let stream = TlsConnector::from(tls).connect(name, stream).await?;
                tunnel::pass(Box::new(stream), host, port, self.authorization()).await
            }
        }
    }

    fn authorization(&self) -> Option<Secret<String>> {
        let (user, password) = self.url.user.as_ref()?;
        let pair = format!("{}:{}", user.expose(), password.expose());
        Some(Secret::new(format!("Basic {}", ByteString::from(pair.as_str()).to_base64())))
    }
}
