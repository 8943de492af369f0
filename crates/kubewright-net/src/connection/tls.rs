//! TLS configuration, rebuilt when its files change.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;

use super::trusted_certificate::TrustedCertificate;
use super::verifier::AnyCertificate;
use crate::config::{Config, Origin, TlsOptions};
use crate::credentials::{CertificateSource, ClientCertificate, Identity, LiveCertificate};
use crate::crypto::provider;
use crate::error::{ConfigError, of_entry};
use crate::task;

/// Check interval of the certificate authority file.
const AUTHORITY_INTERVAL: Duration = Duration::from_secs(300);
/// Check interval of the client certificate files when connections are opened.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(1);

/// TLS for one server.
pub(super) struct Tls {
    options: TlsOptions,
    certificate: Option<ClientCertificate>,
    live: Option<LiveCertificate>,
    server_name: ServerName<'static>,
    origin: Origin,
    /// The system trust store, if it is used. Read once, because the TLS configuration is rebuilt
    /// in async code.
    native: Option<Arc<RootCertStore>>,
    state: Mutex<TlsState>,
}

struct TlsState {
    client: Arc<ClientConfig>,
    /// The content of the certificate authority file, if there is one.
    authority: Option<Vec<u8>>,
    authority_checked: Instant,
    identity: Option<Arc<Identity>>,
    identity_checked: Instant,
}

/// A change found in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TlsChange {
    /// Nothing.
    None,
    /// The trusted authorities: new connections are needed, old ones may finish their requests.
    Authority,
    /// The client identity: old connections must not be used any more.
    Identity,
}

