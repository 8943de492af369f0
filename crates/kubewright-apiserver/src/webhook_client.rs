//! The HTTPS client of admission and conversion webhooks.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, StatusCode, Uri};
use kubewright_core::{ByteString, Value};
use kubewright_net::Config;
use kubewright_net::config::{CertificateSource, ProxyChoice};
use kubewright_net::transport::Transport;

use crate::object::tree;

/// Maximum size of a response.
const ANSWER_MAX: usize = 3 << 20;

/// Sends a review to the webhook of a client configuration, and returns its response.
pub(crate) async fn post(config: &Value, timeout: Duration, body: Vec<u8>) -> Result<Bytes, String> {
    let url = match config.get("url").and_then(Value::as_str) {
        Some(url) => url,
        None => return Err("services cannot be resolved by this server, use clientConfig.url".to_owned()),
    };
    let in_words = |error: String| format!("Post {:?}: {error}", format!("{url}?timeout={}s", timeout.as_secs()));
    // Boxed, to keep the futures of all requests that may call a webhook small.
    let sent = tokio::time::timeout(timeout, Box::pin(send(url, timeout, config, body))).await;
    sent.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())).map_err(in_words)
}

async fn send(url: &str, timeout: Duration, client_config: &Value, body: Vec<u8>) -> Result<Bytes, String> {
    let uri: Uri = url.parse().map_err(|_| "the address cannot be read")?;
    if uri.scheme_str() != Some("https") {
        return Err("the scheme has to be https".to_owned());
    }
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let mut config = Config::new(&format!("https://{authority}")).map_err(|error| chain(&error))?;
    config.tls.authority = Some(CertificateSource::Data(authorities(client_config)?));
    config.proxy = ProxyChoice::Direct;
    config.disable_compression = true;
    let transport = config.connect().map_err(|error| chain(&error))?;
    let request = Request::post(format!("{}?timeout={}s", uri.path(), timeout.as_secs()))
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(Bytes::from(body))
        .map_err(|error| error.to_string())?;
    let response = transport.send(request).await.map_err(|error| chain(&error))?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server answered {}", response.status()));
    }
    let (mut body, mut answer) = (response.into_body(), Vec::new());
    while let Some(chunk) = body.chunk().await.map_err(|error| chain(&error))? {
        answer.extend_from_slice(&chunk);
        if answer.len() > ANSWER_MAX {
            return Err("the answer is too long".to_owned());
        }
    }
    Ok(answer.into())
}

/// The trusted certificate authorities, in PEM. The system's authorities are not trusted.
fn authorities(client_config: &Value) -> Result<ByteString, String> {
    let bundle = tree::text(client_config, &["caBundle"]);
    if bundle.is_empty() {
        return Err("clientConfig.caBundle is needed to trust the server".to_owned());
    }
    ByteString::from_base64(bundle.as_bytes()).map_err(|error| error.to_string())
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
