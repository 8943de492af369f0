//! The program `etcd` of a folder for envtest: it says that it is healthy, and otherwise stands by.
//!
//! envtest starts etcd and waits for its health before it starts the API server. Our API server has
//! its own store, so nothing else is asked of this program.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::flags::{FlagKind, Flags};
use crate::output;
use crate::signals::TerminationSignals;

const HELP: &str = "\
Usage:
  etcd [flags]

This is the `etcd` of `kubewright envtest`. It answers /health and /version, and stores nothing.

Flags:
  --listen-client-urls 'http://localhost:2379'
      Comma-separated URLs to listen on.
  All other flags of etcd are accepted, and have no effect.
";

/// Delay before the next accept when no socket is available.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The part of [`VERSION`] by which `kube-apiserver` recognizes this program.
pub(super) const PLACEHOLDER: &str = r#""kubewright":"placeholder""#;
const VERSION: &str = r#"{"etcdserver":"3.6.0","etcdcluster":"3.6.0","kubewright":"placeholder"}"#;

const DEFAULT_URL: &str = "http://localhost:2379";

pub(super) async fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let kind = |name: &str| {
        Some(match name {
            "help" | "h" | "version" | "unsafe-no-fsync" | "pre-vote" | "enable-v2" | "force-new-cluster" => {
                FlagKind::Switch
            }
            _ => FlagKind::List,
        })
    };
    let flags = Flags::parse("etcd", arguments, kind)?;
    if flags.has("help") || flags.has("h") {
        return Ok(output::print(HELP)?);
    }
    if flags.has("version") {
        return Ok(output::print(format!("kubewright {}\n", env!("CARGO_PKG_VERSION")))?);
    }
    let mut signals = TerminationSignals::new()?;
    let urls = match flags.list("listen-client-urls") {
        [] => &[DEFAULT_URL.to_owned()][..],
        urls => urls,
    };
    for url in urls {
        let why = || format!("cannot listen on {url:?}: only http://HOST:PORT is supported");
        let address = url.strip_prefix("http://").ok_or_else(why)?.trim_end_matches('/');
        let listener = TcpListener::bind(address).await.map_err(|error| format!("cannot listen on {url}: {error}"))?;
        tokio::spawn(serve(listener));
    }
    signals.wait().await;
    Ok(())
}

async fn serve(listener: TcpListener) {
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // There are too many open files. Wait until one is closed.
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        // A connection that breaks concerns its client only.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(answer)));
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, body) = match request.uri().path() {
        "/health" | "/livez" | "/readyz" => (StatusCode::OK, r#"{"health":"true","reason":""}"#),
        "/version" => (StatusCode::OK, VERSION),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    Ok(response)
}
