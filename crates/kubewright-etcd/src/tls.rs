//! TLS to etcd, with a client certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kubewright_net::task;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The PEM files of TLS to etcd.
///
/// They are read for each new connection, so that renewed files are used without a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    authority: PathBuf,
    client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Trusts the authorities in this file.
    #[doc(alias = "etcd-cafile")]
    pub fn new(authority: impl Into<PathBuf>) -> Self {
        TlsFiles { authority: authority.into(), client: None }
    }

    /// Presents this certificate with its key. None by default.
    #[doc(alias = "etcd-certfile")]
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client = Some((certificate.into(), key.into()));
        self
    }

    /// Reads the files.
    pub(crate) async fn load(&self) -> io::Result<Arc<ClientConfig>> {
        let files = self.clone();
        task::blocking(move || files.read()).await
    }

    /// Reads the files now, on this thread.
    ///
    /// # Errors
    /// A file cannot be read, or has no certificate or key in PEM form.
    pub fn check(&self) -> io::Result<()> {
        self.read().map(drop)
    }

    fn read(&self) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate).map_err(|error| unusable(&self.authority, &error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?.with_root_certificates(roots);
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let pem = std::fs::read(key).map_err(|error| named(key, &error))?;
                // The parser's error could quote the key.
                let private = PrivateKeyDer::from_pem_slice(&pem)
                    .map_err(|_| unusable(key, &"it contains no private key in PEM form"))?;
                builder.with_client_auth_cert(chain, private).map_err(|error| unusable(certificate, &error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let pem = std::fs::read(path).map_err(|error| named(path, &error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| unusable(path, &error))?;
    if certificates.is_empty() {
        return Err(unusable(path, &"it contains no certificate in PEM form"));
    }
    Ok(certificates)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("cannot use {}: {problem}", path.display()))
}
