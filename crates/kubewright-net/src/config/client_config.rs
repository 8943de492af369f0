//! The configuration of a client.

use std::time::Duration;

use http::Uri;

use super::origin::Origin;
use super::proxy_choice::ProxyChoice;
use super::tls_options::TlsOptions;
use super::user_agent;
use crate::credentials::{Credentials, Impersonation};
use crate::environment::EnvironmentVariables;
use crate::error::ConfigError;
use crate::observer::TransportObserver;
use crate::server_address::server_uri;

/// Server, credentials and connection options. `Debug` redacts secrets.
///
/// ```
/// # use kubewright_net::config::Config;
/// let mut config = Config::new("https://cluster.example:6443")?;
/// config.credentials.token = Some("s3cret".into());
/// config.qps = Some(50.0);
/// assert!(!format!("{config:?}").contains("s3cret"));
/// # Ok::<(), kubewright_net::config::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "rest.Config")]
pub struct Config {
    /// The server: scheme, host, and an optional path prefix.
    pub server: Uri,
    /// Verification of the server's certificate.
    pub tls: TlsOptions,
    /// Client credentials. Only sent over TLS, or within this process.
    pub credentials: Credentials,
    /// The user to impersonate. None by default.
    pub impersonation: Option<Impersonation>,
    /// The proxy. From the environment by default.
    pub proxy: ProxyChoice,
    /// The environment variables for proxies and HTTP/2 settings. Those of the process by default.
    pub environment: EnvironmentVariables,
    /// The user agent. By default derived from the program's name and our version.
    pub user_agent: String,
    /// Maximum requests per second. Unlimited by default.
    pub qps: Option<f32>,
    /// Burst of requests above `qps`. 10 by default.
    pub burst: u32,
    /// Timeout of a request until the last byte of its response. Watches and followed logs only
    /// have to begin in this time. A client and a request may have another limit.
    /// Unlimited by default.
    pub timeout: Option<Duration>,
    /// Timeout to connect to the server or the proxy. 30 s by default.
    pub connect_timeout: Duration,
    /// Timeout of a TLS handshake. 10 s by default.
    pub tls_timeout: Duration,
    /// Whether to disable response compression.
    pub disable_compression: bool,
    /// The namespace of requests without one.
    pub default_namespace: String,
    /// Observes DNS lookups and plugin runs. None by default.
    pub observer: Option<TransportObserver>,
    /// The kubeconfig entries of this configuration, for error messages.
    pub origin: Origin,
}

impl Config {
    /// A configuration for the server at this URL, without credentials.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn new(server: &str) -> Result<Self, ConfigError> {
        let server = server_uri(server, true).map_err(|problem| ConfigError::Invalid(format!("server: {problem}")))?;
        Ok(Config {
            server,
            tls: TlsOptions::default(),
            credentials: Credentials::default(),
            impersonation: None,
            proxy: ProxyChoice::default(),
            environment: EnvironmentVariables::process(),
            user_agent: user_agent::user_agent(),
            qps: None,
            burst: 10,
            timeout: None,
            connect_timeout: Duration::from_secs(30),
            tls_timeout: Duration::from_secs(10),
            disable_compression: false,
            default_namespace: "default".to_owned(),
            observer: None,
            origin: Origin::default(),
        })
    }

    /// The same configuration without credentials.
    #[must_use]
    #[doc(alias = "AnonymousClientConfig")]
    pub fn anonymous(&self) -> Self {
        let origin = Origin { user: None, ..self.origin.clone() };
        Config { credentials: Credentials::default(), impersonation: None, origin, ..self.clone() }
    }

    /// Whether connections are encrypted.
    pub fn is_secure(&self) -> bool {
        self.server.scheme() == Some(&http::uri::Scheme::HTTPS)
    }
}
