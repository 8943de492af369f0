//! TLS as the configuration wants it, made anew when its files change.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::Instant;

use super::verifier::AnyCertificate;
use crate::config::{CertificateSource, Config, ConfigError, Origin, TlsOptions, of_entry};
use crate::credentials::{ClientCertificate, Identity, LiveCertificate};
use crate::task;

/// How often the file of authorities is looked at.
const AUTHORITY_INTERVAL: Duration = Duration::from_secs(300);
/// How often the files of the client certificate are looked at when connections are made.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(1);

/// TLS for one server.
pub(super) struct Tls {
    options: TlsOptions,
    certificate: Option<ClientCertificate>,
    live: Option<LiveCertificate>,
    server_name: ServerName<'static>,
    origin: Origin,
    /// The authorities of the machine, if those are trusted. Read once, since a client is made anew
    /// in async code.
    native: Option<Arc<RootCertStore>>,
    state: Mutex<State>,
}

struct State {
    client: Arc<ClientConfig>,
    /// The text of the authorities, if they are in a file.
    authority: Option<Vec<u8>>,
    authority_checked: Instant,
    identity: Option<Arc<Identity>>,
    identity_checked: Instant,
}

/// What has become of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// They are as they were.
    None,
    /// Other authorities are trusted: new connections are needed, old ones may finish their work.
    Authority,
    /// We are somebody else, or have a new certificate: old connections must not be used any more.
    Identity,
}

impl Tls {
    /// Reads all files once; here they have to be right.
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
        // A certificate that was given for good wins over one that changes.
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
        let state = State { client, authority, authority_checked: now, identity, identity_checked: now };
        Ok(Tls { options, certificate, live, server_name, origin, native, state: Mutex::new(state) })
    }

    /// The name that the server's certificate has to have.
    pub(super) fn server_name(&self) -> ServerName<'static> {
        self.server_name.clone()
    }

    /// How to speak TLS now.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.state().client)
    }

    /// Whether it is time to look at the file of authorities. Says so to one caller only, which
    /// then [reloads](Self::reload_authority) it; the others go on with what is known.
    pub(super) fn is_authority_due(&self) -> bool {
        let is_file = matches!(self.options.authority, Some(CertificateSource::File(_)));
        is_file && is_due(&mut self.state().authority_checked, AUTHORITY_INTERVAL)
    }

    /// Reads the file of authorities. What cannot be read or understood changes nothing.
    pub(super) async fn reload_authority(&self) -> Change {
        let Some(CertificateSource::File(file)) = self.options.authority.clone() else { return Change::None };
        let path = file.clone();
        let read = task::blocking(move || std::fs::read(path)).await;
        let mut state = self.state();
        let pem = match read {
            Ok(pem) if state.authority.as_ref() == Some(&pem) => return Change::None,
            Ok(pem) if pem.trim_ascii().is_empty() => return Change::None,
            Ok(pem) => pem,
            Err(source) => {
                let error = ConfigError::Read { file, source };
                tracing::warn!(%error, "the certificate authorities stay as they were");
                return Change::None;
            }
        };
        match self.client_with(Some(&pem), state.identity.as_deref()) {
            Ok(client) => {
                tracing::info!(file = %file.display(), "the certificate authorities have changed");
                (state.client, state.authority) = (client, Some(pem));
                Change::Authority
            }
            Err(error) => {
                tracing::warn!(%error, "the certificate authorities stay as they were");
                Change::None
            }
        }
    }

    /// The client certificate that is renewed while connections live, if there is one.
    pub(super) fn live(&self) -> Option<&LiveCertificate> {
        self.live.as_ref()
    }

    /// Takes note of what has become of a live certificate.
    pub(super) fn check_live(&self) -> Change {
        let Some(live) = &self.live else { return Change::None };
        let current = live.current();
        self.become_somebody(&mut self.state(), current)
    }

    /// Whether it is time to look at the files of the client certificate, if they may change. Says
    /// so to one caller only, which then [reloads](Self::reload_identity) them; the others go on
    /// with what is known.
    pub(super) fn is_identity_due(&self) -> bool {
        let may_change = self.live.is_none() && self.certificate.as_ref().is_some_and(ClientCertificate::is_reloadable);
        may_change && is_due(&mut self.state().identity_checked, IDENTITY_INTERVAL)
    }

    /// Reads the files of the client certificate. What cannot be read or understood changes
    /// nothing.
    pub(super) async fn reload_identity(&self) -> Change {
        let Some(source) = self.certificate.clone() else { return Change::None };
        let entry = self.origin.user.clone();
        match task::blocking(move || Identity::load(&source, entry.as_deref())).await {
            Ok(identity) => self.become_somebody(&mut self.state(), Some(Arc::new(identity))),
            Err(error) => {
                tracing::warn!(%error, "the client certificate stays as it was");
                Change::None
            }
        }
    }

    /// Shows from now on what a plugin has given, which may be no certificate. One of the configuration stays then.
    pub(super) fn set_identity(&self, identity: Option<&Arc<Identity>>) -> Change {
        if identity.is_none() && (self.certificate.is_some() || self.live.is_some()) {
            return Change::None;
        }
        self.become_somebody(&mut self.state(), identity.cloned())
    }

    /// A first certificate counts too, and none after the last: connections may have been made without one, or with it.
    fn become_somebody(&self, state: &mut State, identity: Option<Arc<Identity>>) -> Change {
        if state.identity == identity {
            return Change::None;
        }
        // A session that is resumed keeps the identity it began with, so nothing of the old state may be used again.
        match self.client_with(state.authority.as_deref(), identity.as_deref()) {
            Ok(client) => {
                (state.client, state.identity) = (client, identity);
                Change::Identity
            }
            Err(error) => {
                tracing::warn!(%error, "the client certificate stays as it was");
                Change::None
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

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

/// Whether so much time has passed since the last check, which is now.
fn is_due(checked: &mut Instant, interval: Duration) -> bool {
    let is_due = checked.elapsed() >= interval;
    if is_due {
        *checked = Instant::now();
    }
    is_due
}

/// A certificate chain and its key, after a look at whether they belong together.
pub(crate) fn certified(identity: &Identity) -> Result<rustls::sign::CertifiedKey, ConfigError> {
    rustls::sign::CertifiedKey::from_der(identity.chain.clone(), identity.key.clone_key(), &provider())
        .map_err(|error| unusable(identity.name(), error))
}

/// TLS to a proxy: the authorities of the machine and of the configuration are trusted, and nothing is shown.
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
        let roots = match (&options.authority, authority) {
            (Some(CertificateSource::Data(data)), _) => {
                Arc::new(authorities(data, &of_entry("the certificate authority", origin.cluster.as_deref()))?)
            }
            (Some(CertificateSource::File(file)), pem) => {
                let place = of_entry(file.display(), origin.cluster.as_deref());
                Arc::new(authorities(pem.unwrap_or_default(), &place)?)
            }
            (None, _) => native.cloned().unwrap_or_else(|| Arc::new(RootCertStore::empty())),
        };
        builder.with_root_certificates(roots)
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

/// The authorities in a text. A text without any is an error, and never means those of the machine.
fn authorities(pem: &[u8], what: &str) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(what, error))?;
        roots.add(certificate).map_err(|error| unusable(what, error))?;
    }
    match roots.is_empty() {
        true => Err(unusable(what, "it contains no certificate in PEM form")),
        false => Ok(roots),
    }
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

fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "aws-lc-rs")]
    return Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(feature = "aws-lc-rs"))]
    Arc::new(rustls::crypto::ring::default_provider())
}
