//! Keeps a certificate that holds: asks for one, stores it, and asks for the next in time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubewright_core::{Str, Time};
use tokio::sync::watch;
use tokio::time::sleep;

use super::error::CertificateError;
use super::issued::IssuedCertificate;
use super::options::ManagerOptions;
use super::request::Submitted;
use super::store::CertificateStore;
use super::template::CertificateTemplate;
use crate::client::Client;
use crate::config::{Config, ConfigError};
use crate::credentials::LiveCertificate;
use crate::error::Error;
use crate::task;

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// By which part of itself a pause is lengthened at the most.
const JITTER: f64 = 0.1;
/// So many tries are made before the pauses stop growing.
const GROWING_TRIES: u32 = 5;
/// The pause from then on.
const LAST_PAUSE: Duration = Duration::from_secs(32);
/// The least time between two requests that both went well.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// The clock is looked at so often at least: it may be set, and a machine may sleep.
const LOOK: Duration = Duration::from_secs(60);

/// How long a server may take to answer, to the last byte, unless the client says otherwise: a certificate may run out meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

type ClientFor = dyn Fn(Option<&IssuedCertificate>) -> Result<Client, ConfigError> + Send + Sync;

/// A client certificate that is always about to hold on. A handle: clones share it.
///
/// [`run`](Self::run) asks for a certificate as soon as there is none that says what the template says, and for the next
/// one when between 70 and 90 % of its life have passed. Where that fails, it tries again after 2, 4, 8 and 16 seconds,
/// and then each 32 seconds. Transports made with [`live`](Self::live) follow it.
///
/// ```
/// # use kubewright_client::{Client, Config, config::ConfigError};
/// # use kubewright_client::certificate::{
/// #     CertificateError, CertificateManager, CertificateTemplate, FileStore, ManagerOptions, bootstrap_with,
/// # };
/// # async fn example(bootstrap: Config) -> Result<(), CertificateError> {
/// let template = CertificateTemplate::new("system:node:n1").organization("system:nodes");
/// let options = ManagerOptions::new(ManagerOptions::NODE_CLIENT_SIGNER);
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
    shared: Arc<Shared>,
}

struct Shared {
    client_for: Arc<ClientFor>,
    store: Arc<dyn CertificateStore>,
    options: ManagerOptions,
    template: watch::Sender<Option<CertificateTemplate>>,
    current: watch::Sender<Option<Arc<IssuedCertificate>>>,
    live: LiveCertificate,
    /// Whether the present certificate is to be replaced whatever it says, because it is only the one to begin with.
    is_temporary: AtomicBool,
    is_server_healthy: AtomicBool,
}

