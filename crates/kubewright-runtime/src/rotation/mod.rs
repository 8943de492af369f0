//! Serving certificates that a program issues itself, and renews before they expire.
//!
//! Start at [`CertificateRotator`]; `issued.rs` decides what is replaced when. The counterpart in
//! Go is cert-controller. Differences: an authority is trusted before it signs, because the bundle
//! contains the old and the new one; and any replica may renew, because writes of the shared
//! storage are conditional. There is no election: a standby serves webhooks too.

mod bundle;
mod error;
mod issued;
mod pair;
mod signing;
mod storage;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubewright_client::Client;
use kubewright_core::{Str, Time};

pub use error::RotationError;
pub(crate) use pair::ServedPair;
pub use storage::CertificateStorage;

use bundle::BundleTarget;
use issued::{IssuedCertificates, Lifetimes};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time between checks while a configuration lacks the bundle.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Timeout of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of attempts to replace stored certificates.
const ATTEMPTS: usize = 5;

/// Issues the certificate of a server, stores it where all replicas find it, and renews it.
///
/// Clients trust it through the `caBundle` of the configurations that the program owns. They are
/// named here, and nothing else is written. The program needs `get` and `patch` on them.
///
/// ```
/// # use kubewright_apiserver::ApiServer;
/// # use kubewright_runtime::certificates::{CertificateRotator, CertificateStorage};
/// # use kubewright_runtime::webhook::{WebhookServer, Webhooks};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::in_memory().start().await?;
/// # let client = server.client();
/// let certificates = CertificateRotator::new(&client, CertificateStorage::secret("shelves", "webhook-certificates"))
///     .service("shelves", "webhooks")
///     .validating_configuration("shelves")
///     .mutating_configuration("shelves")
///     .conversion_of("shelves.example.com");
/// let server = WebhookServer::new(([0, 0, 0, 0], 9443).into(), certificates, Webhooks::new());
/// # drop(server);
/// # Ok(()) }
/// ```
#[doc(alias = "CertRotator")]
#[derive(Clone)]
pub struct CertificateRotator {
    client: Client,
    storage: CertificateStorage,
    names: Vec<String>,
    targets: Vec<BundleTarget>,
    lifetimes: Lifetimes,
    period: Duration,
    /// Whether all configurations had the bundle at the last check.
    is_trusted: Arc<AtomicBool>,
}

impl CertificateRotator {
    /// A rotator without names and configurations.
    ///
    /// Authorities are valid for five years, serving certificates for 90 days.
    pub fn new(client: &Client, storage: CertificateStorage) -> Self {
        CertificateRotator {
            client: client.clone().default_request_timeout(REQUEST_TIMEOUT),
            storage,
            names: Vec::new(),
            targets: Vec::new(),
            lifetimes: Lifetimes {
                authority: 5 * 365 * DAY,
                certificate: 90 * DAY,
                propagation: Duration::from_secs(10 * 60),
            },
            period: Duration::from_secs(60),
            is_trusted: Arc::default(),
        }
    }

    /// Adds the names of a Service, by which API servers call webhooks.
    #[must_use]
    pub fn service(self, namespace: &str, name: &str) -> Self {
        self.name(format!("{name}.{namespace}.svc")).name(format!("{name}.{namespace}.svc.cluster.local"))
    }

    /// Adds a DNS name or an address.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Writes the `caBundle` of all webhooks of this ValidatingWebhookConfiguration.
    #[must_use]
    pub fn validating_configuration(mut self, name: impl Into<Str>) -> Self {
        self.targets.push(BundleTarget::Validating(name.into()));
        self
    }

    /// Writes the `caBundle` of all webhooks of this MutatingWebhookConfiguration.
    #[must_use]
    pub fn mutating_configuration(mut self, name: impl Into<Str>) -> Self {
        self.targets.push(BundleTarget::Mutating(name.into()));
        self
    }

    /// Writes the `caBundle` of the conversion webhook of this CustomResourceDefinition.
    #[must_use]
    pub fn conversion_of(mut self, definition: impl Into<Str>) -> Self {
        self.targets.push(BundleTarget::Conversion(definition.into()));
        self
    }

    /// How long an authority is valid. It is replaced when a third of this remains. Five years by
    /// default.
    #[must_use]
    pub fn authority_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetimes.authority = lifetime;
        self
    }

    /// How long a serving certificate is valid. It is replaced when a third of this remains. 90
    /// days by default.
    #[must_use]
    pub fn certificate_lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetimes.certificate = lifetime;
        self
    }

    /// How long API servers may take to see a new bundle. 10 minutes by default.
    ///
    /// A new authority signs no earlier, unless the serving certificate is not usable any more.
    #[must_use]
    pub fn propagation_time(mut self, time: Duration) -> Self {
        self.lifetimes.propagation = time;
        self
    }

    /// How often certificates and configurations are checked. Once a minute by default.
    ///
    /// A configuration that was applied again without its bundle is repaired within this time.
    #[must_use]
    pub fn check_every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// The time until the next check.
    pub(crate) fn next_check(&self) -> Duration {
        let period = if self.is_trusted.load(Ordering::Relaxed) { self.period } else { self.period.min(RETRY_PERIOD) };
        // Replicas that were started together do not check together.
        period.mul_f64(0.9 + fastrand::f64() / 5.0)
    }

    /// Renews whatever is due, and returns what is to be served.
    pub(crate) async fn rotate(&self) -> Result<ServedPair, RotationError> {
        if self.names.is_empty() {
            return Err(RotationError::NoNames);
        }
        for _ in 0..ATTEMPTS {
            let (found, version) = self.storage.load(&self.client).await?;
            let now = Time::now().as_unix();
            let renewed = match &found {
                Some(found) => {
                    let is_trusted = self.write_bundle(&found.authorities).await;
                    found.renewed(&self.names, self.lifetimes, now, is_trusted)?
                }
                None => Some(IssuedCertificates::issue(&self.names, self.lifetimes, now)?),
            };
            match (renewed, found) {
                (None, Some(current)) => return Ok(current.serving),
                (Some(renewed), _) => {
                    // Whether it was stored or another replica was first, the stored one counts.
                    if self.storage.store(&self.client, &renewed, version).await? {
                        tracing::info!(storage = %self.storage, "certificates renewed");
                    }
                }
                (None, None) => {}
            }
        }
        Err(RotationError::Contended)
    }

    /// Writes the bundle where it is missing. Returns whether all configurations have it.
    async fn write_bundle(&self, bundle: &str) -> bool {
        let mut is_trusted = true;
        for target in &self.targets {
            is_trusted &= target.ensure(&self.client, bundle).await;
        }
        self.is_trusted.store(is_trusted, Ordering::Relaxed);
        is_trusted
    }
}

impl fmt::Display for CertificateRotator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.storage)
    }
}

impl fmt::Debug for CertificateRotator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CertificateRotator");
        shown.field("storage", &self.storage).field("names", &self.names).field("targets", &self.targets);
        shown.finish_non_exhaustive()
    }
}
