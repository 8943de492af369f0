//! The way to a webhook, for admission or conversion: one request over TLS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use kubewright_core::{ByteString, Value};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::object::tree;

/// The largest answer that is taken.
const ANSWER_MAX: usize = 3 << 20;
const HTTPS_PORT: u16 = 443;

/// Sends a review to the server that a configuration names, and returns what it answers.
pub(crate) async fn post(config: &Value, timeout: Duration, body: Vec<u8>) -> Result<Bytes, String> {
    let url = match config.get("url").and_then(Value::as_str) {
        Some(url) => url,
        None => return Err("a service has no address here, only clientConfig.url can be called".to_owned()),
    };
    let in_words = |error: String| format!("Post {:?}: {error}", format!("{url}?timeout={}s", timeout.as_secs()));
    // Boxed, because it would be a part of all that may ask a webhook, which is all that writes and reads.
    let sent = tokio::time::timeout(timeout, Box::pin(send(url, timeout, config, body))).await;
    sent.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())).map_err(in_words)
}

async fn send(url: &str, timeout: Duration, config: &Value, body: Vec<u8>) -> Result<Bytes, String> {
    let rest = url.strip_prefix("https://").ok_or("the scheme has to be https")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = (&rest[..end], if end < rest.len() { &rest[end..] } else { "/" });
    let (host, port) = host_and_port(authority).ok_or("the address cannot be read")?;
    let roots = roots(config)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let socket = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, socket).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::post(format!("{path}?timeout={}s", timeout.as_secs()))
        .header("host", authority)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await.map_err(|error| error.to_string())?;
        match status {
            StatusCode::OK => Ok(body.to_bytes()),
            other => Err(format!("the server answered {other}")),
        }
    };
    // The connection moves only while it is polled, and is no longer needed when the answer is there.
    tokio::select! {
        answer = exchange => answer,
        ended = connection => Err(ended.err().map_or_else(|| "the connection was closed".to_owned(), |error| error.to_string())),
    }
}

fn host_and_port(authority: &str) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return Some((host, port.strip_prefix(':').map_or(Some(HTTPS_PORT), |port| port.parse().ok())?));
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((authority, HTTPS_PORT)),
    }
}

/// Who may vouch for the server. Those that the system trusts are not known here.
fn roots(config: &Value) -> Result<RootCertStore, String> {
    let bundle = tree::text(config, &["caBundle"]);
    if bundle.is_empty() {
        return Err("clientConfig.caBundle is needed to trust the server".to_owned());
    }
    let pem = ByteString::from_base64(bundle.as_bytes()).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle cannot be read: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}
