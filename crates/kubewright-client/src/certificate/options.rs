//! Options of certificate requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kubewright_core::{ByteString, Str, Time};

use super::error::CertificateError;
use super::issued::IssuedCertificate;
use super::template::RequestKey;
use kubewright_net::Secret;

type Clock = Arc<dyn Fn() -> Time + Send + Sync>;
type MakeKey = Arc<dyn Fn() -> Result<Secret<ByteString>, String> + Send + Sync>;

/// Options of certificate requests.
#[derive(Clone)]
#[doc(alias = "certificate.Config")]
pub struct CertificateManagerOptions {
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

impl CertificateManagerOptions {
    /// The signer of client certificates.
    pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
    /// The signer of node client certificates.
    pub const NODE_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

    /// Options for this signer.
    pub fn new(signer_name: impl Into<Str>) -> Self {
        CertificateManagerOptions {
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

    /// The key usages. By default those of a client: `digital signature` and `client auth`, with an
    /// RSA key `key encipherment` too.
    #[doc(alias = "GetUsages")]
    #[must_use]
    pub fn usages<U: Into<Str>>(mut self, usages: impl IntoIterator<Item = U>) -> Self {
        self.usages = Some(usages.into_iter().map(Into::into).collect());
        self
    }

    /// The requested lifetime; the signer may decide otherwise. By default the signer decides.
    #[doc(alias = "RequestedCertificateLifetime")]
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// A certificate to use while the store has no valid one; it is replaced as soon as possible.
    /// None by default.
    #[doc(alias = "BootstrapCertificatePEM")]
    #[must_use]
    pub fn bootstrap(mut self, certificate: IssuedCertificate) -> Self {
        self.bootstrap = Some(certificate);
        self
    }

    /// How long a request may wait for its signature before it is repeated. 15 minutes by default.
    #[must_use]
    pub fn sign_within(mut self, limit: Duration) -> Self {
        self.sign_within = limit;
        self
    }

    /// Generates the key of each request, in PEM (PKCS #8): RSA of at least 2048 bits, or an
    /// elliptic curve of at least
    /// 256. By default a new P-256 key.
    #[must_use]
    pub fn key_with(mut self, make: impl Fn() -> Result<Secret<ByteString>, String> + Send + Sync + 'static) -> Self {
        self.make_key = Some(Arc::new(make));
        self
    }

    /// The clock, for tests with simulated time. By default the system clock, which may be set at
    /// any moment, even backwards.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Called with the age of a certificate when it is replaced.
    #[doc(alias = "CertificateRotation")]
    #[must_use]
    pub fn on_rotation(mut self, told: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.on_rotation = Arc::new(told);
        self
    }

    /// Called with each failure. Failures are logged, too.
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

impl fmt::Debug for CertificateManagerOptions {
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
