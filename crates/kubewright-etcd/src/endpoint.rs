//! The address of an etcd member.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// The default client port of etcd.
const DEFAULT_PORT: u16 = 2379;

/// The address of an etcd member, such as `https://10.0.0.1:2379`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) has_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Why a text is not the address of a member.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not the URL of an etcd member: {problem}")]
pub struct InvalidEndpoint {
    text: String,
    problem: &'static str,
}

impl Endpoint {
    /// Whether connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.has_tls
    }

    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    /// Parses a URL. Without a scheme, there is no TLS.
    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = |problem| InvalidEndpoint { text: text.to_owned(), problem };
        let uri = text.trim().parse::<Uri>().map_err(|_| invalid("it cannot be parsed"))?;
        let has_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") | None => false,
            Some(_) => return Err(invalid("the scheme must be http or https")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid("it must have no path"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("it must have no user"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("it has no host"))?;
        if uri.port_u16().is_none() && uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return Err(invalid("the port must be a number"));
        }
        let host = host.trim_matches(['[', ']']).to_owned();
        Ok(Endpoint { has_tls, host, port: uri.port_u16().unwrap_or(DEFAULT_PORT) })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.has_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_without_a_path() {
        for (text, shown) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379"),
            ("https://etcd-0.example", "https://etcd-0.example:2379"),
            ("https://[::1]:4001/", "https://[::1]:4001"),
            ("localhost:2379", "http://localhost:2379"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(shown.to_owned()));
        }
        for text in ["", "ftp://a:1", "http://a:1/v3", "http://", "http://a:b", "http://user@a:1"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }
}
