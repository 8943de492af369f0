//! Which server to talk to, as whom, and how: from kubeconfigs, from the pod, or by hand.
//!
//! [`Config`] is what a client needs to know. [`Config::infer`] finds it as kubectl does; [`Kubeconfig`] and
//! [`LoadingRules`] are for programs that read or change kubeconfigs themselves, [`InCluster`] is the way of pods.

mod environment;
mod error;
mod fields;
mod file;
mod in_cluster;
mod kubeconfig;
mod loading;
mod origin;
mod overrides;
mod resolving;
mod shrinking;
mod user;
mod user_agent;
mod validation;
mod writing;

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use kubewright_core::ByteString;

pub use environment::Environment;
pub use error::{ConfigError, EntryError};
pub use in_cluster::InCluster;
pub use kubeconfig::{Cluster, Context, Kubeconfig};
pub use loading::LoadingRules;
pub use origin::Origin;
pub(crate) use origin::of_entry;
pub use overrides::Overrides;
pub use user::{AuthInfo, AuthProvider, ExecConfig, ExecEnv, InteractiveMode};

use crate::credentials::{Credentials, Impersonation};
use crate::transport::TransportObserver;

/// Which server to talk to, as whom, and how. What is secret in it does not show in `Debug`.
///
/// ```
/// # use kubewright_client::config::Config;
/// let mut config = Config::new("https://cluster.example:6443")?;
/// config.credentials.token = Some("s3cret".into());
/// config.qps = Some(50.0);
/// assert!(!format!("{config:?}").contains("s3cret"));
/// # Ok::<(), kubewright_client::config::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "rest.Config")]
pub struct Config {
    /// The server: scheme, host, and a path that goes before all others.
    pub server: Uri,
    /// How the server proves what it is.
    pub tls: TlsOptions,
    /// How we prove who we are. Only sent over TLS, or within this process.
    pub credentials: Credentials,
    /// Who to act as. Nobody else by default.
    pub impersonation: Option<Impersonation>,
    /// The way out. By default what the environment says.
    pub proxy: ProxyChoice,
    /// The variables that proxies and HTTP/2 settings come from. Those of the process by default.
    pub environment: Environment,
    /// The name by which the server knows us. By default made of the program's name and our version.
    pub user_agent: String,
    /// How many requests a second may be made. Unlimited by default.
    pub qps: Option<f32>,
    /// How many requests may be made at once before `qps` counts. 10 by default.
    pub burst: u32,
    /// How long a request may take, until the last byte of its answer. Watches and followed logs only have to begin
    /// in this time. A client and a request may have [another limit](crate::Client::request_timeout). Unlimited by default.
    pub timeout: Option<Duration>,
    /// How long a connection may take to come about, to the server or to the proxy. 30 s by default.
    pub connect_timeout: Duration,
    /// How long a TLS handshake may take. 10 s by default.
    pub tls_timeout: Duration,
    /// Whether answers should come without compression.
    pub disable_compression: bool,
    /// The namespace of requests that name none.
    pub default_namespace: String,
    /// Who is told of look-ups of names and runs of plugins. Nobody by default.
    pub observer: Option<TransportObserver>,
    /// Which entries of a kubeconfig this is, for errors to name.
    pub origin: Origin,
}

/// How a server proves what it is.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// The authorities that sign the server's certificate. By default those that the machine trusts.
    pub authority: Option<CertificateSource>,
    /// Whether any certificate will do. Then anybody on the way can read and change everything.
    pub insecure: bool,
    /// The name that the server's certificate has to have, if not the host of the URL.
    pub server_name: Option<String>,
}

/// Certificates, in a file that is read again when it changes, or given once and for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// A file in PEM.
    File(PathBuf),
    /// The PEM itself.
    Data(ByteString),
}

/// The way out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// What `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` say.
    #[default]
    FromEnvironment,
    /// No proxy.
    Direct,
    /// The proxy at this URL: `http`, `https` or `socks5`; may have a user and a password.
    Url(crate::Secret<String>),
}

impl Config {
    /// A configuration for the server at this URL, without credentials.
    ///
    /// # Errors
    /// If the URL makes no sense.
    pub fn new(server: &str) -> Result<Self, ConfigError> {
        let server = server_uri(server, true).map_err(|problem| ConfigError::Invalid(format!("server: {problem}")))?;
        Ok(Config {
            server,
            tls: TlsOptions::default(),
            credentials: Credentials::default(),
            impersonation: None,
            proxy: ProxyChoice::default(),
            environment: Environment::process(),
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

    /// The same configuration without anything that proves who we are.
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

/// The address of a server. One without a scheme gets `https`, or `http` where TLS makes no sense.
///
/// The error does not repeat the text, which may have a password.
pub(crate) fn server_uri(text: &str, tls: bool) -> Result<Uri, String> {
    let full = match text.contains("://") {
        true => text.to_owned(),
        false => format!("{}://{text}", if tls { "https" } else { "http" }),
    };
    let uri: Uri = full.parse().map_err(|error| format!("is no URL: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("is neither http nor https".to_owned());
    }
    if uri.query().is_some() || full.contains('#') {
        return Err("has more than a host and a path".to_owned());
    }
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    if uri.host().is_none_or(str::is_empty) || authority.contains('@') {
        return Err("has no plain host".to_owned());
    }
    // Mostly a scheme that was mistaken for a host.
    if authority.ends_with(':') {
        return Err("has a colon with no port after it; a URL starts with http:// or https://".to_owned());
    }
    Ok(uri)
}
