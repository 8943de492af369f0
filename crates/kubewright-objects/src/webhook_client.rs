//! The HTTPS client of admission and conversion webhooks.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use kubewright_core::{ByteString, Value};
use kubewright_net::config::{CertificateSource, ProxyChoice};
use kubewright_net::transport::Transport;
use kubewright_net::{Config, HttpTransport};

use crate::object::tree;

/// Maximum size of a response.
const ANSWER_MAX: usize = 3 << 20;
/// Maximum number of servers whose connections are kept, as in kube-apiserver.
const SERVERS_MAX: usize = 200;
/// The user agent of kube-apiserver's calls.
const AGENT: &str = "kube-apiserver-admission";

/// Clients of webhooks. Calls to the same server share connections. Clones share all of it.
#[derive(Clone, Default)]
pub struct WebhookClients {
    transports: Arc<Mutex<HashMap<ServerIdentity, HttpTransport>>>,
    /// Webhooks in this process, by host and port.
    in_process: Arc<Mutex<HashMap<String, Arc<dyn Transport>>>>,
}

/// The identity of a server: its address, and its CA bundle in base64.
type ServerIdentity = (String, String);

impl WebhookClients {
    /// Calls webhooks at this host and port through `transport`; `None` removes it.
    pub fn connect(&self, authority: &str, transport: Option<Arc<dyn Transport>>) {
        let mut in_process = self.in_process.lock().unwrap_or_else(PoisonError::into_inner);
        match transport {
            Some(transport) => drop(in_process.insert(authority.to_owned(), transport)),
            None => drop(in_process.remove(authority)),
        }
    }

    /// Sends a review to the webhook of a client configuration, and returns its response.
    pub async fn post(&self, config: &Value, timeout: Duration, body: Vec<u8>) -> Result<Bytes, String> {
        let url = match config.get("url").and_then(Value::as_str) {
            Some(url) => url.to_owned(),
            None => self.service_url(config)?,
        };
        let url = &url;
        let in_words = |error: String| format!("Post {:?}: {error}", format!("{url}?timeout={}s", timeout.as_secs()));
        // Boxed, to keep the futures of all requests that may call a webhook small.
        let sent = tokio::time::timeout(timeout, Box::pin(self.send(url, timeout, config, body))).await;
        sent.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())).map_err(in_words)
    }

    async fn send(&self, url: &str, timeout: Duration, config: &Value, body: Vec<u8>) -> Result<Bytes, String> {
        let uri: Uri = url.parse().map_err(|_| "the address cannot be read")?;
        if uri.scheme_str() != Some("https") {
            return Err("the scheme has to be https".to_owned());
        }
        let transport = match self.in_process(&uri) {
            Some(transport) => transport,
            None => Arc::new(self.transport(&uri, config)?),
        };
        let request = Request::post(format!("{}?timeout={}s", clean(uri.path()), timeout.as_secs()))
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT)
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

    /// The URL of a service, if its webhooks are in this process.
    fn service_url(&self, config: &Value) -> Result<String, String> {
        let text = |field: &str| tree::text(config, &["service", field]).to_owned();
        let port = tree::int(config, &["service", "port"]).unwrap_or(443);
        let authority = format!("{}.{}.svc:{port}", text("name"), text("namespace"));
        if !self.in_process.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&authority) {
            return Err("services cannot be resolved by this server, use clientConfig.url".to_owned());
        }
        Ok(format!("https://{authority}{}", text("path")))
    }

    /// The server of a Service in this process, if there is one.
    pub fn service(&self, namespace: &str, name: &str, port: i64) -> Option<Arc<dyn Transport>> {
        let authority = format!("{name}.{namespace}.svc:{port}");
        self.in_process.lock().unwrap_or_else(PoisonError::into_inner).get(&authority).cloned()
    }

    fn in_process(&self, uri: &Uri) -> Option<Arc<dyn Transport>> {
        let authority = format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(443));
        self.in_process.lock().unwrap_or_else(PoisonError::into_inner).get(&authority).cloned()
    }

    /// The transport to a server. The authorities of the system are trusted without a bundle.
    fn transport(&self, uri: &Uri, client_config: &Value) -> Result<HttpTransport, String> {
        let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
        let bundle = tree::text(client_config, &["caBundle"]);
        let identity = (authority, bundle.to_owned());
        let transports = || self.transports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = transports().get(&identity) {
            return Ok(transport.clone());
        }
        let mut config = Config::new(&format!("https://{}", identity.0)).map_err(|error| chain(&error))?;
        if !bundle.is_empty() {
            let bundle = ByteString::from_base64(bundle.as_bytes()).map_err(|error| error.to_string())?;
            config.tls.authority = Some(CertificateSource::Data(bundle));
        }
        config.proxy = ProxyChoice::Direct;
        config.disable_compression = true;
        let transport = config.connect().map_err(|error| chain(&error))?;
        let mut transports = transports();
        // Configurations that changed leave their transports behind.
        if transports.len() >= SERVERS_MAX {
            transports.clear();
        }
        transports.insert(identity, transport.clone());
        Ok(transport)
    }
}

/// Cleans a path as Go does: no empty segments, `.` or `..`, and no slash at the end.
fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_in_go() {
        for (path, want) in [
            ("", "/"),
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a"),
            ("/a//b/../c/", "/a/c"),
            ("/../a/./b", "/a/b"),
            ("/a%2Fb", "/a%2Fb"),
        ] {
            assert_eq!(clean(path), want, "{path}");
        }
    }
}
