//! The proxy of a configuration.

use crate::secret::Secret;

/// The proxy to use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// The one in `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    #[default]
    FromEnvironment,
    /// No proxy.
    Direct,
    /// The proxy at this URL: `http`, `https` or `socks5`, optionally with user and password.
    Url(Secret<String>),
}
