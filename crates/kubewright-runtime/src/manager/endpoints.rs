//! `/healthz`, `/readyz`, `/metrics` and other pages over HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use kubewright_client::task::Tasks;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::time::{Duration, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::checks::Checks;
use super::error::ManagerError;

/// The content type of prometheus-client.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Timeout of a request, as in controller-runtime: idle connections are closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(32);

/// How long connections may take to close.
const GRACE: Duration = Duration::from_secs(1);

#[inline]
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, ManagerError> {
    TcpListener::bind(address).await.map_err(|source| ManagerError::Listen { address, source })
}

/// A handler of another path.
pub(super) type EndpointHandler =
    Arc<dyn Fn(Request<()>) -> Pin<Box<dyn Future<Output = Response<Bytes>> + Send>> + Send + Sync>;

/// The pages of an address.
#[derive(Clone, Default)]
pub(super) struct ServedPages {
    /// For `/metrics`.
    pub(super) registry: Option<Arc<Registry>>,
    /// For `/healthz` and `/readyz`.
    pub(super) checks: Option<Arc<Checks>>,
    /// Other paths.
    pub(super) handlers: BTreeMap<String, EndpointHandler>,
}

/// Serves over HTTP until told to stop.
#[inline]
pub(super) async fn serve(listener: TcpListener, endpoints: ServedPages, stop: CancellationToken) {
    let connections = Tasks::default();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Probably out of file descriptors, which is temporary.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let endpoints = endpoints.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (endpoints, request) = (endpoints.clone(), request.into_parts().0);
            async move {
                Ok::<_, Infallible>(match endpoints.refusal(&request) {
                    None => endpoints.answer(request).await,
                    Some(refusal) => refusal,
                })
            }
        });
        let stop = stop.clone();
        connections.spawn(Box::pin(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
            let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
            if stop.run_until_cancelled(connection.as_mut()).await.is_none() {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }));
    }
    let _ = timeout(GRACE, connections.ended()).await;
}

impl ServedPages {
    /// The refusal of a request if there is no such page, or it cannot be written.
    #[inline]
    pub(super) fn refusal(&self, request: &Parts) -> Option<Response<Full<Bytes>>> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Some(text_of(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"));
        }
        let path = request.uri.path();
        let is_check = name_below("/healthz", path).or(name_below("/readyz", path)).is_some();
        let is_served = (path == "/metrics" && self.registry.is_some())
            || (is_check && self.checks.is_some())
            || self.handlers.contains_key(path);
        (!is_served).then(|| text_of(StatusCode::NOT_FOUND, "no such page\n"))
    }

    /// The page, if there is no [`refusal`](Self::refusal).
    #[inline]
    pub(super) async fn answer(&self, request: Parts) -> Response<Full<Bytes>> {
        let path = request.uri.path();
        if let Some(handler) = self.handlers.get(path) {
            return handler(Request::from_parts(request, ())).await.map(Full::new);
        }
        if let Some(registry) = self.registry.as_deref().filter(|_| path == "/metrics") {
            let mut text = String::new();
            if text::encode(&mut text, registry).is_err() {
                return text_of(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics\n");
            }
            let mut response = text_of(StatusCode::OK, text);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
            return response;
        }
        let checks = self.checks.as_deref();
        let report = match (name_below("/healthz", path), name_below("/readyz", path)) {
            (Some(name), _) => checks.and_then(|checks| checks.healthz(name)),
            (_, Some(name)) => checks.and_then(|checks| checks.readyz(name)),
            _ => None,
        };
        match report {
            Some((true, report)) => text_of(StatusCode::OK, report),
            Some((false, report)) => text_of(StatusCode::INTERNAL_SERVER_ERROR, report),
            None => text_of(StatusCode::NOT_FOUND, "no such page\n"),
        }
    }
}

/// The name of a check below `root`; empty for all checks.
#[inline]
fn name_below<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
    Some(rest.trim_matches('/'))
}

pub(super) fn text_of(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
