//! A server from its options to its end.

mod bootstrap;
mod certificates;
#[cfg(feature = "client")]
mod client;
mod kubeconfig;
mod roles;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::authentication::{Accounts, Authenticator, Peer, Tokens};
use crate::faults::Faults;
use crate::housekeeping;
use crate::http::{
    self, ConnectionLimit, Connections, InFlight, MAX_CONNECTIONS, MAX_IN_FLIGHT, MemoryBudget, REQUEST_BYTES,
};
use crate::registry::Registry;
use crate::service::{BoxFuture, Service};
use crate::storage::{Disk, OpenError, StoreOptions};
use certificates::Authority;
use kubeconfig::Credentials;

/// How much a pipe in memory holds before its writer waits.
const PIPE_SIZE: usize = 64 << 10;
/// Beyond the writes that are always remembered: until when others are, and how many in all.
const RECENT: (Duration, usize) = (Duration::from_secs(75), 100 << 10);

/// How long events are kept.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// A server that is to be started.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kubewright_apiserver::ApiServer;
/// let server = ApiServer::in_memory()
///     .listen("127.0.0.1:0".parse()?)
///     .plain_http()
///     .preload("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
///     .start()
///     .await?;
/// assert!(server.url().unwrap().starts_with("http://127.0.0.1:"));
/// server.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct ApiServer {
    listen: Option<SocketAddr>,
    plain: bool,
    plain_beyond_loopback: bool,
    tls_names: Vec<String>,
    tokens: Tokens,
    preloaded: Vec<String>,
    window: Option<usize>,
    data: Option<PathBuf>,
    serves_faults: bool,
    max_in_flight: Option<usize>,
    max_connections: Option<usize>,
    max_body_memory: Option<usize>,
    assigns_accounts: bool,
    event_ttl: Option<Duration>,
}

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address could not be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Other machines reach the address, and the server has no TLS.
    PlainHttpBeyondLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The directory of objects cannot be used.
    Data {
        /// What it says.
        message: String,
    },
    /// Certificates could not be made.
    Certificates(Box<dyn std::error::Error + Send + Sync>),
    /// A preloaded document is no object, or one that the server refuses.
    Preload {
        /// What it says.
        message: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Listen { address, .. } => write!(f, "cannot listen on {address}"),
            StartError::PlainHttpBeyondLoopback { address } => write!(
                f,
                "refusing to serve {address} without TLS, because whoever reaches it would have all rights; \
                 listen on 127.0.0.1, or allow it explicitly"
            ),
            StartError::Data { message } => f.write_str(message),
            StartError::Certificates(_) => f.write_str("certificates and keys cannot be used"),
            StartError::Preload { message } => write!(f, "cannot preload an object: {message}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen { source, .. } => Some(source),
            StartError::Certificates(source) => Some(&**source),
            StartError::PlainHttpBeyondLoopback { .. } | StartError::Data { .. } | StartError::Preload { .. } => None,
        }
    }
}

impl ApiServer {
    /// A server that keeps its objects in memory unless told to keep them as [`data`](Self::data), and is reached through memory unless told to [`listen`](Self::listen).
    pub fn in_memory() -> Self {
        ApiServer::default()
    }

