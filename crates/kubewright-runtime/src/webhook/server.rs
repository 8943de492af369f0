//! The HTTPS server of webhooks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use kubewright_core::{Kind, Object};
use rustls::ServerConfig;
use rustls::crypto::ring;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::certificate::{ServingCertificate, ServingCertificateError};
use super::conversion::Converter;
use super::metrics::WebhookMetrics;
use super::request::AdmissionRequest;
use super::response::AdmissionResponse;
use super::route::{self, Route};

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an HTTP/1.1 request, as in controller-runtime: idle connections are closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// Idle time before an HTTP/2 peer is pinged, and timeout of the reply.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Serves webhooks over HTTPS, with a certificate that is reloaded when its files change.
///
/// Run it with a [`Manager`](crate::Manager), or separately.
#[doc(alias = "webhook.Server")]
pub struct WebhookServer {
    address: SocketAddr,
    files: [PathBuf; 2],
    reload: Duration,
    grace: Duration,
    routes: BTreeMap<String, Route>,
    metrics: Option<WebhookMetrics>,
    bound: Option<oneshot::Sender<SocketAddr>>,
    is_serving: Arc<AtomicBool>,
}

/// Why a webhook server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// Its certificate is unusable.
    #[error("the certificate of the webhook server is not usable")]
    Certificate(#[from] ServingCertificateError),
    /// Its address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl WebhookServer {
    /// A server at this address, with certificate and key in these PEM files.
    pub fn new(address: SocketAddr, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        WebhookServer {
            address,
            files: [certificate.into(), key.into()],
            reload: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            routes: BTreeMap::new(),
            metrics: None,
            bound: None,
            is_serving: Arc::default(),
        }
    }

    /// Calls `handler` for writes of objects of type `T` at this path. A panic of the handler
    /// denies the write with code 500. Reviews may have up to 7 MiB, which is more than two objects
    /// need.
    #[doc(alias = "Register")]
    #[must_use]
    pub fn admit<T, F, R>(mut self, path: impl Into<String>, handler: F) -> Self
    where
        T: Object,
        F: Fn(AdmissionRequest<T>) -> R + Send + Sync + 'static,
        R: Future<Output = AdmissionResponse> + Send + 'static,
    {
        self.routes.insert(path.into(), route::admission(handler));
        self
    }

    /// Converts objects at this path, which is `/convert` in controller-runtime. A panic of the
    /// conversion fails with code 500.
    ///
    /// Reviews may have up to 256 MiB: a server sends all objects of a list at once. They are
    /// buffered in memory, so restrict access to API servers if that matters.
    #[must_use]
    pub fn convert<H: Kind>(mut self, path: impl Into<String>, converter: Converter<H>) -> Self {
        self.routes.insert(path.into(), route::conversion(converter));
        self
    }

    /// How often the certificate files are checked. Every 10 s by default.
    #[must_use]
    pub fn reload_every(mut self, period: Duration) -> Self {
        self.reload = period;
        self
    }

    /// How long responses may take after the stop. 10 s by default.
    #[must_use]
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Exposes the server in these metrics. None by default; a manager sets its own.
    #[must_use]
    pub fn metrics(mut self, metrics: &WebhookMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Sends the bound address, for use with port 0.
    #[must_use]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    /// A readiness check that tells whether it is serving.
    #[doc(alias = "StartedChecker")]
    pub fn started_checker(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let is_serving = self.is_serving.clone();
        move || is_serving.load(Ordering::Acquire).then_some(()).ok_or_else(|| "webhook server not started".to_owned())
    }

    /// Whether it has metrics; otherwise a manager sets them.
    pub(crate) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Serves until `stop` is cancelled and pending requests are answered.
    ///
    /// # Errors
    /// If the certificate or the address cannot be used. A certificate that becomes invalid later
    /// is not loaded.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), WebhookError> {
        self.bind().await?.serve(stop).await;
        Ok(())
    }

    /// Loads the certificate and binds the address.
    pub(crate) async fn bind(mut self) -> Result<BoundServer, WebhookError> {
        let certificate = Arc::new(ServingCertificate::load(&self.files[0], &self.files[1]).await?);
        let failed = |source| WebhookError::Listen { address: self.address, source };
        let listener = TcpListener::bind(self.address).await.map_err(failed)?;
        if let Some(tell) = self.bound.take() {
            let _ = tell.send(listener.local_addr().unwrap_or(self.address));
        }
        let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has the default versions")
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(BoundServer { listener, certificate, acceptor: TlsAcceptor::from(Arc::new(tls)), server: Arc::new(self) })
    }
}

