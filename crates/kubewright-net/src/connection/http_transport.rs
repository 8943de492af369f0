//! The HTTP transport: credentials, routing and retries.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use super::address::Address;
use super::connector::{ConnectTarget, Connector, Protocol};
use super::failure::{FaultyCertificate, RequestFailure, broken_connection, certificate_at_fault};
use super::http2::PingOptions;
use super::opener::Opener;
use super::pool::{Pool, RequestPermit};
use super::proxy::Proxy;
use super::response::{BodySource, Chunks};
use super::tls::{Tls, TlsChange};
use crate::authentication::{AuthorizationSource, RequestCredentials};
use crate::config::{Config, Origin};
use crate::environment::EnvironmentVariables;
use crate::error::{ConfigError, of_entry};
use crate::observer::TransportObserver;
use crate::transport::{
    Body, ByteStream, RequestTimeout, ResponseFuture, Transport, TransportError, TransportErrorKind, Upgrade,
    UpgradeFuture, Upgraded,
};

/// How often a request that no server has seen is sent.
const ATTEMPTS: usize = 3;
/// Default ping timeout in seconds.
const PING_TIMEOUT: u32 = 15;

/// Connections to one server, with the credentials of a configuration. A handle: clones share all
/// of it.
///
/// Connections are opened on demand and closed after 90 idle seconds. Over HTTP/2 all requests
/// share one connection until the server's stream limit is reached. A silent server is pinged after
/// 30 seconds and considered dead 15 seconds later. Responses can still be read after the last
/// handle is dropped.
///
/// A request is retried only if no server has seen it, or once with new credentials after a 401. A
/// request may carry its own [`Impersonation`](crate::credentials::Impersonation) and
/// [`RequestTimeout`] as extensions.
#[derive(Clone)]
pub struct HttpTransport {
    shared: Arc<SharedTransport>,
}

struct SharedTransport {
    /// Notifies the observer on drop of the last clone.
    #[allow(dead_code, reason = "held for its end")]
    life: Option<LifetimeGuard>,
    address: Address,
    authenticator: AuthorizationSource,
    /// Whether credentials may be sent: over TLS, or within this process.
    may_authenticate: bool,
    timeout: Option<Duration>,
    /// Kubeconfig entries for error messages.
    origin: Origin,
    pool: Arc<Pool>,
}

impl Config {
    /// A transport to the server. Connections are opened on demand; files are read immediately, so
    /// that their errors are returned here.
    ///
    /// # Errors
    /// If options are contradictory, or certificates, keys or certificate authorities cannot be
    /// read.
    pub fn connect(&self) -> Result<HttpTransport, ConfigError> {
        let host = self.server.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_secure = self.is_secure();
        let tls = is_secure.then(|| Tls::new(self)).transpose()?.map(Arc::new);
        let has_tls_options = self.tls.authority.is_some() || self.tls.insecure || self.tls.server_name.is_some();
        if !is_secure && has_tls_options {
            return Err(ConfigError::Invalid("TLS options make no sense for a server without TLS".to_owned()));
        }
        let port = self.server.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let place = ConnectTarget::Network { host, port, proxy: Proxy::of(self)? };
        HttpTransport::new(self, place, tls, is_secure)
    }

    /// A transport over streams that `open` returns: to a server within this process, or over a
    /// custom network.
    ///
    /// The server's scheme, host and port only appear in requests. No TLS is added; the streams are
    /// trusted with the credentials.
    ///
    /// # Errors
    /// If options are contradictory.
    pub fn connect_over<S: ByteStream, F>(
        &self,
        protocol: Protocol,
        open: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<HttpTransport, ConfigError>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        if self.credentials.has_certificate() || self.tls.authority.is_some() || self.tls.insecure {
            return Err(ConfigError::Invalid("TLS options make no sense for given streams".to_owned()));
        }
        HttpTransport::new(self, ConnectTarget::Streams(Opener::new(open), protocol), None, true)
    }
}

