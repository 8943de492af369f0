//! A server certificate that is reloaded when its files change.
//!
//! Files are read on blocking threads, since a file system may be slow.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use std::{fmt, io};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::metrics::WebhookMetrics;
use crate::error::BoxError;

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
    /// A file is malformed, or certificate and key do not match.
    #[error("{} is not usable", .file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: BoxError,
    },
}

/// The current certificate for handshakes.
#[doc(alias = "CertWatcher")]
pub(super) struct ServingCertificate {
    files: [PathBuf; 2],
    current: RwLock<Loaded>,
}

#[derive(Clone)]
struct Loaded {
    texts: [Vec<u8>; 2],
    key: Arc<CertifiedKey>,
}

impl ServingCertificate {
    /// Reads the files; errors are returned.
    pub(super) async fn load(certificate: &Path, key: &Path) -> Result<Self, ServingCertificateError> {
        let files = [certificate.to_owned(), key.to_owned()];
        let current = parse(&files, read(&files).await?)?;
        Ok(ServingCertificate { files, current: RwLock::new(current) })
    }

    /// Checks the files once per `period`, until told to stop. A new pair is used only if it is
    /// valid: a pair is replaced in two steps, and in between its halves do not match.
    pub(super) async fn watch(&self, period: Duration, metrics: Option<&WebhookMetrics>, stop: &CancellationToken) {
        while stop.run_until_cancelled(sleep(period)).await.is_some() {
            let is_news = |texts: &[Vec<u8>; 2]| *texts != self.current().texts;
            let Some(texts) = stop.run_until_cancelled(read(&self.files)).await else { return };
            let loaded = match texts {
                Ok(texts) if is_news(&texts) => parse(&self.files, texts),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            if let Some(metrics) = metrics {
                metrics.read_certificate(loaded.is_ok());
            }
            match loaded {
                Ok(loaded) => {
                    tracing::info!(file = %self.files[0].display(), "certificate read again");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                }
                Err(error) => tracing::warn!(%error, "keeping the old certificate"),
            }
        }
    }

    fn current(&self) -> Loaded {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn read(files: &[PathBuf; 2]) -> Result<[Vec<u8>; 2], ServingCertificateError> {
    let [certificate, key] = files.clone();
    Ok([read_one(certificate).await?, read_one(key).await?])
}

async fn read_one(file: PathBuf) -> Result<Vec<u8>, ServingCertificateError> {
    let path = file.clone();
    let read = spawn_blocking(move || std::fs::read(path)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| ServingCertificateError::Read { file, source })
}

fn parse(files: &[PathBuf; 2], texts: [Vec<u8>; 2]) -> Result<Loaded, ServingCertificateError> {
    let unusable =
        |file: usize, source: BoxError| ServingCertificateError::Unusable { file: files[file].clone(), source };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&texts[0])
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(0, error.into()))?;
    // The parser's error could quote the key.
    let key = PrivateKeyDer::from_pem_slice(&texts[1]).map_err(|_| unusable(1, "no private key in PEM form".into()))?;
    let key =
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| unusable(0, error.into()))?;
    Ok(Loaded { texts, key: Arc::new(key) })
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}
