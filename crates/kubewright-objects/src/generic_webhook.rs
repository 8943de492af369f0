//! The client of a webhook that a kubeconfig describes: those of authorization and audit.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, StatusCode, Uri};
use kubewright_net::config::{ConfigError, Kubeconfig, Overrides};
use kubewright_net::transport::Transport;
use kubewright_net::{Config, HttpTransport};
use tokio::time::{sleep, timeout};

/// Number of attempts before a call has failed, as in kube-apiserver.
const ATTEMPTS: u32 = 5;
/// Time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response.
const ANSWER_MAX: usize = 1 << 20;

/// A server that is called with JSON, with retries.
#[doc(alias = "webhook.GenericWebhook")]
pub struct GenericWebhook {
    transport: HttpTransport,
    path: String,
    initial_backoff: Duration,
}

impl GenericWebhook {
    /// Reads the kubeconfig. The server is not called yet. Each further delay between two attempts
    /// is one and a half times as long as `initial_backoff`.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read or used.
    pub fn from_kubeconfig(file: &Path, initial_backoff: Duration) -> Result<Self, ConfigError> {
        let kubeconfig = Kubeconfig::read(file)?;
        let mut config = Config::from_kubeconfig(&kubeconfig, &Overrides::default())?;
        // The path is that of the webhook, and not a prefix of others: it may end with a slash.
        let path = config.server.path().to_owned();
        let mut server = config.server.into_parts();
        server.path_and_query = Some(PathAndQuery::from_static("/"));
        config.server = Uri::from_parts(server).map_err(|error| ConfigError::Invalid(format!("server: {error}")))?;
        Ok(GenericWebhook { transport: config.connect()?, path, initial_backoff })
    }

    /// Sends a body, and returns the response. Failures of the connection and of the server are
    /// retried.
    ///
    /// # Errors
    /// The reason, in words.
    pub async fn post(&self, body: Bytes) -> Result<Vec<u8>, String> {
        let mut delay = self.initial_backoff;
        for _ in 1..ATTEMPTS {
            match self.attempt(body.clone()).await {
                Err(CallError::Retriable(_)) => {}
                other => return other.map_err(CallError::into_reason),
            }
            sleep(delay).await;
            delay = delay * 3 / 2;
        }
        self.attempt(body).await.map_err(CallError::into_reason)
    }

    async fn attempt(&self, body: Bytes) -> Result<Vec<u8>, CallError> {
        let late = || CallError::Retriable("context deadline exceeded".to_owned());
        timeout(TIMEOUT, self.send(body)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn send(&self, body: Bytes) -> Result<Vec<u8>, CallError> {
        let request = Request::post(&*self.path)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| CallError::Final(error.to_string()))?;
        let response = self.transport.send(request).await.map_err(|error| CallError::Retriable(chain(&error)))?;
        let status = response.status();
        if !status.is_success() {
            let why = format!("the server answered {status}");
            let is_retriable = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(if is_retriable { CallError::Retriable(why) } else { CallError::Final(why) });
        }
        let (mut body, mut answer) = (response.into_body(), Vec::new());
        while let Some(chunk) = body.chunk().await.map_err(|error| CallError::Retriable(chain(&error)))? {
            answer.extend_from_slice(&chunk);
            if answer.len() > ANSWER_MAX {
                return Err(CallError::Final("the answer is too long".to_owned()));
            }
        }
        Ok(answer)
    }
}

impl fmt::Debug for GenericWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericWebhook").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why a call failed.
enum CallError {
    /// Another attempt may succeed.
    Retriable(String),
    /// Every attempt would fail.
    Final(String),
}

impl CallError {
    fn into_reason(self) -> String {
        match self {
            CallError::Retriable(reason) | CallError::Final(reason) => reason,
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