/// A transport for the authenticator's own requests.
fn connected(config: &Config) -> Result<Arc<dyn Transport>, ConfigError> {
    Ok(Arc::new(config.connect()?))
}

/// Notifies an observer of the creation and the end of a transport.
struct LifetimeGuard(TransportObserver);

impl LifetimeGuard {
    fn begin(observer: TransportObserver) -> Self {
        observer.transport_created();
        LifetimeGuard(observer)
    }
}

impl Drop for LifetimeGuard {
    fn drop(&mut self) {
        self.0.transport_ended();
    }
}

impl HttpTransport {
    fn new(
        config: &Config,
        place: ConnectTarget,
        tls: Option<Arc<Tls>>,
        may_authenticate: bool,
    ) -> Result<HttpTransport, ConfigError> {
        let environment = &config.environment;
        let connector = Connector {
            place,
            tls,
            connect_timeout: config.connect_timeout,
            tls_timeout: config.tls_timeout,
            http2: environment.get("DISABLE_HTTP2").is_none(),
            observer: config.observer.clone(),
        };
        let address = Address::new(config)?;
        let life = config.observer.clone().map(LifetimeGuard::begin);
        let shared = SharedTransport {
            life,
            address,
            authenticator: if may_authenticate {
                AuthorizationSource::new(config, connected)?
            } else {
                AuthorizationSource::None
            },
            may_authenticate,
            timeout: config.timeout,
            origin: config.origin.clone(),
            pool: Pool::new(connector, health(environment)),
        };
        Ok(HttpTransport { shared: Arc::new(shared) })
    }

    /// Number of connections available for new requests.
    pub fn connections(&self) -> usize {
        self.shared.pool.connections()
    }

    /// Closes all connections, cancelling active requests. Later requests open new ones.
    pub fn close_connections(&self) {
        self.shared.pool.close_all();
    }
}

impl Transport for HttpTransport {
    fn host(&self) -> Option<String> {
        Some(self.shared.address.authority().to_string())
    }

    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.send(request).await })
    }

    fn upgrade(&self, request: Request<Bytes>) -> UpgradeFuture {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.upgrade(request).await })
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpTransport({})", self.shared.address)
    }
}

impl SharedTransport {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, TransportError> {
        let deadline = self.deadline(&request);
        let is_endless = is_endless(request.uri());
        let sent = by(deadline, pin!(self.exchange(request))).await;
        let mut response = sent.map_err(|error| self.with_entry(error))?;
        if let Some(deadline) = deadline.filter(|_| !is_endless) {
            response.body_mut().end_by(deadline);
        }
        Ok(response.map(Body::new))
    }

    /// Adds the kubeconfig entry to check to an error.
    fn with_entry(&self, error: TransportError) -> TransportError {
        let entry = match (error.kind(), certificate_at_fault(&error)) {
            (TransportErrorKind::Credentials, _) | (_, Some(FaultyCertificate::Ours)) => self.origin.user.as_deref(),
            (_, Some(FaultyCertificate::Theirs)) => self.origin.cluster.as_deref(),
            _ => None,
        };
        if entry.is_none() {
            return error;
        }
        let place = error.place().map_or_else(|| self.address.to_string(), str::to_owned);
        error.at(of_entry(place, entry))
    }

    /// The deadline of a request. A limit that overflows means none.
    fn deadline(&self, request: &Request<Bytes>) -> Option<Instant> {
        let own = request.extensions().get::<RequestTimeout>();
        own.map_or(self.timeout, |own| own.0).and_then(|limit| Instant::now().checked_add(limit))
    }

