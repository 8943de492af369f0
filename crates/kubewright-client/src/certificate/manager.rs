//! Obtains, stores and rotates a client certificate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubewright_core::{Str, Time};
use tokio::sync::watch;
use tokio::time::sleep;

use super::error::CertificateError;
use super::issued::IssuedCertificate;
use super::options::CertificateManagerOptions;
use super::request::Submitted;
use super::store::CertificateStore;
use super::template::CertificateTemplate;
use crate::error::Error;
use crate::rest::Client;
use kubewright_net::config::{Config, ConfigError};
use kubewright_net::credentials::LiveCertificate;
use kubewright_net::task;

/// The first delay after a failure; it doubles each time.
const INITIAL_BACKOFF: Duration = Duration::from_secs(2);
/// Maximum jitter of a delay, as a fraction.
const JITTER: f64 = 0.1;
/// Number of attempts until the delay stops growing.
const BACKOFF_STEPS: u32 = 5;
/// The delay from then on.
const MAX_BACKOFF: Duration = Duration::from_secs(32);
/// Minimum time between two successful requests.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum interval between clock checks: the clock may be set, and a machine may be suspended.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Default request timeout, so that a stalled server does not let the certificate expire.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

type ClientFor = dyn Fn(Option<&IssuedCertificate>) -> Result<Client, ConfigError> + Send + Sync;

/// Keeps a client certificate valid. A handle: clones share it.
///
/// [`run`](Self::run) requests a certificate when there is none that satisfies the template, and
/// rotates it after 70 to 90 % of its lifetime. After a failure it retries after 2, 4, 8 and 16
/// seconds, then every 32 seconds. Transports created with [`live`](Self::live) pick up each new
/// certificate.
///
/// ```
/// # use kubewright_client::{Client, Config, config::ConfigError};
/// # use kubewright_client::certificate::{
/// #     CertificateError, CertificateManager, CertificateTemplate, FileStore, CertificateManagerOptions, bootstrap_with,
/// # };
/// # async fn example(bootstrap: Config) -> Result<(), CertificateError> {
/// let template = CertificateTemplate::new("system:node:n1").organization("system:nodes");
/// let options = CertificateManagerOptions::new(CertificateManagerOptions::NODE_CLIENT_SIGNER);
/// let store = FileStore::new("/var/lib/agent/pki", "agent-client")?;
/// let mut config = bootstrap.anonymous();
/// let manager = CertificateManager::new(bootstrap_with(bootstrap), Some(template), store, options)?;
/// tokio::spawn({ let manager = manager.clone(); async move { manager.run().await } });
/// manager.issued().await;
/// config.credentials.live_certificate = Some(manager.live());
/// let client = Client::try_from(config)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[doc(alias = "Manager")]
pub struct CertificateManager {
    shared: Arc<SharedManager>,
}

struct SharedManager {
    client_for: Arc<ClientFor>,
    store: Arc<dyn CertificateStore>,
    options: CertificateManagerOptions,
    template: watch::Sender<Option<CertificateTemplate>>,
    current: watch::Sender<Option<Arc<IssuedCertificate>>>,
    live: LiveCertificate,
    /// Whether to replace the current certificate in any case, because it is the bootstrap
    /// certificate.
    is_temporary: AtomicBool,
    is_server_healthy: AtomicBool,
}

/// Connects as in `config` while there is no valid certificate, and with the certificate
/// afterwards.
#[doc(alias = "ClientsetFunc")]
pub fn bootstrap_with(
    config: Config,
) -> impl Fn(Option<&IssuedCertificate>) -> Result<Client, ConfigError> + Send + Sync + 'static {
    move |current| match current {
        None => Client::try_from(config.clone()),
        Some(certificate) => {
            let mut config = config.anonymous();
            config.credentials.client_certificate = Some(certificate.to_client_certificate());
            Client::try_from(config)
        }
    }
}

