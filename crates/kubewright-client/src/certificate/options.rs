//! What can be said about how certificates are asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{ByteString, Str, Time};

use super::error::CertificateError;
use super::issued::IssuedCertificate;
use super::template::RequestKey;
use crate::secret::Secret;

type Clock = Arc<dyn Fn() -> Time + Send + Sync>;
type MakeKey = Arc<dyn Fn() -> Result<Secret<ByteString>, String> + Send + Sync>;

/// How certificates are asked for.
#[derive(Clone)]
#[doc(alias = "certificate.Config")]
pub struct ManagerOptions {
    pub(super) signer_name: Str,
    pub(super) usages: Option<Vec<Str>>,
    pub(super) lifetime: Option<Duration>,
    pub(super) bootstrap: Option<IssuedCertificate>,
    pub(super) sign_within: Duration,
    make_key: Option<MakeKey>,
    clock: Clock,
    pub(super) on_rotation: Arc<dyn Fn(Duration) + Send + Sync>,
    pub(super) on_failure: Arc<dyn Fn(&CertificateError) + Send + Sync>,
}

impl ManagerOptions {
    /// The signer that knows clients of this cluster.
    pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    /// The signer that knows nodes of this cluster as its clients.
    pub const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

    /// Asks the signer of this name.
    pub fn new(signer_name: impl Into<Str>) -> Self {
        ManagerOptions {
            signer_name: signer_name.into(),
            usages: None,
            lifetime: None,
            bootstrap: None,
            sign_within: Duration::from_secs(15 * 60),
            make_key: None,
            clock: Arc::new(Time::now),
            on_rotation: Arc::new(|_| {}),
            on_failure: Arc::new(|_| {}),
        }
    }

    /// What the certificate is for. By default what a client's is for: `digital signature` and `client auth`, with an
    /// RSA key `key encipherment` too.
    #[doc(alias = "GetUsages")]
    #[must_use]
    pub fn usages<U: Into<Str>>(mut self, usages: impl IntoIterator<Item = U>) -> Self {
        self.usages = Some(usages.into_iter().map(Into::into).collect());
        self
    }

    /// How long a certificate should hold; the signer may decide otherwise. By default all is left to it.
    #[doc(alias = "RequestedCertificateLifetime")]
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Uses this certificate while the store has none that holds, and replaces it as soon as possible. None by default.
    #[doc(alias = "BootstrapCertificatePEM")]
    #[must_use]
    pub fn bootstrap(mut self, certificate: IssuedCertificate) -> Self {
        self.bootstrap = Some(certificate);
        self
    }

    /// How long a request may wait for a signature before another is made. 15 minutes by default.
    #[must_use]
    pub fn sign_within(mut self, limit: Duration) -> Self {
        self.sign_within = limit;
        self
    }

    /// Makes the key of each request, in PEM (PKCS #8). It has to be RSA of at least 2048 bits or on a curve of at least
    /// 256. By default a new one on P-256.
    #[must_use]
    pub fn key_with(mut self, make: impl Fn() -> Result<Secret<ByteString>, String> + Send + Sync + 'static) -> Self {
        self.make_key = Some(Arc::new(make));
        self
    }

    /// Says what time it is, for tests whose time is simulated. By default the system's clock does, which may be set at any
    /// moment, also back.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Called with how old a certificate became when it was replaced.
    #[doc(alias = "CertificateRotation")]
    #[must_use]
    pub fn on_rotation(mut self, told: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.on_rotation = Arc::new(told);
        self
    }

    /// Called each time that no certificate could be had. They are logged as well.
    #[doc(alias = "CertificateRenewFailure")]
    #[must_use]
    pub fn on_failure(mut self, told: impl Fn(&CertificateError) + Send + Sync + 'static) -> Self {
        self.on_failure = Arc::new(told);
        self
    }

    pub(super) fn now(&self) -> Time {
        (self.clock)()
    }

    pub(super) fn key(&self) -> Result<RequestKey, CertificateError> {
        match &self.make_key {
            None => RequestKey::generate(),
            Some(make) => RequestKey::from_pem(make().map_err(CertificateError::Key)?),
        }
    }
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("signer_name", &self.signer_name)
            .field("usages", &self.usages)
            .field("lifetime", &self.lifetime)
            .field("bootstrap", &self.bootstrap)
            .field("sign_within", &self.sign_within)
            .finish_non_exhaustive()
    }
}