/// A server with its certificate and its bound address.
pub(crate) struct BoundServer {
    listener: TcpListener,
    certificate: Arc<ServingCertificate>,
    acceptor: TlsAcceptor,
    server: Arc<WebhookServer>,
}

impl BoundServer {
    /// Serves until told to stop, then answers pending requests within the grace period.
    pub(crate) async fn serve(self, stop: &CancellationToken) {
        let BoundServer { listener, certificate, acceptor, server } = self;
        let graceful = GracefulShutdown::new();
        // Handshakes and connections; the rest is aborted with the set.
        let mut connections = JoinSet::new();
        server.is_serving.store(true, Ordering::Release);
        let accepting = async {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // Probably out of file descriptors, which is temporary.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                while connections.try_join_next().is_some() {}
                let (acceptor, server, watcher) = (acceptor.clone(), server.clone(), graceful.watcher());
                connections.spawn(async move {
                    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
                    serve_connection(stream, server, watcher).await;
                });
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = certificate.watch(server.reload, server.metrics.as_ref(), stop) => {}
            () = accepting => {}
        }
        server.is_serving.store(false, Ordering::Release);
        drop(listener);
        let _ = timeout(server.grace, graceful.shutdown()).await;
    }
}

async fn serve_connection(
    stream: tokio_rustls::server::TlsStream<TcpStream>,
    server: Arc<WebhookServer>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    // Uses the negotiated protocol instead of guessing from the first bytes, which may never
    // arrive.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let http = auto::Builder::new(TokioExecutor::new());
    let mut http = if is_http2 { http.http2_only() } else { http.http1_only() };
    http.http1().timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_INTERVAL);
    let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service).into_owned());
    if let Err(error) = connection.await {
        tracing::debug!(error, "a connection to the webhook server broke");
    }
}

impl WebhookServer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let Some(route) = self.routes.get(&path) else {
            return text_of(StatusCode::NOT_FOUND, "no such webhook\n".to_owned());
        };
        if request.method() != Method::POST {
            return text_of(StatusCode::METHOD_NOT_ALLOWED, "only POST\n".to_owned());
        }
        let began = Instant::now();
        let _in_flight = self.metrics.as_ref().map(|metrics| metrics.began(&path));
        let answer = answer_review(route, request).await;
        let code = answer.as_ref().map_or(400, |(_, code)| *code);
        if let Some(metrics) = &self.metrics {
            metrics.answered(&path, code, began.elapsed().as_secs_f64());
        }
        match answer {
            Ok((answer, code)) => {
                tracing::debug!(path, code, "webhook answered");
                let mut response = Response::new(Full::new(answer));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(why) => text_of(StatusCode::BAD_REQUEST, why),
        }
    }
}

async fn answer_review(route: &Route, request: Request<Incoming>) -> Result<(Bytes, u16), String> {
    let content = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content.split(';').next().map(str::trim) != Some("application/json") {
        return Err(format!("content type {content:?} instead of application/json\n"));
    }
    let body = Limited::new(request.into_body(), route.body_max).collect().await;
    let body = body.map_err(|error| format!("the body cannot be read: {error}\n"))?.to_bytes();
    let (answer, code) = route::review(route, &body).await.map_err(|why| format!("{why}\n"))?;
    Ok((Bytes::from(answer.to_string()), code))
}

fn text_of(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&String> = self.routes.keys().collect();
        f.debug_struct("WebhookServer").field("address", &self.address).field("paths", &paths).finish_non_exhaustive()
    }
}