impl CertificateManager {
    /// Manages a certificate for `template`, persisted in `store`. It is requested through the
    /// client that `client_for` returns for the current certificate; [`bootstrap_with`] covers the
    /// common case. Without a template nothing is requested until [one is set](Self::set_template).
    ///
    /// Reads the store, and so blocks briefly if it consists of files.
    ///
    /// # Errors
    /// If the stored certificate cannot be read.
    #[doc(alias = "NewManager")]
    pub fn new(
        client_for: impl Fn(Option<&IssuedCertificate>) -> Result<Client, ConfigError> + Send + Sync + 'static,
        template: Option<CertificateTemplate>,
        store: impl CertificateStore,
        options: CertificateManagerOptions,
    ) -> Result<Self, CertificateError> {
        let stored = store.current()?.filter(|stored| options.now() < stored.not_after());
        let is_temporary = stored.is_none();
        if let (None, Some(bootstrap)) = (&stored, &options.bootstrap)
            && let Err(error) = store.update(bootstrap)
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "the certificate to begin with is not stored");
        }
        let current = stored.or_else(|| options.bootstrap.clone()).map(Arc::new);
        let live = LiveCertificate::new();
        if let Some(current) = &current {
            live.set(current.certificate(), current.key())?;
        }
        let shared = SharedManager {
            client_for: Arc::new(client_for),
            store: Arc::new(store),
            options,
            template: watch::Sender::new(template),
            current: watch::Sender::new(current),
            live,
            is_temporary: AtomicBool::new(is_temporary),
            is_server_healthy: AtomicBool::new(false),
        };
        Ok(CertificateManager { shared: Arc::new(shared) })
    }

    /// The current certificate, unless it has expired.
    #[doc(alias = "Current")]
    pub fn current(&self) -> Option<Arc<IssuedCertificate>> {
        self.shared.current()
    }

    /// The current certificate for the [credentials](kubewright_net::credentials::Credentials) of a
    /// configuration. Its transports present each new certificate, and none after the last one has
    /// expired.
    pub fn live(&self) -> LiveCertificate {
        self.shared.live.clone()
    }

    /// Whether the server accepted the last request, or rejected it in a way that shows it is
    /// healthy.
    #[doc(alias = "ServerHealthy")]
    pub fn is_server_healthy(&self) -> bool {
        self.shared.is_server_healthy.load(Ordering::Relaxed)
    }

    /// Changes the template. A pending request is abandoned if neither it nor the current
    /// certificate satisfies the new template.
    #[doc(alias = "GetTemplate")]
    pub fn set_template(&self, template: Option<CertificateTemplate>) {
        self.shared.template.send_if_modified(|current| {
            let is_new = *current != template;
            *current = template;
            is_new
        });
    }

    /// Waits for a valid certificate that satisfies the template and is not the bootstrap
    /// certificate. Cancel safe.
    pub async fn issued(&self) -> Arc<IssuedCertificate> {
        let (mut changes, mut template) = (self.shared.current.subscribe(), self.shared.template.subscribe());
        loop {
            changes.mark_unchanged();
            template.mark_unchanged();
            if let Some(current) = self.current().filter(|_| !self.shared.is_due_at_once()) {
                return current;
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = template.changed() => {}
            }
        }
    }

    /// Keeps the certificate current until the future is dropped, which is safe at any point. Run
    /// it once at a time.
    #[doc(alias = "Start")]
    #[doc(alias = "Stop")]
    pub async fn run(&self) {
        tokio::select! {
            () = self.shared.rotate() => {}
            () = self.shared.expire() => {}
        }
    }
}

impl SharedManager {
    fn current(&self) -> Option<Arc<IssuedCertificate>> {
        let current = self.current.borrow().clone();
        current.filter(|current| self.options.now() <= current.not_after())
    }

    /// Clears the certificate when it expires, and restores it if the clock was wrong.
    async fn expire(&self) {
        let mut changes = self.current.subscribe();
        loop {
            let current = changes.borrow_and_update().clone();
            let left = current.as_ref().and_then(|current| current.not_after().duration_since(self.options.now()));
            match &current {
                Some(_) if left.is_none() && self.live.is_set() => {
                    tracing::warn!("the client certificate has expired");
                    self.live.clear();
                }
                Some(current) if left.is_some() && !self.live.is_set() => {
                    // It was set before, so this cannot fail.
                    let _ = self.live.set(current.certificate(), current.key());
                    // Notifies waiters for a valid certificate.
                    self.current.send_modify(|_| {});
                }
                _ => {}
            }
            tokio::select! {
                // A certificate is still valid in the second of its expiry.
                () = sleep(left.unwrap_or(CLOCK_CHECK_INTERVAL).min(CLOCK_CHECK_INTERVAL) + MIN_INTERVAL), if current.is_some() => {}
                _ = changes.changed() => {}
            }
        }
    }

