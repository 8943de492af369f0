//! The settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::feature_gates::{FeatureGate, FeatureGates};
use kubewright_audit::{AuditPolicy, AuditSink, Auditor};
use kubewright_auth::authentication::{RequestHeaderOptions, ServiceAccountOptions, StaticTokens};
use kubewright_auth::authorization::AuthorizationModes;
use kubewright_objects::service_numbers::ServiceAddresses;
use kubewright_resources::catalog::RuntimeConfig;

use crate::admission::plugins::{AdmissionPlugin, EnabledPlugins};

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
    pub(super) listen: Option<SocketAddr>,
    pub(super) plain: bool,
    pub(super) plain_beyond_loopback: bool,
    pub(super) tls_names: Vec<String>,
    pub(super) tokens: StaticTokens,
    pub(super) preloaded: Vec<String>,
    pub(super) window: Option<usize>,
    pub(super) data: Option<PathBuf>,
    pub(super) unsafe_fast: bool,
    #[cfg(feature = "etcd")]
    pub(super) etcd: Option<crate::etcd::EtcdOptions>,
    pub(super) pki: Option<PathBuf>,
    pub(super) serves_faults: bool,
    pub(super) max_in_flight: Option<usize>,
    pub(super) max_watches: Option<usize>,
    pub(super) max_watches_per_user: Option<usize>,
    pub(super) max_connections: Option<usize>,
    pub(super) max_body_memory: Option<usize>,
    pub(super) plugins: EnabledPlugins,
    pub(super) service_addresses: ServiceAddresses,
    pub(super) runtime_config: RuntimeConfig,
    pub(super) features: FeatureGates,
    pub(super) event_ttl: Option<Duration>,
    pub(super) lacks_controllers: bool,
    pub(super) serving_files: Option<(PathBuf, PathBuf)>,
    pub(super) certificate_directory: Option<PathBuf>,
    pub(super) client_ca_file: Option<PathBuf>,
    pub(super) request_header: Option<RequestHeaderOptions>,
    pub(super) service_account_tokens: ServiceAccountOptions,
    pub(super) rejects_anonymous: bool,
    pub(super) authorization_modes: AuthorizationModes,
    pub(super) auditor: Option<Arc<Auditor>>,
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

    /// Stores objects in etcd, which several servers may share. In memory only by default.
    ///
    /// Keys and values are those of kube-apiserver. Give all servers the same
    /// [`pki_directory`](Self::pki_directory). [`data`](Self::data) is then not allowed.
    #[cfg(feature = "etcd")]
    #[doc(alias = "etcd-servers")]
    #[must_use]
    pub fn etcd(mut self, options: crate::etcd::EtcdOptions) -> Self {
        self.etcd = Some(options);
        self
    }

    /// Keeps the certificate authority and the keys of service account tokens in this directory,
    /// and creates them if they are missing. By default they are in the [data](Self::data)
    /// directory, or in memory.
    #[must_use]
    pub fn pki_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.pki = Some(directory.into());
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

    /// Turns a feature of kube-apiserver on or off.
    #[doc(alias = "feature-gates")]
    #[must_use]
    pub fn feature_gate(mut self, gate: FeatureGate, is_on: bool) -> Self {
        self.features.set(gate, is_on);
        self
    }

    /// Serves only some of the built-in APIs. All by default.
    ///
    /// Objects of the others stay stored, and the server itself still uses them.
    #[doc(alias = "runtime-config")]
    #[must_use]
    pub fn runtime_config(mut self, config: RuntimeConfig) -> Self {
        self.runtime_config = config;
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

    /// Leaves to other programs what kube-controller-manager does in a cluster: garbage collection,
    /// emptying of namespaces, release of protected claims and volumes, default service accounts,
    /// and the status of quotas.
    ///
    /// The server then behaves like kube-apiserver alone, on which tests for envtest rely.
    #[must_use]
    pub fn without_controllers(mut self) -> Self {
        self.lacks_controllers = true;
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

    /// Serves TLS with this certificate and key, which are PEM files. By default the server signs
    /// its own certificate.
    #[doc(alias = "tls-cert-file")]
    #[must_use]
    pub fn serving_certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.serving_files = Some((certificate.into(), key.into()));
        self
    }

    /// Serves TLS with `apiserver.crt` and `apiserver.key` of this directory, and creates them if
    /// they are missing.
    #[doc(alias = "cert-dir")]
    #[must_use]
    pub fn certificate_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.certificate_directory = Some(directory.into());
        self
    }

    /// Also accepts client certificates that the authorities of this PEM file signed. The common
    /// name is the user, organizations are the groups.
    #[doc(alias = "client-ca-file")]
    #[must_use]
    pub fn client_ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca_file = Some(file.into());
        self
    }

    /// Believes the headers of authenticating proxies. Off by default.
    #[doc(alias = "requestheader-client-ca-file")]
    #[must_use]
    pub fn request_header(mut self, options: RequestHeaderOptions) -> Self {
        self.request_header = Some(options);
        self
    }

    /// Sets the keys, issuers and audiences of service account tokens.
    #[doc(alias = "service-account-issuer")]
    #[must_use]
    pub fn service_account_tokens(mut self, options: ServiceAccountOptions) -> Self {
        self.service_account_tokens = options;
        self
    }

    /// Rejects requests without credentials with 401. By default they are anonymous, and have the
    /// rights of the group `system:unauthenticated`.
    #[doc(alias = "anonymous-auth")]
    #[must_use]
    pub fn reject_anonymous(mut self) -> Self {
        self.rejects_anonymous = true;
        self
    }

    /// Records requests in audit logs and webhooks. Off by default.
    #[doc(alias = "audit-policy-file")]
    #[must_use]
    pub fn audit(mut self, policy: AuditPolicy, sinks: impl IntoIterator<Item = AuditSink>) -> Self {
        self.auditor = Some(Auditor::new(policy, sinks));
        self
    }

    /// Sets who decides about requests. RBAC by default.
    #[doc(alias = "authorization-mode")]
    #[must_use]
    pub fn authorization_modes(mut self, modes: AuthorizationModes) -> Self {
        self.authorization_modes = modes;
        self
    }
}
