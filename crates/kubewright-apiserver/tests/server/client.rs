//! A small test client: one connection, JSON in and out.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kubewright_apiserver::{ApiServer, RunningServer};
use kubewright_core::Value;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a server.
pub struct Client(SendRequest<Full<Bytes>>);

/// Starts an in-memory server and connects to it.
pub async fn server() -> (RunningServer, Client) {
    let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
    let client = Client::over(server.connect()).await;
    (server, client)
}

impl Client {
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        // A response can have a hundred warnings.
        let connection = Builder::new().max_headers(200).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connection.expect("the server answers");
        tokio::spawn(connection);
        Client(sender)
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.0.ready().await.expect("the connection is open");
        self.0.send_request(request).await.expect("the server answers")
    }

    /// Sends a request with an optional JSON body. Returns status code and body.
    pub async fn call(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.call_with(content_type, method, path, body).await
    }

    /// Applies a configuration as this manager. `manager` may be followed by further query
    /// parameters.
    pub async fn apply(&mut self, manager: &str, path: &str, config: &str) -> (u16, Value) {
        let path = format!("{path}?fieldManager={manager}");
        self.call_with("application/apply-patch+yaml", "PATCH", &path, config).await
    }

    pub async fn call_with(&mut self, content_type: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", content_type);
        let response = self.send(request.body(Full::from(body.to_owned())).expect("a valid request")).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("the body ends").to_bytes();
        (code, Value::from_json(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body).as_ref())))
    }

    /// Sends a request with an optional JSON body. `None` if the connection ends too early.
    #[allow(dead_code)]
    pub async fn try_call(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Full::from(body.to_owned())).ok()?;
        self.0.ready().await.ok()?;
        let response = self.0.send_request(request).await.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, Value::from_json(&body).unwrap_or_default()))
    }

    /// Sends a request with JSON. Returns status code and warnings.
    pub async fn warnings(&mut self, method: &str, path: &str, body: &str) -> (u16, Vec<String>) {
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let response = self.send(request.body(Full::from(body.to_owned())).expect("a valid request")).await;
        let texts = response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
        (response.status().as_u16(), texts.map(|text| text.replace("299 - ", "").replace("\\\"", "'")).collect())
    }

    pub async fn until(&mut self, path: &str, code: u16) {
        for _ in 0..500 {
            if self.call("GET", path, "").await.0 == code {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{path} is never answered with {code}");
    }
}

/// The string at a path such as `metadata/name`.
pub fn text(value: &Value, path: &str) -> String {
    let found = path.split('/').try_fold(value, |value, key| value.get(key));
    found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
}

/// A config map. `metadata` is further JSON after a comma.
pub fn config_map(name: &str, metadata: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{metadata}}}}}"#)
}

pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
