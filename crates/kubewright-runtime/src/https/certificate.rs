//! The certificate of a server: from files, from a rotator, or self-signed.
//!
//! Files are read on blocking threads, since a file system may be slow. Expiry is judged by the
//! system clock even where tokio's clock is paused, because TLS clients judge by theirs.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use std::{fmt, io};

use kubewright_core::Time;
use kubewright_net::der::Certificate;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::metrics::CertificateMetrics;
use crate::error::{BoxError, chain};
use crate::rotation::{CertificateRotator, RotationError, ServedPair};

/// How often certificate files are checked by default, as in controller-runtime.
const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// Where an HTTPS server finds its certificate and key.
#[derive(Debug, Clone)]
pub struct ServingCertificate {
    source: CertificateSource,
}

#[derive(Debug, Clone)]
enum CertificateSource {
    Files { files: [PathBuf; 2], period: Duration },
    Rotated(CertificateRotator),
    Fixed(ServedPair),
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingCertificateError {
    /// A file cannot be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A certificate is malformed, or certificate and key do not match.
    #[error("{origin} is not usable")]
    Unusable {
        /// The file, or the storage.
        origin: String,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// A certificate cannot be issued.
    #[error(transparent)]
    Rotation(#[from] RotationError),
}

impl ServingCertificate {
    /// Certificate and key in these PEM files, such as those that cert-manager mounts. They are
    /// read again when they change.
    #[doc(alias = "CertWatcher")]
    #[doc(alias = "CertDir")]
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        ServingCertificate {
            source: CertificateSource::Files { files: [certificate.into(), key.into()], period: RELOAD_PERIOD },
        }
    }

    /// How often the files are checked. Every 10 s by default. Other sources ignore it.
    #[must_use]
    pub fn reload_every(mut self, reload: Duration) -> Self {
        if let CertificateSource::Files { period, .. } = &mut self.source {
            *period = reload;
        }
        self
    }

    /// A self-signed certificate of this process for these names and addresses, valid for a year.
    ///
    /// For tests, and for metrics whose scraper does not verify certificates.
    ///
    /// # Errors
    /// If a name is neither a DNS name nor an address.
    pub fn self_signed<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<Self, ServingCertificateError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Ok(ServingCertificate { source: CertificateSource::Fixed(ServedPair::self_signed(&names, Time::now())?) })
    }

    /// The certificate in PEM, for clients to trust; `None` unless it is self-signed.
    pub fn pem(&self) -> Option<&str> {
        match &self.source {
            CertificateSource::Fixed(pair) => Some(&pair.certificate),
            _ => None,
        }
    }
}

impl From<CertificateRotator> for ServingCertificate {
    fn from(rotator: CertificateRotator) -> Self {
        ServingCertificate { source: CertificateSource::Rotated(rotator) }
    }
}

/// The current certificate for handshakes.
pub(super) struct CurrentCertificate {
    source: CertificateSource,
    current: RwLock<Loaded>,
}

struct Loaded {
    pair: ServedPair,
    key: Arc<CertifiedKey>,
    expires: Option<Time>,
}

impl CurrentCertificate {
    /// Loads or issues the certificate.
    pub(super) async fn load(certificate: ServingCertificate) -> Result<Self, ServingCertificateError> {
        let source = certificate.source;
        let current = source.parse(source.read().await?)?;
        Ok(CurrentCertificate { source, current: RwLock::new(current) })
    }

    /// Reads or renews the certificate periodically, until told to stop. A new pair is used only if
    /// it is valid: files are replaced one after the other, and in between they do not match.
    ///
    /// `renewed` receives the expiry time of each new certificate, as [`expires`](Self::expires).
    pub(super) async fn maintain(
        &self,
        metrics: Option<&CertificateMetrics>,
        renewed: impl Fn(i64),
        stop: &CancellationToken,
    ) {
        while stop.run_until_cancelled(sleep(self.source.period())).await.is_some() {
            let Some(read) = stop.run_until_cancelled(self.source.read()).await else { return };
            let loaded = match read {
                Ok(pair) if self.is_current(&pair) => continue,
                Ok(pair) => self.source.parse(pair),
                Err(error) => Err(error),
            };
            if let Some(metrics) = metrics {
                metrics.read(loaded.is_ok());
            }
            match loaded {
                Ok(loaded) => {
                    tracing::info!(from = %self.source, "new serving certificate");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                    renewed(self.expires());
                }
                Err(error) => tracing::warn!(error = chain(&error), "keeping the old serving certificate"),
            }
        }
    }

    /// When it expires, in seconds since 1970; `i64::MAX` if unknown.
    pub(super) fn expires(&self) -> i64 {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.expires.map_or(i64::MAX, Time::as_unix)
    }

    fn is_current(&self, pair: &ServedPair) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).pair == *pair
    }
}

impl CertificateSource {
    fn period(&self) -> Duration {
        match self {
            CertificateSource::Files { period, .. } => *period,
            CertificateSource::Rotated(rotator) => rotator.next_check(),
            CertificateSource::Fixed(_) => Duration::MAX,
        }
    }

    async fn read(&self) -> Result<ServedPair, ServingCertificateError> {
        match self {
            CertificateSource::Files { files: [certificate, key], .. } => {
                Ok(ServedPair { certificate: text_of(certificate).await?, key: text_of(key).await? })
            }
            CertificateSource::Rotated(rotator) => Ok(rotator.rotate().await?),
            CertificateSource::Fixed(pair) => Ok(pair.clone()),
        }
    }

    fn parse(&self, pair: ServedPair) -> Result<Loaded, ServingCertificateError> {
        let unusable = |source: BoxError| ServingCertificateError::Unusable { origin: self.to_string(), source };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(error.into()))?;
        let expires = chain.first().and_then(|leaf| Certificate::read(leaf)?.not_after());
        // The parser's error could quote the key.
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
            .map_err(|_| unusable("no private key in PEM form".into()))?;
        let key =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| unusable(error.into()))?;
        Ok(Loaded { pair, key: Arc::new(key), expires })
    }
}

impl fmt::Display for CertificateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateSource::Files { files: [certificate, _], .. } => write!(f, "{}", certificate.display()),
            CertificateSource::Rotated(rotator) => write!(f, "{rotator}"),
            CertificateSource::Fixed(_) => f.write_str("the given certificate"),
        }
    }
}

async fn text_of(file: &std::path::Path) -> Result<String, ServingCertificateError> {
    let path = file.to_owned();
    // Files with certificates are text; other bytes are reported when they are parsed.
    let read = spawn_blocking(move || std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
    read.await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| ServingCertificateError::Read { file: file.to_owned(), source })
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).key.clone())
    }
}

impl fmt::Debug for CurrentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentCertificate").field("source", &self.source).finish_non_exhaustive()
    }
}
