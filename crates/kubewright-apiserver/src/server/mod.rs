//! Configures, starts and stops a server.

mod bootstrap;
mod certificates;
#[cfg(feature = "client")]
mod client;
mod kubeconfig;
mod reconciliation;
mod roles;
mod running;
mod start_error;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::admission::allocation::ServiceAddresses;
use crate::admission::plugins::{AdmissionPlugin, EnabledPlugins};
use crate::aggregation;
use crate::authentication::{Accounts, Authenticator, StaticTokens};
use crate::faults::Faults;
use crate::housekeeping;
use crate::http::{
    ConnectionLimit, InFlight, MAX_CONNECTIONS, MAX_IN_FLIGHT, MAX_WATCHES, MAX_WATCHES_PER_USER, MemoryBudget,
    REQUEST_BYTES,
};
use crate::registry::Registry;
use crate::service::{BoxFuture, Service};
use crate::serving;
use certificates::Authority;
use kubeconfig::AdminCredentials;
use kubewright_storage::{Durability, OpenDisk, OpenError, StoreOptions};
pub use running::RunningServer;
use running::serve_pipes;
pub use start_error::StartError;

/// Default retention of the event log beyond the minimum: maximum age and maximum number of events.
const EVENT_RETENTION: (Duration, usize) = (Duration::from_secs(75), 100 << 10);

/// Default time to live of events.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// A server to be started.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
    tokens: StaticTokens,
    preloaded: Vec<String>,
    window: Option<usize>,
    data: Option<PathBuf>,
    unsafe_fast: bool,
    serves_faults: bool,
    max_in_flight: Option<usize>,
    max_watches: Option<usize>,
    max_watches_per_user: Option<usize>,
    max_connections: Option<usize>,
    max_body_memory: Option<usize>,
    plugins: EnabledPlugins,
    service_addresses: ServiceAddresses,
    event_ttl: Option<Duration>,
}

impl ApiServer {
    /// A server in memory, reachable only in process. Add [`data`](Self::data) to persist objects,
    /// and [`listen`](Self::listen) to accept connections.
    pub fn in_memory() -> Self {
        ApiServer::default()
    }

    /// Also listens on this address. Port 0 picks a free one. Off by default.
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