/// Asks as `config` says while there is no certificate that holds, and with the certificate from then on.
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
    /// A certificate as in `template`, kept in `store` and asked for through the client that `client_for` makes of the
    /// current certificate; [`bootstrap_with`] is one for the usual case. Without a template nothing is asked for until
    /// there [is one](Self::set_template).
    ///
    /// Reads the store, and so blocks for a moment if that is made of files.
    ///
    /// # Errors
    /// If what the store has cannot be read.
    #[doc(alias = "NewManager")]
    pub fn new(
        client_for: impl Fn(Option<&IssuedCertificate>) -> Result<Client, ConfigError> + Send + Sync + 'static,
        template: Option<CertificateTemplate>,
        store: impl CertificateStore,
        options: ManagerOptions,
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
        let shared = Shared {
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

    /// The current certificate for the [credentials](crate::credentials::Credentials) of a configuration: its transports
    /// show each new one as soon as it is there, and none when the last one has expired.
    pub fn live(&self) -> LiveCertificate {
        self.shared.live.clone()
    }

    /// Whether the server took the last request, or refused it in a way that shows it is well.
    #[doc(alias = "ServerHealthy")]
    pub fn is_server_healthy(&self) -> bool {
        self.shared.is_server_healthy.load(Ordering::Relaxed)
    }

    /// Wants another certificate from now on. A request that waits for its signature is given up, if it is not what is
    /// wanted any more and neither is the certificate that there is.
    #[doc(alias = "GetTemplate")]
    pub fn set_template(&self, template: Option<CertificateTemplate>) {
        self.shared.template.send_if_modified(|current| {
            let is_new = *current != template;
            *current = template;
            is_new
        });
    }

    /// Waits until there is a certificate that holds, says what the template says, and was signed for it. Cancel safe.
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

    /// Keeps the certificate current until it is dropped, which is how to stop it: nothing is left half done. To be run
    /// once at a time.
    #[doc(alias = "Start")]
    #[doc(alias = "Stop")]
    pub async fn run(&self) {
        tokio::select! {
            () = self.shared.rotate() => {}
            () = self.shared.expire() => {}
        }
    }
}

impl Shared {
    fn current(&self) -> Option<Arc<IssuedCertificate>> {
        let current = self.current.borrow().clone();
        current.filter(|current| self.options.now() <= current.not_after())
    }

    /// Takes a certificate out of use when it expires, and shows it again if the clock was wrong.
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
                    // It was shown before, so that it can be shown.
                    let _ = self.live.set(current.certificate(), current.key());
                    // For those who wait for one that holds.
                    self.current.send_modify(|_| {});
                }
                _ => {}
            }
            tokio::select! {
                // One that expires this very second still holds.
                () = sleep(left.unwrap_or(LOOK).min(LOOK) + LEAST_PAUSE), if current.is_some() => {}
                _ = changes.changed() => {}
            }
        }
    }

    async fn rotate(&self) {
        loop {
            self.due().await;
            let (mut pause, mut tries) = (FIRST_PAUSE, 0);
            while self.template.borrow().is_some() {
                match self.request().await {
                    Ok(()) => break,
                    Err(error @ CertificateError::Superseded { .. }) => {
                        tracing::info!(%error, "another certificate is asked for");
                        sleep(LEAST_PAUSE).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "no new client certificate");
                        (self.options.on_failure)(&error);
                    }
                }
                tries += 1;
                if tries < GROWING_TRIES {
                    sleep(pause.mul_f64(1.0 + JITTER * fastrand::f64())).await;
                    pause *= 2;
                } else {
                    sleep(LAST_PAUSE).await;
                }
            }
            // A signer whose certificates are old from the start is not asked for one each second.
            let is_old = self.current().is_some_and(|current| deadline(&current, 1.0) <= self.options.now());
            sleep(if is_old { LAST_PAUSE } else { LEAST_PAUSE }).await;
        }
    }

    /// Whether another certificate is wanted right now.
    fn is_due_at_once(&self) -> bool {
        let template = self.template.borrow();
        let Some(template) = &*template else { return false };
        self.is_temporary.load(Ordering::Relaxed) || !self.current().is_some_and(|current| current.satisfies(template))
    }

    /// Waits until the next certificate should be asked for.
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
                () = sleep(left.min(LOOK)), if is_wanted => {}
                _ = template.changed() => {}
            }
        }
    }

    /// Asks for a certificate once and stores it.
    async fn request(&self) -> Result<(), CertificateError> {
        let Some(template) = self.template.borrow().clone() else { return Ok(()) };
        let key = self.options.key()?;
        let request = template.request(&key)?;
        // To make a client takes files: those of the authorities.
        let (client_for, current) = (Arc::clone(&self.client_for), self.current());
        let client = task::blocking(move || client_for(current.as_deref())).await?.default_request_timeout(PATIENCE);
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

    /// Waits until neither `asked` nor the certificate that there is are what is wanted.
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

    /// Stores a certificate and shows it from now on.
    async fn take(&self, issued: IssuedCertificate) -> Result<(), CertificateError> {
        let (store, issued) = (Arc::clone(&self.store), Arc::new(issued));
        let stored = Arc::clone(&issued);
        // On a thread of its own, where it is finished also if nobody waits for it any more.
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

/// When a certificate should be renewed: after 70 to 90 % of its life, by chance, so that many who began together do
/// not all come back together.
fn deadline(certificate: &IssuedCertificate, chance: f64) -> Time {
    let begin = certificate.not_before();
    let life = certificate.not_after().duration_since(begin).unwrap_or_default();
    begin.checked_add(life.mul_f64(0.7 + 0.2 * chance)).unwrap_or(begin)
}

/// Whether a refusal comes from a server that is well.
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