impl Tls {
    /// Reads all files; errors are returned.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let (options, origin) = (config.tls.clone(), config.origin.clone());
        if options.insecure && options.authority.is_some() {
            let problem = "authorities make no sense together with insecure TLS";
            return Err(ConfigError::Invalid(problem.to_owned()));
        }
        let certificate = config.credentials.client_certificate.clone();
        let host = config.server.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = options.server_name.as_deref().unwrap_or(host);
        let server_name = ServerName::try_from(name.to_owned())
            .map_err(|_| ConfigError::Invalid(format!("{name:?} is no name that a certificate can have")))?;
        let authority = match &options.authority {
            Some(CertificateSource::File(file)) => {
                let read = |source| ConfigError::Read { file: file.clone(), source };
                Some(std::fs::read(file).map_err(read)?)
            }
            _ => None,
        };
        // A fixed certificate takes precedence over a live one.
        let live = config.credentials.live_certificate.clone().filter(|_| certificate.is_none());
        let identity = match &live {
            Some(live) => live.current(),
            None => {
                let load = |certificate| Identity::load(certificate, origin.user.as_deref());
                certificate.as_ref().map(load).transpose()?.map(Arc::new)
            }
        };
        let native = (options.authority.is_none() && !options.insecure).then(|| Arc::new(native_roots()));
        let client = client(&options, &origin, native.as_ref(), authority.as_deref(), identity.as_deref())?;
        let now = Instant::now();
        let state = TlsState { client, authority, authority_checked: now, identity, identity_checked: now };
        Ok(Tls { options, certificate, live, server_name, origin, native, state: Mutex::new(state) })
    }

    /// The name that the server's certificate must have.
    pub(super) fn server_name(&self) -> ServerName<'static> {
        self.server_name.clone()
    }

    /// The current TLS configuration.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.state().client)
    }

    /// Whether the certificate authority file is due for a check. True for one caller only, which
    /// then [reloads](Self::reload_authority) it; the others continue with the known content.
    pub(super) fn is_authority_due(&self) -> bool {
        let is_file = matches!(self.options.authority, Some(CertificateSource::File(_)));
        is_file && is_due(&mut self.state().authority_checked, AUTHORITY_INTERVAL)
    }

    /// Reloads the certificate authority file. An unreadable or invalid file changes nothing.
    pub(super) async fn reload_authority(&self) -> TlsChange {
        let Some(CertificateSource::File(file)) = self.options.authority.clone() else { return TlsChange::None };
        let path = file.clone();
        let read = task::blocking(move || std::fs::read(path)).await;
        let mut state = self.state();
        let pem = match read {
            Ok(pem) if state.authority.as_ref() == Some(&pem) => return TlsChange::None,
            Ok(pem) if pem.trim_ascii().is_empty() => return TlsChange::None,
            Ok(pem) => pem,
            Err(source) => {
                let error = ConfigError::Read { file, source };
                tracing::warn!(%error, "the certificate authorities stay as they were");
                return TlsChange::None;
            }
        };
        match self.client_with(Some(&pem), state.identity.as_deref()) {
            Ok(client) => {
                tracing::info!(file = %file.display(), "the certificate authorities have changed");
                (state.client, state.authority) = (client, Some(pem));
                TlsChange::Authority
            }
            Err(error) => {
                tracing::warn!(%error, "the certificate authorities stay as they were");
                TlsChange::None
            }
        }
    }

    /// The live client certificate, if there is one.
    pub(super) fn live(&self) -> Option<&LiveCertificate> {
        self.live.as_ref()
    }

    /// Applies a change of the live certificate.
    pub(super) fn check_live(&self) -> TlsChange {
        let Some(live) = &self.live else { return TlsChange::None };
        let current = live.current();
        self.change_identity(&mut self.state(), current)
    }

    /// Whether the client certificate files are due for a check, if they may change. True for one
    /// caller only, which then [reloads](Self::reload_identity) them; the others continue with the
    /// known content.
    pub(super) fn is_identity_due(&self) -> bool {
        let may_change = self.live.is_none() && self.certificate.as_ref().is_some_and(ClientCertificate::is_reloadable);
        may_change && is_due(&mut self.state().identity_checked, IDENTITY_INTERVAL)
    }

    /// Reloads the client certificate files. Unreadable or invalid files change nothing.
    pub(super) async fn reload_identity(&self) -> TlsChange {
        let Some(source) = self.certificate.clone() else { return TlsChange::None };
        let entry = self.origin.user.clone();
        match task::blocking(move || Identity::load(&source, entry.as_deref())).await {
            Ok(identity) => self.change_identity(&mut self.state(), Some(Arc::new(identity))),
            Err(error) => {
                tracing::warn!(%error, "the client certificate stays as it was");
                TlsChange::None
            }
        }
    }

    /// Uses the certificate of a plugin, which may be none. A configured certificate then stays.
    pub(super) fn set_identity(&self, identity: Option<&Arc<Identity>>) -> TlsChange {
        if identity.is_none() && (self.certificate.is_some() || self.live.is_some()) {
            return TlsChange::None;
        }
        self.change_identity(&mut self.state(), identity.cloned())
    }

    /// Changes the identity. A first certificate counts as a change, and so does none after the
    /// last: connections may exist without one, or with it.
    fn change_identity(&self, state: &mut TlsState, identity: Option<Arc<Identity>>) -> TlsChange {
        if state.identity == identity {
            return TlsChange::None;
        }
        // A resumed session keeps its original identity, so nothing of the old state may be reused.
        match self.client_with(state.authority.as_deref(), identity.as_deref()) {
            Ok(client) => {
                (state.client, state.identity) = (client, identity);
                TlsChange::Identity
            }
            Err(error) => {
                tracing::warn!(%error, "the client certificate stays as it was");
                TlsChange::None
            }
        }
    }

    fn client_with(
        &self,
        authority: Option<&[u8]>,
        identity: Option<&Identity>,
    ) -> Result<Arc<ClientConfig>, ConfigError> {
        client(&self.options, &self.origin, self.native.as_ref(), authority, identity)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TlsState> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

/// Whether `interval` has passed since the last check, which is updated.
fn is_due(checked: &mut Instant, interval: Duration) -> bool {
    let is_due = checked.elapsed() >= interval;
    if is_due {
        *checked = Instant::now();
    }
    is_due
}

/// TLS to a proxy: trusts the system and the configured authorities, and presents no certificate.
pub(super) fn for_proxy(options: &TlsOptions) -> Result<Arc<ClientConfig>, ConfigError> {
    let mut roots = native_roots();
    if let Some(source) = &options.authority {
        let pem = match source {
            CertificateSource::Data(data) => data.to_vec(),
            CertificateSource::File(file) => {
                let read = |source| ConfigError::Read { file: file.clone(), source };
                std::fs::read(file).map_err(read)?
            }
        };
        roots.extend(authorities(&pem, "the certificate authority")?.roots);
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("TLS", error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn client(
    options: &TlsOptions,
    origin: &Origin,
    native: Option<&Arc<RootCertStore>>,
    authority: Option<&[u8]>,
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("TLS", error))?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        let trusted = match (&options.authority, authority) {
            (Some(CertificateSource::Data(data)), _) => {
                let place = of_entry("the certificate authority", origin.cluster.as_deref());
                Some(trusted_certificate(data, &place, provider)?)
            }
            (Some(CertificateSource::File(file)), pem) => {
                let place = of_entry(file.display(), origin.cluster.as_deref());
                Some(trusted_certificate(pem.unwrap_or_default(), &place, provider)?)
            }
            (None, _) => None,
        };
        match trusted {
            Some(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
            None => builder.with_root_certificates(native.cloned().unwrap_or_else(|| Arc::new(RootCertStore::empty()))),
        }
    };
    let mut client = match identity {
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| unusable(identity.name(), error))?,
        None => builder.with_no_client_auth(),
    };
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(client))
}

fn unusable(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConfigError {
    ConfigError::Tls { what: what.to_owned(), source: source.into() }
}

/// The verifier for configured authorities.
fn trusted_certificate(
    pem: &[u8],
    what: &str,
    provider: Arc<CryptoProvider>,
) -> Result<TrustedCertificate, ConfigError> {
    let roots = Arc::new(authorities(pem, what)?);
    let chains = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    // The authorities have been read, so each of these can be.
    let trusted = CertificateDer::pem_slice_iter(pem).flatten().collect();
    Ok(TrustedCertificate { chains: chains.map_err(|error| unusable(what, error))?, trusted })
}

/// Parses certificate authorities. A text without any is an error, and never means the system trust
/// store.
fn authorities(pem: &[u8], what: &str) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(what, error))?;
        roots.add(certificate).map_err(|error| unusable(what, error))?;
    }
    if roots.is_empty() { Err(unusable(what, "it contains no certificate in PEM form")) } else { Ok(roots) }
}

fn native_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some certificate authorities of this machine cannot be read");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots
}
