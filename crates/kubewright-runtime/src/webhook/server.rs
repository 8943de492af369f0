//! Answers API servers over HTTPS.

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

use super::certificate::{Certificate, CertificateError};
use super::conversion::Converter;
use super::metrics::WebhookMetrics;
use super::request::AdmissionRequest;
use super::response::AdmissionResponse;
use super::route::{self, Route};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a question over HTTP/1.1 may take to come, as in controller-runtime: who connects and says nothing is not kept.
const QUESTION: Duration = Duration::from_secs(32);
/// After so long without a word a peer of HTTP/2 is asked for a sign of life, and given up after as long again.
const SILENCE: Duration = Duration::from_secs(30);

/// Serves webhooks over HTTPS, with a certificate that is read again when its files change.
///
/// Run it by a [`Manager`](crate::Manager), or alone.
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
    /// Its certificate cannot be used.
    #[error("the certificate of the webhook server is not usable")]
    Certificate(#[from] CertificateError),
    /// Its address is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl WebhookServer {
    /// A server at this address, with a certificate and its key in these files of PEM.
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

    /// Asks `handler` about writes of objects of type `T` that come to this path. A handler that panics refuses with code 500.
    /// Reviews of up to 7 MiB are read, which is more than two objects can have.
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

    /// Converts objects that come to this path, which is `/convert` in controller-runtime. A conversion that panics fails with
    /// code 500.
    ///
    /// Reviews of up to 256 MiB are read: a server asks about all objects of a list at once. What is read is held in memory, so
    /// let nobody but API servers reach this where that matters.
    #[must_use]
    pub fn convert<H: Kind>(mut self, path: impl Into<String>, converter: Converter<H>) -> Self {
        self.routes.insert(path.into(), route::conversion(converter));
        self
    }

    /// How often the files of the certificate are looked at. Every 10 s by default.
    #[must_use]
    pub fn reload_every(mut self, period: Duration) -> Self {
        self.reload = period;
        self
    }

    /// How long answers may take once it is told to stop. 10 s by default.
    #[must_use]
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Shows what it does in these metrics. In none by default; a manager gives it its own.
    #[must_use]
    pub fn metrics(mut self, metrics: &WebhookMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Tells the address that is listened on, where port 0 leaves it open.
    #[must_use]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    /// Tells whether it serves, for a check of readiness.
    #[doc(alias = "StartedChecker")]
    pub fn started_checker(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let is_serving = self.is_serving.clone();
        move || is_serving.load(Ordering::Acquire).then_some(()).ok_or_else(|| "webhook server not started".to_owned())
    }

    /// Whether a manager has to give it metrics.
    pub(crate) fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Serves until `stop` is cancelled and the questions in hand are answered.
    ///
    /// # Errors
    /// If the certificate or the address cannot be used. A certificate that goes bad later is not taken.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), WebhookError> {
        self.bind().await?.serve(stop).await;
        Ok(())
    }

    /// Reads the certificate and listens.
    pub(crate) async fn bind(mut self) -> Result<Bound, WebhookError> {
        let certificate = Arc::new(Certificate::load(&self.files[0], &self.files[1]).await?);
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
        Ok(Bound { listener, certificate, acceptor: TlsAcceptor::from(Arc::new(tls)), server: Arc::new(self) })
    }
}

/// A server that has its certificate and its address.
pub(crate) struct Bound {
    listener: TcpListener,
    certificate: Arc<Certificate>,
    acceptor: TlsAcceptor,
    server: Arc<WebhookServer>,
}

impl Bound {
    /// Serves until told to stop, then answers what is in hand, as long as the grace period lasts.
    pub(crate) async fn serve(self, stop: &CancellationToken) {
        let Bound { listener, certificate, acceptor, server } = self;
        let graceful = GracefulShutdown::new();
        // Handshakes and connections; whatever is left at the end goes with the set.
        let mut connections = JoinSet::new();
        server.is_serving.store(true, Ordering::Release);
        let accepting = async {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // No descriptors are left, most likely; they come back.
                    sleep(Duration::from_millis(100)).await;
                    continue;
                };
                while connections.try_join_next().is_some() {}
                let (acceptor, server, watcher) = (acceptor.clone(), server.clone(), graceful.watcher());
                connections.spawn(async move {
                    let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
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
    // What was agreed on is not guessed from the first bytes, which may never come.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let http = auto::Builder::new(TokioExecutor::new());
    let mut http = if is_http2 { http.http2_only() } else { http.http1_only() };
    http.http1().timer(TokioTimer::new()).header_read_timeout(QUESTION);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(SILENCE).keep_alive_timeout(SILENCE);
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