    /// Also listens on this address; port 0 picks a free one. Off by default.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Listens without TLS, on a loopback address only. Off by default.
    ///
    /// Every program on this machine then has all rights, unless there are
    /// [`tokens`](Self::tokens).
    #[must_use]
    pub fn plain_http(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Lets [`plain_http`](Self::plain_http) listen on addresses that other machines reach. Off by
    /// default.
    ///
    /// Every client that reaches the address then has all rights. With [`tokens`](Self::tokens),
    /// anybody with access to the traffic can use the tokens in it.
    #[must_use]
    pub fn plain_http_beyond_loopback(mut self) -> Self {
        self.plain_beyond_loopback = true;
        self
    }

    /// One more DNS name or address by which clients reach the server, for its certificate.
    ///
    /// The certificate always has the names of this machine and of the service `kubernetes`, and
    /// the address that the server listens on.
    #[doc(alias = "tls-san")]
    #[must_use]
    pub fn tls_name(mut self, name: impl Into<String>) -> Self {
        self.tls_names.push(name.into());
        self
    }

    /// Accepts these tokens besides client certificates. None by default.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Creates the objects of these YAML documents before the server answers anybody. None by default.
    ///
    /// They are created in order; objects without a namespace go to `default`.
    #[must_use]
    pub fn preload(mut self, yaml: impl Into<String>) -> Self {
        self.preloaded.push(yaml.into());
        self
    }

    /// Keeps objects in this directory, and begins with those that are there. In memory only by default.
    ///
    /// A write is in the file, and the file flushed, before it is answered. What
    /// [`preload`](Self::preload) names and is there already stays as it is. The certificate
    /// authority is kept there as well, so that kubeconfigs stay valid for a year after they were
    /// written.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Lets those who may use the path `/kubewright/faults` inject faults by requests. Off by default.
    ///
    /// `POST` a fault such as `{"answer": 429, "verb": "list", "resource": "pods", "times": 3}` (or with
    /// `delayMilliseconds`, `drop` or `cutAfter`; `probability`, `namespace`, `name`, `retryAfter`), `DELETE` all of
    /// them, or `POST` to `compact`, `cut-watches`, `freeze`, `thaw` and `restart` below it.
    #[must_use]
    pub fn fault_endpoint(mut self) -> Self {
        self.serves_faults = true;
        self
    }

    /// Gives each namespace a service account, and each pod one with a token in its containers. Off by default, as in the
    /// test environments of Go.
    #[must_use]
    pub fn service_accounts(mut self) -> Self {
        self.assigns_accounts = true;
        self
    }

    /// Keeps an event this long after it was last written; zero is for ever. An hour by default.
    ///
    /// Watches are told that it is deleted. With [`data`](Self::data) the time goes on while no server runs.
    #[doc(alias = "event-ttl")]
    #[must_use]
    pub fn event_ttl(mut self, time: Duration) -> Self {
        self.event_ttl = Some(time);
        self
    }

    /// Answers at most this many reads and this many writes at once, and others with 429. 1000 of each by default.
    ///
    /// Watches do not count.
    #[must_use]
    pub fn max_requests_in_flight(mut self, requests: usize) -> Self {
        self.max_in_flight = Some(requests);
        self
    }

    /// Accepts at most this many connections at once on the address it listens on. 4096 by default.
    ///
    /// A new connection beyond the limit takes the place of the one that has been idle for the
    /// longest time. If all of them have requests or watches, the new one is closed.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Holds at most this many bytes of request bodies in memory, of all requests together. 128 MiB
    /// by default. Requests beyond the limit get 429 and may be sent again.
    #[must_use]
    pub fn max_body_memory(mut self, bytes: usize) -> Self {
        self.max_body_memory = Some(bytes);
        self
    }

    /// Remembers this many of the latest writes for watches and pages, and no others. By default these are 10,000, and beyond that those
    /// of the last 75 seconds up to 102,400, as in the real server's cache of watches. With either, what was replaced or deleted takes
    /// no more than 64 MiB as JSON.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.window = Some(events);
        self
    }

    /// Starts the server. It stops when the handle is dropped.
    ///
    /// # Errors
    /// If the address is taken, a preloaded object is refused, or the directory of objects cannot be used.
    pub async fn start(self) -> Result<RunningServer, StartError> {
        self.starting().await
    }

    /// Boxed here, so that a crate which starts a server does not compile all of it once more: what a future awaits is compiled
    /// by whoever polls it.
    fn starting(self) -> BoxFuture<'static, Result<RunningServer, StartError>> {
        Box::pin(self.begin())
    }

    async fn begin(self) -> Result<RunningServer, StartError> {
        if let Some(address) = self.listen
            && self.plain
            && !self.plain_beyond_loopback
            && !address.ip().is_loopback()
        {
            return Err(StartError::PlainHttpBeyondLoopback { address });
        }
        let (stop, stopped) = watch::channel(false);
        let options = match self.window {
            Some(events) => StoreOptions::default().window(events),
            None => StoreOptions::default().keep_recent(RECENT.0, RECENT.1),
        };
        let (mut registry, disk) = match &self.data {
            Some(directory) => {
                let unusable = |error: OpenError| StartError::Data { message: error.to_string() };
                let (disk, found) = Disk::open(directory).map_err(unusable)?;
                let registry = Registry::restored(options, &disk, found, stopped.clone());
                (registry.map_err(|message| StartError::Data { message })?, Some(Arc::new(disk)))
            }
            None => (Registry::new(options, stopped.clone()), None),
        };
        registry.assigns_accounts = self.assigns_accounts;
        registry.event_ttl = self.event_ttl.unwrap_or(EVENT_TTL);
        let registry = Arc::new(registry);
        bootstrap::create_system_objects(&registry)?;
        for documents in &self.preloaded {
            bootstrap::preload(&registry, documents)?;
        }
        if let Some(disk) = &disk {
            let written = disk.wait(registry.store.current_revision()).await;
            written.map_err(|error| StartError::Data { message: error.to_string() })?;
        }
        let recovery = disk.as_ref().map(|disk| disk.recovery());
        let faults = Faults::new(Arc::clone(&registry));
        let accounts = match &self.data {
            Some(directory) => Accounts::kept_in(directory),
            None => Accounts::generate(),
        };
        let accounts = accounts.map_err(|error| StartError::Certificates(Box::new(error)))?;
        let tokens = self.tokens.len();
        let authenticator = Authenticator { tokens: self.tokens, accounts };
        let in_flight = InFlight::new(self.max_in_flight.unwrap_or(MAX_IN_FLIGHT));
        let body_memory = MemoryBudget::new(self.max_body_memory.unwrap_or(REQUEST_BYTES));
        let limits = (in_flight, body_memory);
        let service = Service::new(Arc::clone(&registry), authenticator, limits, disk, faults, self.serves_faults);
        let mut tasks = vec![tokio::spawn(housekeeping::run(Arc::clone(&registry), recovery, stopped.clone()))];
        let (mut address, mut url, mut credentials) = (None, None, Credentials::None);
        if let Some(wanted) = self.listen {
            let refused = |source| StartError::Listen { address: wanted, source };
            let listener = TcpListener::bind(wanted).await.map_err(refused)?;
            let bound = listener.local_addr().map_err(refused)?;
            let tls = match self.plain {
                true => None,
                false => {
                    let authority = match &self.data {
                        Some(directory) => Authority::kept_in(directory),
                        None => Authority::generate(),
                    };
                    let signed = authority.and_then(|authority| authority.certificates(bound.ip(), &self.tls_names));
                    let certificates = signed.map_err(StartError::Certificates)?;
                    credentials = Credentials::Certificate(Box::new(certificates.admin));
                    Some(certificates.tls)
                }
            };
            log_rights(bound, tls.is_some(), tokens);
            let scheme = if tls.is_some() { "https" } else { "http" };
            (address, url) = (Some(bound), Some(format!("{scheme}://{}", reachable(bound))));
            let limit = ConnectionLimit::new(self.max_connections.unwrap_or(MAX_CONNECTIONS));
            tasks.push(tokio::spawn(http::listen(listener, tls, service.clone(), limit, stopped.clone())));
        }
        let (pipes, incoming) = mpsc::unbounded_channel();
        tasks.push(tokio::spawn(serve_pipes(incoming, service.clone(), stopped)));
        Ok(RunningServer { service, address, url, credentials, pipes, stop, tasks })
    }
}