    /// Sends a request; after a 401 once more, if there are new credentials.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Chunks>, TransportError> {
        // A caller's own header takes precedence.
        let is_ours = self.may_authenticate && !request.headers().contains_key(AUTHORIZATION);
        let mut shown = self.show(is_ours).await?;
        let response = self.attempt(&request, &shown).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !is_ours || !self.authenticator.refresh(&shown).await {
            return Ok(response);
        }
        drop(response);
        shown = self.show(is_ours).await?;
        self.attempt(&request, &shown).await
    }

    /// The credentials to send; applies a changed certificate among them.
    async fn show(&self, is_ours: bool) -> Result<RequestCredentials, TransportError> {
        if !is_ours {
            return Ok(RequestCredentials::default());
        }
        let shown = self.authenticator.show().await?;
        if let Some(tls) = &self.pool.connector().tls
            && tls.set_identity(shown.identity.as_ref()) == TlsChange::Identity
        {
            self.pool.close_all();
        }
        Ok(shown)
    }

    /// Applies changed certificate authorities, and a changed live certificate.
    async fn check_certificates(&self) {
        let Some(tls) = &self.pool.connector().tls else { return };
        self.pool.check_authority().await;
        if tls.check_live() == TlsChange::Identity {
            self.pool.close_all();
        }
    }

    /// Sends a request until a server has seen it.
    async fn attempt(
        &self,
        request: &Request<Bytes>,
        shown: &RequestCredentials,
    ) -> Result<Response<Chunks>, TransportError> {
        self.check_certificates().await;
        let asks_gzip = self.address.asks_gzip(request);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let lease = self.pool.lease().await?;
            match self.send_on(lease, request, shown).await {
                Ok(response) => return Ok(opened(response, asks_gzip)),
                // A server that rejects our certificate would do so again.
                Err(RequestFailure { is_unseen: true, error }) if error.kind() != TransportErrorKind::Tls => {
                    last = Some(error)
                }
                Err(failure) => return Err(failure.error),
            }
        }
        // No server has seen it, which callers may want to know.
        Err(TransportError::new(TransportErrorKind::Connect, last.expect("there was an attempt")))
    }

    async fn send_on(
        &self,
        lease: RequestPermit,
        request: &Request<Bytes>,
        shown: &RequestCredentials,
    ) -> Result<Response<BodySource>, RequestFailure> {
        match lease {
            RequestPermit::Http1 { mut connection, is_reused, home } => {
                let request =
                    self.address.outgoing(request, shown, Protocol::Http1).map_err(RequestFailure::of_request)?;
                let is_safe = is_reused && matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
                match connection.send(request).await {
                    Ok(response) => Ok(response.map(|incoming| BodySource::Http1(incoming, connection, home))),
                    Err(mut error) => {
                        // A server may close an idle connection at the moment it is reused.
                        let is_unseen =
                            error.take_message().is_some() || (is_safe && error.error().is_incomplete_message());
                        Err(RequestFailure { is_unseen, error: broken_connection(error.into_error()) })
                    }
                }
            }
            RequestPermit::Http2(opening) => {
                let request =
                    self.address.outgoing(request, shown, Protocol::Http2).map_err(RequestFailure::of_request)?;
                let (response, slot) = opening.send(request).await?;
                Ok(response.map(|stream| BodySource::Http2(stream, slot)))
            }
        }
    }

    async fn upgrade(&self, request: Request<Bytes>) -> Result<Upgrade, TransportError> {
        let deadline = self.deadline(&request);
        by(deadline, pin!(self.switch(request, deadline))).await.map_err(|error| self.with_entry(error))
    }

    /// Requests a protocol upgrade; after a 401 once more, if there are new credentials.
    async fn switch(&self, request: Request<Bytes>, deadline: Option<Instant>) -> Result<Upgrade, TransportError> {
        let is_ours = self.may_authenticate && !request.headers().contains_key(AUTHORIZATION);
        let mut shown = self.show(is_ours).await?;
        let upgrade = self.switch_once(&request, &shown, deadline).await?;
        let is_unauthorized =
            matches!(&upgrade, Upgrade::Refused(answer) if answer.status() == StatusCode::UNAUTHORIZED);
        if !is_unauthorized || !is_ours || !self.authenticator.refresh(&shown).await {
            return Ok(upgrade);
        }
        drop(upgrade);
        shown = self.show(is_ours).await?;
        self.switch_once(&request, &shown, deadline).await
    }

    /// Requests an upgrade on a dedicated connection. After the upgrade there is no time limit; a
    /// rejection must be complete within it.
    async fn switch_once(
        &self,
        request: &Request<Bytes>,
        shown: &RequestCredentials,
        deadline: Option<Instant>,
    ) -> Result<Upgrade, TransportError> {
        self.check_certificates().await;
        let mut connection = self.pool.private().await?;
        let request = self.address.outgoing(request, shown, Protocol::Http1)?;
        let mut response = connection.send(request).await.map_err(|error| broken_connection(error.into_error()))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let response = response.map(|incoming| BodySource::Private(incoming, connection));
            let mut response = opened(response, true);
            if let Some(deadline) = deadline {
                response.body_mut().end_by(deadline);
            }
            return Ok(Upgrade::Refused(response.map(Body::new)));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(broken_connection)?;
        Ok(Upgrade::Switched(response.map(drop), Upgraded::new(TokioIo::new(upgraded))))
    }
}

