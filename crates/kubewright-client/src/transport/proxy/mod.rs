//! Proxies: which one to use for a server, and the way through it.

mod environment;
mod socks;
mod tunnel;

use std::io;
use std::sync::Arc;

use http::Uri;
use kubewright_core::ByteString;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::stream::BoxedStream;
use crate::config::{Config, ConfigError, ProxyChoice};
use crate::secret::Secret;

/// A proxy and how to speak to it.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    kind: Kind,
    pub(super) host: String,
    pub(super) port: u16,
    user: Option<(Secret<String>, Secret<String>)>,
    tls: Option<Arc<ClientConfig>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Socks5,
}

impl Proxy {
    /// The proxy for the server of this configuration, if there is one.
    pub(super) fn of(config: &Config) -> Result<Option<Proxy>, ConfigError> {
        let url = match &config.proxy {
            ProxyChoice::Direct => None,
            ProxyChoice::Url(url) => Some(url.clone()),
            ProxyChoice::FromEnvironment => environment::proxy_for(&config.server, &config.environment),
        };
        let Some(url) = url else { return Ok(None) };
        let mut proxy = parse(url.expose()).map_err(|problem| ConfigError::Invalid(format!("proxy: {problem}")))?;
        if proxy.kind == Kind::Https {
            proxy.tls = Some(super::tls::for_proxy(&config.tls)?);
        }
        Ok(Some(proxy))
    }

    /// Makes a connection to the proxy one to `host`. Names are looked up by the proxy.
    pub(super) async fn pass(&self, stream: BoxedStream, host: &str, port: u16) -> io::Result<BoxedStream> {
        match self.kind {
            Kind::Socks5 => socks::pass(stream, host, port, self.user.as_ref()).await,
            Kind::Http => tunnel::pass(stream, host, port, self.authorization()).await,
            Kind::Https => {
                let tls = self.tls.clone().ok_or_else(|| io::Error::other("the proxy has no TLS configuration"))?;
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let stream = TlsConnector::from(tls).connect(name, stream).await?;
                tunnel::pass(Box::new(stream), host, port, self.authorization()).await
            }
        }
    }

    fn authorization(&self) -> Option<Secret<String>> {
        let (user, password) = self.user.as_ref()?;
        let pair = format!("{}:{}", user.expose(), password.expose());
        Some(Secret::new(format!("Basic {}", ByteString::from(pair.as_str()).to_base64())))
    }
}

/// The proxy that a URL stands for. The error does not repeat the URL, which may have a password.
pub(crate) fn parse(url: &str) -> Result<Proxy, String> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = url.parse().map_err(|_| "is no URL".to_owned())?;
    let (kind, default_port) = match uri.scheme_str() {
        Some("http") => (Kind::Http, 80),
        Some("https") => (Kind::Https, 443),
        Some("socks5" | "socks5h") => (Kind::Socks5, 1080),
        _ => return Err("is neither http, https nor socks5".to_owned()),
    };
    let authority = uri.authority().ok_or("has no host")?;
    let user = authority.as_str().rsplit_once('@').map(|(user, _)| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (Secret::new(unescape(name)), Secret::new(unescape(password)))
    });
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    Ok(Proxy { kind, host, port: authority.port_u16().unwrap_or(default_port), user, tls: None })
}

/// A text with its percent escapes replaced.
fn unescape(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