    /// Adds a DNS name or address to the server certificate.
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
    pub fn tokens(mut self, tokens: StaticTokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Creates the objects of these YAML documents before the server accepts requests. None by
    /// default.
    ///
    /// They are created in order. Objects without a namespace go to `default`.
    #[must_use]
    pub fn preload(mut self, yaml: impl Into<String>) -> Self {
        self.preloaded.push(yaml.into());
        self
    }

    /// Persists objects in this directory, and starts with the objects in it. In memory only by
    /// default.
    ///
    /// A write is flushed to the file before it is acknowledged, and before readers and watches see
    /// it. A write that cannot reach the file fails and is undone.
    ///
    /// Existing objects win over [`preload`](Self::preload). The certificate authority is persisted
    /// as well. So a kubeconfig stays valid for a year after it was written.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Acknowledges writes, and shows them to readers, before they are in the [data](Self::data)
    /// file.
    ///
    /// Faster on a slow disk, and unsafe: a crash loses acknowledged writes.
    #[must_use]
    pub fn unsafe_fast(mut self) -> Self {
        self.unsafe_fast = true;
        self
    }

    /// Enables fault injection over HTTP at `/kubewright/faults`, for authorized users. Off by
    /// default.
    ///
    /// `POST` a fault such as `{"answer": 429, "verb": "list", "resource": "pods", "times": 3}` (or
    /// with `delayMilliseconds`, `drop` or `cutAfter`; `probability`, `namespace`, `name`,
    /// `retryAfter`), `DELETE` all of them, or `POST` to `compact`, `cut-watches`, `freeze`, `thaw`
    /// and `restart` below it.
    #[must_use]
    pub fn fault_endpoint(mut self) -> Self {
        self.serves_faults = true;
        self
    }

    /// Enables the ServiceAccount admission plugin: creates a default account in each namespace,
    /// and mounts its token into pods. Off by default, as in envtest.
    #[must_use]
    pub fn service_accounts(self) -> Self {
        self.enable_admission_plugin(AdmissionPlugin::ServiceAccount)
    }

    /// Turns an admission plugin on. All but [`ServiceAccount`](AdmissionPlugin::ServiceAccount)
    /// are on by default.
    #[doc(alias = "enable-admission-plugins")]
    #[must_use]
    pub fn enable_admission_plugin(mut self, plugin: AdmissionPlugin) -> Self {
        self.plugins.enable(plugin);
        self
    }

    /// Turns an admission plugin off.
    #[doc(alias = "disable-admission-plugins")]
    #[must_use]
    pub fn disable_admission_plugin(mut self, plugin: AdmissionPlugin) -> Self {
        self.plugins.disable(plugin);
        self
    }

    /// Sets the addresses of Services. 10.96.0.0/16 by default.
    ///
    /// The first address is that of the Service `kubernetes`. Services that exist keep theirs.
    #[doc(alias = "service-cluster-ip-range")]
    #[must_use]
    pub fn service_addresses(mut self, addresses: ServiceAddresses) -> Self {
        self.service_addresses = addresses;
        self
    }

    /// Sets the time to live of events after their last write. Zero keeps them forever. An hour by
    /// default.
    ///
    /// Watches receive the deletion. With [`data`](Self::data), time also passes while no server
    /// runs.
    #[doc(alias = "event-ttl")]
    #[must_use]
    pub fn event_ttl(mut self, time: Duration) -> Self {
        self.event_ttl = Some(time);
        self
    }

    /// Limits concurrent reads and concurrent writes to this number each. Others get 429. 1000 by
    /// default.
    ///
    /// Watches do not count; see [`max_watches`](Self::max_watches).
    #[must_use]
    pub fn max_requests_in_flight(mut self, requests: usize) -> Self {
        self.max_in_flight = Some(requests);
        self
    }

    /// Limits concurrent watches. Others get 429 and may be retried. 20,000 by default.
    #[must_use]
    pub fn max_watches(mut self, watches: usize) -> Self {
        self.max_watches = Some(watches);
        self
    }

    /// Limits the concurrent watches of each user. Others get 429 and may be retried. 1000 by
    /// default.
    ///
    /// Members of the group `system:masters` and connections inside the process are exempt.
    #[must_use]
    pub fn max_watches_per_user(mut self, watches: usize) -> Self {
        self.max_watches_per_user = Some(watches);
        self
    }

    /// Limits the number of concurrent connections on the listening address. 4096 by default.
    ///
    /// A new connection beyond the limit replaces the one that has been idle for the longest time.
    /// If none is idle, the new one is closed.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Limits the memory for request bodies, in bytes over all requests. 128 MiB by default.
    /// Requests beyond the limit get 429 and may be retried.
    #[must_use]
    pub fn max_body_memory(mut self, bytes: usize) -> Self {
        self.max_body_memory = Some(bytes);
        self
    }

    /// Sets the number of events in the log, which watches and list pages can start from.
    ///
    /// By default the log has the latest 10,000 events, and beyond that those of the last 75
    /// seconds up to 102,400, as in the watch cache of kube-apiserver. In any case, replaced and
    /// deleted objects take at most 64 MiB as JSON.
    #[must_use]
    pub fn history(mut self, events: usize) -> Self {
        self.window = Some(events);
        self
    }

    /// Starts the server. It stops when the handle is dropped.
    ///
    /// # Errors
    ///
    /// The address is in use, a preloaded object is rejected, or the data directory cannot be used.
    pub async fn start(self) -> Result<RunningServer, StartError> {
        self.starting().await
    }

    /// Boxed so that the server's future is compiled in this crate only, not again in each crate
    /// that awaits it.
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
            None => StoreOptions::default().keep_recent(EVENT_RETENTION.0, EVENT_RETENTION.1),
        };
        let unusable = |error: OpenError| StartError::Data { message: error.to_string() };
        let (mut registry, disk) = match &self.data {
            Some(directory) => {
                let durability = if self.unsafe_fast { Durability::Eventual } else { Durability::Immediate };
                let (disk, contents) = OpenDisk::open(directory, durability).map_err(unusable)?;
                (Registry::restored(options, &disk, contents, stopped.clone()), Some(disk))
            }
            None => (Registry::new(options, stopped.clone()), None),
        };
        registry.plugins = self.plugins.clone();
        registry.set_service_addresses(self.service_addresses);
        registry.event_ttl = self.event_ttl.unwrap_or(EVENT_TTL);
        let registry = Arc::new(registry);
        let disk = disk.map(|disk| disk.start(Arc::clone(&registry))).transpose().map_err(unusable)?.map(Arc::new);
        bootstrap::create_system_objects(&registry, self.service_addresses)?;
        for documents in &self.preloaded {
            bootstrap::preload(&registry, documents)?;
        }
        if let Some(disk) = &disk {
            let newest = registry.store.newest_revision();
            let written = disk.wait(registry.store.current_revision().min(newest), newest).await;
            written.map_err(|error| StartError::Data { message: error.to_string() })?;
        }
        let recovery = disk.as_ref().map(|disk| disk.recovery());
        let faults = Faults::new(Arc::clone(&registry));
        let accounts = match &self.data {
            Some(directory) => Accounts::load_or_create(directory),
            None => Accounts::generate(),
        };
        let accounts = accounts.map_err(|error| StartError::Certificates(Box::new(error)))?;
        let tokens = self.tokens.len();
        let authenticator = Authenticator { tokens: self.tokens, accounts };
        let in_flight = InFlight::new(
            self.max_in_flight.unwrap_or(MAX_IN_FLIGHT),
            self.max_watches.unwrap_or(MAX_WATCHES),
            self.max_watches_per_user.unwrap_or(MAX_WATCHES_PER_USER),
        );
        let body_memory = MemoryBudget::new(self.max_body_memory.unwrap_or(REQUEST_BYTES));
        let limits = (in_flight, body_memory);
        let service = Service::new(Arc::clone(&registry), authenticator, limits, disk, faults, self.serves_faults);
        let mut tasks = vec![tokio::spawn(housekeeping::run(Arc::clone(&registry), recovery, stopped.clone()))];
        let mut front_proxy = None;
        let (mut address, mut url, mut credentials) = (None, None, AdminCredentials::None);
        if let Some(wanted) = self.listen {
            let refused = |source| StartError::Listen { address: wanted, source };
            let listener = TcpListener::bind(wanted).await.map_err(refused)?;
            let bound = listener.local_addr().map_err(refused)?;
            let tls = if self.plain {
                None
            } else {
                let authority = match &self.data {
                    Some(directory) => Authority::load_or_create(directory),
                    None => Authority::generate(),
                };
                let signed = authority.and_then(|authority| authority.certificates(bound.ip(), &self.tls_names));
                let certificates = signed.map_err(StartError::Certificates)?;
                front_proxy = Some(bootstrap::publish_front_proxy(&registry, &certificates.admin.authority)?);
                credentials = AdminCredentials::Certificate(Box::new(certificates.admin));
                Some(certificates.tls)
            };
            log_rights(bound, tls.is_some(), tokens);
            let scheme = if tls.is_some() { "https" } else { "http" };
            (address, url) = (Some(bound), Some(format!("{scheme}://{}", reachable(bound))));
            let limit = ConnectionLimit::new(self.max_connections.unwrap_or(MAX_CONNECTIONS));
            tasks.push(tokio::spawn(serving::listen(listener, tls, service.clone(), limit, stopped.clone())));
        }
        tasks.push(tokio::spawn(aggregation::run(registry, front_proxy, stopped.clone())));
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
        (false, 0) => tracing::warn!(%address, "no TLS and no tokens: every client of this address has full access"),
        (false, tokens) => tracing::warn!(
            %address,
            tokens,
            "no TLS: tokens travel unencrypted and have the rights of their users; requests without one are anonymous"
        ),
    }
}

/// The address for clients on this machine: loopback if the server listens on all addresses.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}
