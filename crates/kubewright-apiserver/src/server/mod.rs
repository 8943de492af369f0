//! Configures, starts and stops a server.

mod bootstrap;
mod certificates;
#[cfg(feature = "client")]
mod client;
mod kubeconfig;
mod options;
mod reconciliation;
mod roles;
mod running;
mod start_error;
mod storage;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::admission::plugins::AdmissionPlugin;
use crate::aggregation;
use crate::faults::Faults;
use crate::feature_gates::FeatureGate;
use crate::housekeeping;
use crate::http::{
    ConnectionLimit, InFlight, MAX_CONNECTIONS, MAX_IN_FLIGHT, MAX_WATCHES, MAX_WATCHES_PER_USER, MemoryBudget,
    REQUEST_BYTES,
};
use crate::registry::Registry;
use crate::service::{BoxFuture, Service};
use crate::serving;
use kubeconfig::AdminCredentials;
use kubewright_auth::authentication::{Authenticator, ServiceAccountTokens};
use kubewright_storage::{OpenError, Recovery, StoreOptions};
pub use options::ApiServer;
pub use running::RunningServer;
use running::serve_pipes;
pub use start_error::StartError;
use storage::OpenStorage;

/// Default retention of the event log beyond the minimum: maximum age and maximum number of events.
const EVENT_RETENTION: (Duration, usize) = (Duration::from_secs(75), 100 << 10);

/// Default time to live of events.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

impl ApiServer {
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
        let OpenStorage { mut registry, disk, background } = self.open_storage(options, &stopped).await?;
        registry.plugins = self.plugins.clone();
        registry.features = self.features.clone();
        if !self.features.contains(FeatureGate::MutatingAdmissionPolicy) {
            registry.plugins.disable(AdmissionPlugin::MutatingAdmissionPolicy);
        }
        registry.set_service_addresses(self.service_addresses);
        registry.authorization_modes = self.authorization_modes.clone();
        registry.event_ttl = self.event_ttl.unwrap_or(EVENT_TTL);
        registry.set_runtime_config(self.runtime_config.clone());
        registry.has_controllers = !self.lacks_controllers;
        let registry = Arc::new(registry);
        let unusable = |error: OpenError| StartError::Data { message: error.to_string() };
        let disk = disk.map(|disk| disk.start(Arc::clone(&registry))).transpose().map_err(unusable)?.map(Arc::new);
        let mut tasks: Vec<_> =
            background.into_iter().map(|work| tokio::spawn(work(Arc::clone(&registry), stopped.clone()))).collect();
        self.create_objects(&registry).await?;
        if let Some(disk) = &disk {
            let newest = registry.store.newest_revision();
            let written = disk.wait(registry.store.current_revision().min(newest), newest).await;
            written.map_err(|error| StartError::Data { message: error.to_string() })?;
        }
        let recovery = disk.as_ref().map(|disk| disk.recovery());
        let faults = Faults::new(Arc::clone(&registry));
        self.create_key_directory()?;
        let accounts = ServiceAccountTokens::new(&self.service_account_tokens, self.key_directory());
        let accounts = accounts.map_err(|error| StartError::Certificates(Box::new(error)))?;
        let tokens = self.tokens.len();
        let authenticator = Authenticator {
            tokens: self.tokens.clone(),
            accounts,
            request_header: self.request_header.clone().map(|mut options| {
                if !self.features.contains(FeatureGate::RemoteRequestHeaderUID) {
                    options.uid_headers.clear();
                }
                options
            }),
            // As in kube-apiserver: otherwise every client would have all rights.
            rejects_anonymous: self.rejects_anonymous || self.authorization_modes.always_allow(),
        };
        let in_flight = InFlight::new(
            self.max_in_flight.unwrap_or(MAX_IN_FLIGHT),
            self.max_watches.unwrap_or(MAX_WATCHES),
            self.max_watches_per_user.unwrap_or(MAX_WATCHES_PER_USER),
        );
        let body_memory = MemoryBudget::new(self.max_body_memory.unwrap_or(REQUEST_BYTES));
        let limits = (in_flight, body_memory);
        let service = Service::new(
            Arc::clone(&registry),
            authenticator,
            limits,
            disk,
            faults,
            self.serves_faults,
            self.auditor.clone(),
        );
        tasks.push(spawn_housekeeping(&registry, recovery, &stopped));
        if let Some(auditor) = &self.auditor {
            tasks.extend(auditor.senders(&stopped).map(tokio::spawn));
        }
        let mut front_proxy = None;
        let (mut address, mut url, mut credentials) = (None, None, AdminCredentials::None);
        if let Some(wanted) = self.listen {
            let refused = |source| StartError::Listen { address: wanted, source };
            let listener = TcpListener::bind(wanted).await.map_err(refused)?;
            let bound = listener.local_addr().map_err(refused)?;
            let tls = if self.plain {
                None
            } else {
                let certificates = certificates::prepare(&self, bound.ip()).map_err(StartError::Certificates)?;
                let (writer, authorities) = (Arc::clone(&registry), certificates.client_authorities.clone());
                let published = async move { bootstrap::publish_front_proxy(&writer, &authorities) };
                front_proxy = Some(registry.run_writes(published).await.map_err(bootstrap::failed)??);
                credentials = AdminCredentials::Certificate(Box::new(certificates.admin));
                Some(certificates.tls)
            };
            log_rights(bound, tls.is_some(), tokens);
            let scheme = if tls.is_some() { "https" } else { "http" };
            (address, url) = (Some(bound), Some(format!("{scheme}://{}", reachable(bound))));
            let limit = ConnectionLimit::new(self.max_connections.unwrap_or(MAX_CONNECTIONS));
            tasks.push(tokio::spawn(serving::listen(listener, tls, service.clone(), limit, stopped.clone())));
        }
        let aggregation = Arc::clone(service.aggregation());
        let aggregating = aggregation::run(Arc::clone(&registry), aggregation, front_proxy, stopped.clone());
        tasks.push(spawn_writer(&registry, aggregating));
        let (pipes, incoming) = mpsc::unbounded_channel();
        tasks.push(tokio::spawn(serve_pipes(incoming, service.clone(), stopped)));
        Ok(RunningServer { service, address, url, credentials, pipes, stop, tasks })
    }
}

/// Starts the housekeeping.
fn spawn_housekeeping(
    registry: &Arc<Registry>,
    recovery: Option<Recovery>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (keeper, stopped) = (Arc::clone(registry), stopped.clone());
    match registry.database.clone() {
        Some(database) => spawn_writer(registry, housekeeping::run_shared(keeper, database, stopped)),
        None => tokio::spawn(housekeeping::run(keeper, recovery, stopped)),
    }
}

/// Starts a task that writes.
fn spawn_writer(registry: &Arc<Registry>, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let registry = Arc::clone(registry);
    tokio::spawn(async move {
        if registry.run_writes(work).await.is_err() {
            tracing::error!("a background task of the server has panicked");
        }
    })
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
