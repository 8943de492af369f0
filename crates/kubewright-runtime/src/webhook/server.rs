//! The HTTPS server of webhooks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use kubewright_core::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metrics::WebhookMetrics;
use super::route::{self, Route};
use super::webhooks::Webhooks;
use crate::error::BoxError;
use crate::https::{
    self, CertificateMetrics, Handler, HttpsError, ServerState, ServingCertificate, ServingCertificateError,
};

/// Serves webhooks over HTTPS.
///
/// Run it with a [`Manager`](crate::Manager), or separately. It serves on every replica, whether
/// that leads or not.
#[doc(alias = "webhook.Server")]
pub struct WebhookServer {
    address: SocketAddr,
    certificate: ServingCertificate,
    webhooks: Webhooks,
    grace: Duration,
    metrics: Option<WebhookMetrics>,
    certificate_metrics: Option<CertificateMetrics>,
    bound: Option<oneshot::Sender<SocketAddr>>,
    state: Arc<ServerState>,
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
    /// Two webhooks have the same path.
    #[error("two webhooks are registered at {path}")]
    DuplicatePath {
        /// The path.
        path: String,
    },
}

impl From<HttpsError> for WebhookError {
    fn from(error: HttpsError) -> Self {
        match error {
            HttpsError::Certificate(source) => WebhookError::Certificate(source),
            HttpsError::Listen { address, source } => WebhookError::Listen { address, source },
        }
    }
}

impl WebhookServer {
    /// A server at this address. The certificate is a [`ServingCertificate`], or a
    /// [`CertificateRotator`](crate::certificates::CertificateRotator) that issues it.
    pub fn new(address: SocketAddr, certificate: impl Into<ServingCertificate>, webhooks: Webhooks) -> Self {
        WebhookServer {
            address,
            certificate: certificate.into(),
            webhooks,
            grace: Duration::from_secs(10),
            metrics: None,
            certificate_metrics: None,
            bound: None,
            state: Arc::default(),
        }
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

    /// Exposes its certificate in these metrics. None by default; a manager sets its own.
    #[must_use]
    pub fn certificate_metrics(mut self, metrics: &CertificateMetrics) -> Self {
        self.certificate_metrics = Some(metrics.clone());
        self
    }

    /// Sends the bound address, for use with port 0.
    #[must_use]
    pub fn tell_address(mut self, tell: oneshot::Sender<SocketAddr>) -> Self {
        self.bound = Some(tell);
        self
    }

    /// A readiness check that tells whether it is serving, with a certificate that has not expired.
    #[doc(alias = "StartedChecker")]
    pub fn started_checker(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let state = self.state.clone();
        move || state.check()
    }

    /// A liveness check that fails when its certificate has expired: a restart may find a new one.
    pub fn certificate_checker(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let state = self.state.clone();
        move || state.certificate()
    }

    /// Sets the metrics that it lacks.
    pub(crate) fn default_metrics(mut self, metrics: &WebhookMetrics, certificates: &CertificateMetrics) -> Self {
        self.metrics.get_or_insert_with(|| metrics.clone());
        self.certificate_metrics.get_or_insert_with(|| certificates.clone());
        self
    }

    /// Serves until `stop` is cancelled and pending requests are answered.
    ///
    /// # Errors
    /// If the certificate or the address cannot be used, or two webhooks have the same path. A
    /// certificate that becomes invalid later is not loaded.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), WebhookError> {
        self.bind().await?.serve(stop).await;
        Ok(())
    }

    /// Loads the certificate and binds the address.
    pub(crate) async fn bind(mut self) -> Result<BoundWebhooks, WebhookError> {
        if let Some(path) = self.webhooks.duplicate() {
            return Err(WebhookError::DuplicatePath { path: path.to_owned() });
        }
        let bound = https::bind(self.address, self.certificate, self.state).await?;
        if let Some(tell) = self.bound.take() {
            let _ = tell.send(bound.address().unwrap_or(self.address));
        }
        let answering = Answering { webhooks: self.webhooks, metrics: self.metrics };
        Ok(BoundWebhooks {
            bound,
            answering: Arc::new(answering),
            metrics: self.certificate_metrics,
            grace: self.grace,
        })
    }
}

/// A server with its certificate and its bound address.
pub(crate) struct BoundWebhooks {
    bound: https::BoundServer,
    answering: Arc<Answering>,
    metrics: Option<CertificateMetrics>,
    grace: Duration,
}

impl BoundWebhooks {
    /// Serves until told to stop, then answers pending requests within the grace period.
    pub(crate) async fn serve(self, stop: &CancellationToken) {
        let answering = self.answering;
        let handler: Handler = Arc::new(move |request| {
            let answering = answering.clone();
            Box::pin(async move { answering.answer(request).await })
        });
        self.bound.serve(handler, self.metrics, self.grace, stop).await;
    }
}

/// The webhooks, and how their requests are counted.
pub(crate) struct Answering {
    webhooks: Webhooks,
    metrics: Option<WebhookMetrics>,
}

impl Answering {
    /// Webhooks without a server and without metrics.
    #[cfg(feature = "testing")]
    pub(crate) fn in_process(webhooks: Webhooks) -> Self {
        Answering { webhooks, metrics: None }
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        let path = request.uri().path().to_owned();
        let Some(route) = self.webhooks.route(&path) else {
            return text_of(StatusCode::NOT_FOUND, "no such webhook\n");
        };
        if request.method() != Method::POST {
            return text_of(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
        }
        let began = Instant::now();
        let _in_flight = self.metrics.as_ref().map(|metrics| metrics.began(&path));
        let (answer, code) = answer_review(route, request).await;
        if let Some(metrics) = &self.metrics {
            metrics.answered(&path, code, began.elapsed().as_secs_f64());
        }
        tracing::debug!(path, code, "webhook answered");
        let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Answers a review. A request without one is answered by a review as well, as in
/// controller-runtime: it denies with the code of the problem.
async fn answer_review<B>(route: &Route, request: Request<B>) -> (Value, u16)
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let content = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content.split(';').next().map(str::trim) != Some("application/json") {
        return route.refusal(400, &format!("contentType={content}, expected application/json"));
    }
    match Limited::new(request.into_body(), route.body_max).collect().await {
        Ok(body) => route::review(route, &body.to_bytes()).await,
        Err(error) if error.is::<LengthLimitError>() => {
            route.refusal(413, &format!("request entity is too large; limit is {} bytes", route.body_max))
        }
        Err(error) => route.refusal(400, &format!("the body cannot be read: {error}")),
    }
}

fn text_of(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

impl fmt::Debug for WebhookServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&String> = self.webhooks.paths().collect();
        f.debug_struct("WebhookServer").field("address", &self.address).field("paths", &paths).finish_non_exhaustive()
    }
}
