//! URLs of proxies.

use http::Uri;
use percent_encoding::percent_decode_str;

use crate::secret::Secret;

/// The protocol, address and password in the URL of a proxy.
#[derive(Debug, Clone)]
pub(crate) struct ProxyUrl {
    pub(crate) kind: ProxyKind,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<(Secret<String>, Secret<String>)>,
}

/// The protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Http,
    Https,
    Socks5,
}

impl ProxyUrl {
    /// Parses a proxy URL. The error does not repeat it, because it may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = url.parse().map_err(|_| "is no URL".to_owned())?;
        let (kind, default_port) = match uri.scheme_str() {
            Some("http") => (ProxyKind::Http, 80),
            Some("https") => (ProxyKind::Https, 443),
            Some("socks5" | "socks5h") => (ProxyKind::Socks5, 1080),
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
        Ok(ProxyUrl { kind, host, port: authority.port_u16().unwrap_or(default_port), user })
    }
}

fn unescape(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