/// The result of `work`, or a timeout error. Type-erased, because the timeout would otherwise be
/// compiled with each future.
async fn by<T>(
    deadline: Option<Instant>,
    work: Pin<&mut (dyn Future<Output = Result<T, TransportError>> + Send)>,
) -> Result<T, TransportError> {
    let Some(deadline) = deadline else { return work.await };
    let done = tokio::time::timeout_at(deadline, work).await;
    done.unwrap_or_else(|late| Err(TransportError::new(TransportErrorKind::Timeout, late)))
}

/// Decompresses the body if we requested compression.
fn opened(response: Response<BodySource>, asks_gzip: bool) -> Response<Chunks> {
    let (mut parts, source) = response.into_parts();
    let is_compressed = asks_gzip
        && parts.headers.get(CONTENT_ENCODING).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
    if is_compressed {
        parts.headers.remove(CONTENT_ENCODING);
        parts.headers.remove(CONTENT_LENGTH);
    }
    Response::from_parts(parts, Chunks::new(source, is_compressed))
}

/// Whether a response has no natural end: a watch, or a followed log.
fn is_endless(uri: &Uri) -> bool {
    let pairs = uri.query().unwrap_or_default().split('&');
    let mut pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "true")));
    pairs.any(|(name, value)| {
        matches!(name, "watch" | "follow") && matches!(value, "true" | "1" | "True" | "TRUE" | "t")
    })
}

/// Ping settings. An interval of zero disables pings; as in Go, a timeout of zero means the
/// default.
fn health(environment: &EnvironmentVariables) -> PingOptions {
    // Bounded, so that durations can be added.
    let seconds = |name: &str, default: u32| {
        let set = environment.get(name).and_then(|text| text.parse::<u32>().ok());
        Duration::from_secs(set.unwrap_or(default).into())
    };
    let interval = seconds("HTTP2_READ_IDLE_TIMEOUT_SECONDS", 30);
    let timeout = seconds("HTTP2_PING_TIMEOUT_SECONDS", PING_TIMEOUT);
    let timeout = if timeout.is_zero() { Duration::from_secs(PING_TIMEOUT.into()) } else { timeout };
    PingOptions { interval: (!interval.is_zero()).then_some(interval), timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    // TR-2
    #[test]
    fn zero_turns_pings_off_and_leaves_their_limit_as_it_is() {
        let asked = |interval: &str, timeout: &str| {
            let variables = [("HTTP2_READ_IDLE_TIMEOUT_SECONDS", interval), ("HTTP2_PING_TIMEOUT_SECONDS", timeout)];
            let health = health(&EnvironmentVariables::of(variables));
            (health.interval.map(|interval| interval.as_secs()), health.timeout.as_secs())
        };
        assert_eq!(asked("10", "5"), (Some(10), 5));
        assert_eq!(asked("0", "0"), (None, 15));
        assert_eq!(asked("no number", "18446744073709551615"), (Some(30), 15));
    }
}