/// Logs which callers have which rights.
fn log_rights(address: SocketAddr, has_tls: bool, tokens: usize) {
    if has_tls {
        tracing::info!(%address, "the client certificate of the kubeconfig has all rights (system:masters)");
    }
    match (has_tls, tokens) {
        (true, 0) => tracing::info!(%address, "requests without credentials are anonymous"),
        (true, tokens) => tracing::info!(
            %address,
            tokens,
            "tokens have the rights of their users and groups; requests without credentials are anonymous"
        ),
        (false, 0) => tracing::warn!(%address, "no TLS and no tokens: whoever reaches this address has all rights"),
        (false, tokens) => tracing::warn!(
            %address,
            tokens,
            "no TLS: tokens travel unencrypted and have the rights of their users; requests without one are anonymous"
        ),
    }
}

/// Where clients on this machine find a server: one that listens on all addresses is at none of them in particular.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// A server that runs. Stops when it is dropped; [`stop`](Self::stop) also waits for the end.
pub struct RunningServer {
    service: Service,
    address: Option<SocketAddr>,
    url: Option<String>,
    credentials: Credentials,
    pipes: mpsc::UnboundedSender<DuplexStream>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningServer {
    /// Where it listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The same as a URL, for clients on this machine.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The authority that signs its certificate, in PEM; none without TLS.
    pub fn certificate_authority(&self) -> Option<&str> {
        match &self.credentials {
            Credentials::None => None,
            Credentials::Certificate(admin) => Some(&admin.authority),
        }
    }

    /// A kubeconfig for its administrator, in YAML. It contains a private key.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(self.url().unwrap_or("http://localhost"), &self.credentials)
    }

    /// The server as a function from requests to answers.
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// A connection through memory, on which the server speaks HTTP with its administrator.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE_SIZE);
        // A server that has stopped drops its end, which the client sees.
        let _ = self.pipes.send(theirs);
        ours
    }

    /// Injects faults.
    pub fn faults(&self) -> Faults {
        self.service.faults().clone()
    }

    /// Stops, and waits until all requests have ended.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        for task in self.tasks.drain(..) {
            // A task that panicked has ended as well.
            let _ = task.await;
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningServer").field("url", &self.url).finish_non_exhaustive()
    }
}

async fn serve_pipes(
    mut incoming: mpsc::UnboundedReceiver<DuplexStream>,
    service: Service,
    mut stop: watch::Receiver<bool>,
) {
    // Only the owner of the server opens these.
    let mut connections = Connections::new(service, ConnectionLimit::new(usize::MAX), stop.clone());
    loop {
        let pipe = tokio::select! {
            pipe = incoming.recv() => pipe,
            _ = stop.wait_for(|stopped| *stopped) => None,
        };
        let Some(pipe) = pipe else { break };
        connections.serve(async move { Some((pipe, Peer::Trusted)) });
    }
    connections.finish().await;
}