    async fn rotate(&self) {
        loop {
            self.due().await;
            let (mut pause, mut tries) = (INITIAL_BACKOFF, 0);
            while self.template.borrow().is_some() {
                match self.request().await {
                    Ok(()) => break,
                    Err(error @ CertificateError::Superseded { .. }) => {
                        tracing::info!(%error, "requesting another certificate");
                        sleep(MIN_INTERVAL).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "no new client certificate");
                        (self.options.on_failure)(&error);
                    }
                }
                tries += 1;
                if tries < BACKOFF_STEPS {
                    sleep(pause.mul_f64(1.0 + JITTER * fastrand::f64())).await;
                    pause *= 2;
                } else {
                    sleep(MAX_BACKOFF).await;
                }
            }
            // A signer whose certificates are due for rotation immediately is not called every
            // second.
            let is_old = self.current().is_some_and(|current| deadline(&current, 1.0) <= self.options.now());
            sleep(if is_old { MAX_BACKOFF } else { MIN_INTERVAL }).await;
        }
    }

    /// Whether a certificate must be requested immediately.
    fn is_due_at_once(&self) -> bool {
        let template = self.template.borrow();
        let Some(template) = &*template else { return false };
        self.is_temporary.load(Ordering::Relaxed) || !self.current().is_some_and(|current| current.satisfies(template))
    }

    /// Waits until the next certificate should be requested.
    async fn due(&self) {
        let chance = fastrand::f64();
        let mut template = self.template.subscribe();
        loop {
            template.mark_unchanged();
            if self.is_due_at_once() {
                return;
            }
            let is_wanted = self.template.borrow().is_some();
            let left = self.current().and_then(|current| deadline(&current, chance).duration_since(self.options.now()));
            let left = left.unwrap_or_default();
            if is_wanted && left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left.min(CLOCK_CHECK_INTERVAL)), if is_wanted => {}
                _ = template.changed() => {}
            }
        }
    }

    /// Requests a certificate once and stores it.
    async fn request(&self) -> Result<(), CertificateError> {
        let Some(template) = self.template.borrow().clone() else { return Ok(()) };
        let key = self.options.key()?;
        let request = template.request(&key)?;
        // Creating a client reads files with certificate authorities.
        let (client_for, current) = (Arc::clone(&self.client_for), self.current());
        let client =
            task::blocking(move || client_for(current.as_deref())).await?.default_request_timeout(REQUEST_TIMEOUT);
        let usages: Vec<Str> = match &self.options.usages {
            Some(usages) => usages.clone(),
            None => key.client_usages().iter().map(|usage| Str::from_static(usage)).collect(),
        };
        let api = client.certificates_v1().certificate_signing_requests();
        let submitted = Submitted::new(api, request, &self.options.signer_name, usages, self.options.lifetime).await;
        let submitted = submitted.map_err(|error| {
            self.is_server_healthy.store(shows_health(&error), Ordering::Relaxed);
            CertificateError::Request(error)
        })?;
        let (name, limit) = (submitted.name.clone(), self.options.sign_within);
        let signed = tokio::select! {
            signed = tokio::time::timeout(limit, submitted.signed()) => signed,
            () = self.superseded(&template) => return Err(CertificateError::Superseded { name }),
        };
        let signed = signed.map_err(|_| CertificateError::NotSigned { name: name.clone(), limit })??;
        let issued = IssuedCertificate::from_pem(&signed, key.pem().expose())?;
        if issued.not_after() <= self.options.now() {
            return Err(CertificateError::Expired { name });
        }
        let is_complete = issued.satisfies(&template);
        self.take(issued).await?;
        if is_complete { Ok(()) } else { Err(CertificateError::Incomplete { name }) }
    }

    /// Waits until neither the request nor the current certificate satisfies the template.
    async fn superseded(&self, asked: &CertificateTemplate) {
        let mut template = self.template.subscribe();
        loop {
            template.mark_unchanged();
            let wanted = self.template.borrow().clone();
            let is_good = match &wanted {
                None => false,
                Some(wanted) => wanted == asked || self.current().is_some_and(|current| current.satisfies(wanted)),
            };
            if !is_good {
                return;
            }
            let _ = template.changed().await;
        }
    }

    /// Stores a certificate and presents it from now on.
    async fn take(&self, issued: IssuedCertificate) -> Result<(), CertificateError> {
        let (store, issued) = (Arc::clone(&self.store), Arc::new(issued));
        let stored = Arc::clone(&issued);
        // In a blocking task, which completes even if the caller is dropped.
        let updated = tokio::task::spawn_blocking(move || store.update(&stored)).await;
        updated.unwrap_or_else(|panic| Err(CertificateError::Key(format!("the store failed: {panic}"))))?;
        self.live.set(issued.certificate(), issued.key())?;
        self.is_temporary.store(false, Ordering::Relaxed);
        self.is_server_healthy.store(true, Ordering::Relaxed);
        tracing::info!(until = %issued.not_after(), "there is a new client certificate");
        if let Some(old) = self.current.send_replace(Some(issued)) {
            (self.options.on_rotation)(self.options.now().duration_since(old.not_before()).unwrap_or_default());
        }
        Ok(())
    }
}

/// When to rotate a certificate: after 70 to 90 % of its lifetime, at random, to spread the load of
/// many clients.
fn deadline(certificate: &IssuedCertificate, chance: f64) -> Time {
    let begin = certificate.not_before();
    let life = certificate.not_after().duration_since(begin).unwrap_or_default();
    begin.checked_add(life.mul_f64(0.7 + 0.2 * chance)).unwrap_or(begin)
}

/// Whether a rejection shows that the server is healthy.
fn shows_health(error: &Error) -> bool {
    error.is_unauthorized() || error.is_not_found() || error.is_forbidden()
}

impl fmt::Debug for CertificateManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateManager")
            .field("current", &*self.shared.current.borrow())
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
