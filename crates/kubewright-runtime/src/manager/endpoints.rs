//! `/healthz`, `/readyz` and `/metrics` over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
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

/// Serves until told to stop.
#[inline]
pub(super) async fn serve(
    listener: TcpListener,
    registry: Arc<Registry>,
    checks: Arc<Checks>,
    stop: CancellationToken,
) {
    let connections = Tasks::default();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            // Probably out of file descriptors, which is temporary.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (registry, checks) = (registry.clone(), checks.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = answer(request.method(), request.uri().path(), &registry, &checks);
            async { Ok::<_, Infallible>(answer) }
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

#[inline]
fn answer(method: &Method, path: &str, registry: &Registry, checks: &Checks) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return text_of(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    if path == "/metrics" {
        let mut text = String::new();
        if text::encode(&mut text, registry).is_err() {
            return text_of(StatusCode::INTERNAL_SERVER_ERROR, "cannot write the metrics\n");
        }
        let mut response = text_of(StatusCode::OK, text);
        response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(OPEN_METRICS));
        return response;
    }
    let name_below = |root: &str| path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let report = match (name_below("/healthz"), name_below("/readyz")) {
        (Some(name), _) => checks.healthz(name.trim_matches('/')),
        (_, Some(name)) => checks.readyz(name.trim_matches('/')),
        _ => None,
    };
    match report {
        Some((true, report)) => text_of(StatusCode::OK, report),
        Some((false, report)) => text_of(StatusCode::INTERNAL_SERVER_ERROR, report),
        None => text_of(StatusCode::NOT_FOUND, "no such page\n"),
    }
}

fn text_of(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
