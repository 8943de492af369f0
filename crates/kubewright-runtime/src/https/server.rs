//! An HTTPS server: handshakes, connections, shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
#[cfg(feature = "webhook")]
use kubewright_core::Time;
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::certificate::{CurrentCertificate, ServingCertificate, ServingCertificateError};
use super::metrics::CertificateMetrics;

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an HTTP/1.1 request, as in controller-runtime: idle connections are closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// Idle time before an HTTP/2 peer is pinged, and timeout of the reply.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// The response to a request.
pub(crate) type Reply = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// Answers requests.
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> Reply + Send + Sync>;

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpsError {
    /// Its certificate is unusable.
    #[error("the serving certificate is not usable")]
    Certificate(#[from] ServingCertificateError),
    /// Its address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// The state of a server, for health checks.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    is_serving: AtomicBool,
    /// When the certificate expires, in seconds since 1970.
    expires: AtomicI64,
}

/// The checks of webhooks. Metrics have none: a program works without them.
#[cfg(feature = "webhook")]
impl ServerState {
    /// Whether it accepts connections, with a certificate that clients accept.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.is_serving.load(Ordering::Acquire) {
            return Err("HTTPS server not started".to_owned());
        }
        self.certificate()
    }

    /// Whether the certificate is valid. It is before the server has started.
    pub(crate) fn certificate(&self) -> Result<(), String> {
        let is_started = self.is_serving.load(Ordering::Acquire);
        if is_started && self.expires.load(Ordering::Acquire) <= Time::now().as_unix() {
            return Err("serving certificate has expired".to_owned());
        }
        Ok(())
    }
}

/// A server with its certificate and its bound address.
pub(crate) struct BoundServer {
    listener: TcpListener,
    certificate: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
    state: Arc<ServerState>,
}

/// Loads the certificate and binds the address.
pub(crate) async fn bind(
    address: SocketAddr,
    certificate: ServingCertificate,
    state: Arc<ServerState>,
) -> Result<BoundServer, HttpsError> {
    let certificate = Arc::new(CurrentCertificate::load(certificate).await?);
    let listener = TcpListener::bind(address).await.map_err(|source| HttpsError::Listen { address, source })?;
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_no_client_auth()
        .with_cert_resolver(certificate.clone());
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(BoundServer { listener, certificate, acceptor: TlsAcceptor::from(Arc::new(tls)), state })
}

impl BoundServer {
    /// The bound address.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until told to stop, then answers pending requests within the grace period.
    pub(crate) async fn serve(
        self,
        handler: Handler,
        metrics: Option<CertificateMetrics>,
        grace: Duration,
        stop: &CancellationToken,
    ) {
        let BoundServer { listener, certificate, acceptor, state } = self;
        let graceful = GracefulShutdown::new();
        // Handshakes and connections; the rest is aborted with the set.
        let mut connections = JoinSet::new();
        state.expires.store(certificate.expires(), Ordering::Release);
        state.is_serving.store(true, Ordering::Release);
        let accepting = async {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Probably out of file descriptors, which is temporary.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                while connections.try_join_next().is_some() {}
                let (acceptor, handler, watcher) = (acceptor.clone(), handler.clone(), graceful.watcher());
                connections.spawn(async move {
                    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
                    serve_connection(stream, handler, watcher).await;
                });
            }
        };
        let renewed = |expires| state.expires.store(expires, Ordering::Release);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = certificate.maintain(metrics.as_ref(), renewed, stop) => {}
            () = accepting => {}
        }
        state.is_serving.store(false, Ordering::Release);
        drop(listener);
        let _ = timeout(grace, graceful.shutdown()).await;
    }
}

async fn serve_connection(stream: TlsStream<TcpStream>, handler: Handler, watcher: Watcher) {
    // Uses the negotiated protocol instead of guessing from the first bytes, which may never
    // arrive.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let reply = handler(request);
        async move { Ok::<_, Infallible>(reply.await) }
    });
    let http = auto::Builder::new(TokioExecutor::new());
    let mut http = if is_http2 { http.http2_only() } else { http.http1_only() };
    http.http1().timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_INTERVAL);
    let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service).into_owned());
    if let Err(error) = connection.await {
        tracing::debug!(error, "an HTTPS connection broke");
    }
}

#[cfg(all(test, feature = "webhook"))]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_an_expired_certificate_is_neither_ready_nor_alive() {
        let state = ServerState::default();
        assert!(state.check().is_err() && state.certificate().is_ok(), "it has not started");
        state.is_serving.store(true, Ordering::Release);
        state.expires.store(Time::now().as_unix() + 60, Ordering::Release);
        assert_eq!((state.check(), state.certificate()), (Ok(()), Ok(())));
        state.expires.store(Time::now().as_unix() - 1, Ordering::Release);
        assert!(state.check().is_err() && state.certificate().is_err());
    }
}
