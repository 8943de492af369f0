//! The client handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use kubewright_core::Str;

use super::metrics::RequestMetrics;
use super::negotiation::Negotiation;
use super::warning::{Warning, WarningHandler, log_warning};
use crate::flowcontrol::{ErrorBackoff, TokenBucket};
use kubewright_net::config::{Config, ConfigError};
use kubewright_net::credentials::Impersonation;
use kubewright_net::task;
use kubewright_net::transport::Transport;

/// Default number of retries when the server asks for one.
const DEFAULT_RETRIES: u32 = 10;
/// Default size limit of a buffered response.
const DEFAULT_ANSWER_LIMIT: usize = 1 << 30;

/// A client of one API server. A handle: clones share connections, limits and credentials.
///
/// The setters return a handle with different settings over the same connections, for example for
/// several users or with a rate limit for one part of a program:
///
/// ```
/// # use kubewright_client::{Client, rest::Impersonation, flowcontrol::TokenBucket};
/// # fn example(client: Client) {
/// let careful = client.clone().rate_limit(TokenBucket::new(5.0, 10));
/// let jane = client.impersonate(Impersonation::user("jane").group("developers"));
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "Clientset")]
#[doc(alias = "RESTClient")]
pub struct Client {
    transport: Arc<dyn Transport>,
    negotiation: Arc<Negotiation>,
    settings: Arc<ClientSettings>,
}

/// Settings of a handle.
#[derive(Clone)]
pub(crate) struct ClientSettings {
    pub(crate) default_namespace: Str,
    pub(crate) limiter: Option<Arc<TokenBucket>>,
    pub(crate) backoff: Option<Arc<ErrorBackoff>>,
    pub(crate) warnings: WarningHandler,
    pub(crate) metrics: Option<Arc<dyn RequestMetrics>>,
    pub(crate) retries: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) answer_timeout: Option<Duration>,
    /// The timeout of the transport's configuration, which applies to requests without their own.
    pub(crate) transport_timeout: Option<Duration>,
    pub(crate) answer_limit: usize,
    pub(crate) impersonation: Option<Arc<Impersonation>>,
    /// The user agent of the transport, and an override for requests.
    user_agent: Str,
    pub(crate) own_agent: Option<HeaderValue>,
    pub(crate) json_only: bool,
    pub(crate) json_objects: bool,
}

impl Client {
    /// A client with kubectl's configuration: from the kubeconfig, or from the pod that this
    /// process runs in.
    ///
    /// # Errors
    /// If neither exists, or it is invalid; the error names file, entry and field.
    pub async fn try_default() -> Result<Self, ConfigError> {
        task::blocking(|| Client::try_from(Config::infer()?)).await
    }

    /// A client over `transport`, whose default namespace is `default`.
    pub fn over(transport: impl Transport) -> Self {
        Client {
            transport: Arc::new(transport),
            negotiation: Arc::default(),
            settings: Arc::new(ClientSettings {
                default_namespace: Str::from_static("default"),
                limiter: None,
                backoff: None,
                warnings: Arc::new(log_warning),
                metrics: None,
                retries: DEFAULT_RETRIES,
                timeout: None,
                answer_timeout: None,
                transport_timeout: None,
                answer_limit: DEFAULT_ANSWER_LIMIT,
                impersonation: None,
                user_agent: Str::new(),
                own_agent: None,
                json_only: false,
                json_objects: false,
            }),
        }
    }

    /// The namespace of requests without one. `default` by default.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Str>) -> Self {
        self.set(|settings| settings.default_namespace = namespace.into())
    }

    /// Waits for a token of this bucket before each request. Off by default: servers have had
    /// priority and fairness since 1.20, and a client-side limit only hides their load. Clones
    /// share the bucket.
    #[doc(alias = "QPS")]
    #[doc(alias = "Burst")]
    #[must_use]
    pub fn rate_limit(self, limiter: TokenBucket) -> Self {
        self.set(|settings| settings.limiter = Some(Arc::new(limiter)))
    }

    /// Backs off after errors without a Retry-After. Off by default.
    #[doc(alias = "URLBackoff")]
    #[must_use]
    #[inline]
    pub fn back_off_on_errors(self, backoff: ErrorBackoff) -> Self {
        self.set(|settings| settings.backoff = Some(Arc::new(backoff)))
    }

    /// Passes the server's warnings to `handler`. By default they are logged.
    #[doc(alias = "WarningHandler")]
    #[doc(alias = "SetDefaultWarningHandler")]
    #[must_use]
    pub fn on_warning(self, handler: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.warnings = Arc::new(handler))
    }

    /// Reports each request to `metrics`. None by default.
    #[must_use]
    pub fn metrics(self, metrics: impl RequestMetrics) -> Self {
        self.set(|settings| settings.metrics = Some(Arc::new(metrics)))
    }

    /// Whether requests are reported to metrics.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        self.settings().metrics.is_some()
    }

    /// Maximum number of retries when the server asks for one. 10 by default.
    #[doc(alias = "MaxRetries")]
    #[must_use]
    #[inline]
    pub fn retries(self, retries: u32) -> Self {
        self.set(|settings| settings.retries = retries)
    }

    /// Timeout of a request including retries; for a watch, a stream or a pod connection, until it
    /// begins. By default the [timeout of the configuration](Config::timeout), which this replaces
    /// even if it is longer; in client-go the shorter of both applies.
    #[must_use]
    #[inline]
    pub fn request_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.timeout = Some(timeout))
    }

    /// As [`request_timeout`](Self::request_timeout), unless the client has one, and at least its
    /// [`answer_timeout`](Self::answer_timeout). For libraries that use a caller's client and must
    /// not wait forever.
    #[must_use]
    #[inline]
    pub fn default_request_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| {
            let least = settings.answer_timeout.unwrap_or_default();
            settings.timeout.get_or_insert(timeout.max(least));
        })
    }

    /// Timeout of an attempt until its response begins. Waits for a rate limiter or a Retry-After
    /// do not count, nor does the time to transfer the response. None by default.
    #[must_use]
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.answer_timeout = Some(timeout))
    }

    /// Like [`answer_timeout`](Self::answer_timeout), unless the client has one.
    #[must_use]
    pub fn default_answer_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| {
            settings.answer_timeout.get_or_insert(timeout);
        })
    }

    /// Size limit of buffered responses, after decompression. One gigabyte by default. Lists,
    /// watches and streams are not buffered.
    #[must_use]
    #[inline]
    pub fn answer_limit(self, bytes: usize) -> Self {
        self.set(|settings| settings.answer_limit = bytes)
    }

    /// Impersonates another user, which the server must permit. Off by default.
    #[must_use]
    #[inline]
    pub fn impersonate(self, who: Impersonation) -> Self {
        self.set(|settings| settings.impersonation = Some(Arc::new(who)))
    }

    /// Appends `/part` to the user agent, so that the server's logs distinguish parts of a program.
    #[doc(alias = "AddUserAgent")]
    #[must_use]
    #[inline]
    pub fn add_user_agent(self, part: &str) -> Self {
        let visible = |c: char| if c.is_ascii_graphic() { c } else { '_' };
        let part: String = part.chars().map(visible).collect();
        self.set(|settings| {
            settings.user_agent = format!("{}/{part}", settings.user_agent).trim_start_matches('/').into();
            settings.own_agent = HeaderValue::from_str(&settings.user_agent).ok();
        })
    }

    /// Uses JSON only. By default built-in types are sent and requested as protobuf, with JSON as a
    /// fallback.
    #[must_use]
    #[inline]
    pub fn json_only(self) -> Self {
        self.set(|settings| settings.json_only = true)
    }

    /// Exchanges single objects as JSON, so that a recording is readable. Lists and watches of
    /// built-in types stay protobuf.
    #[must_use]
    #[inline]
    pub fn json_objects(self) -> Self {
        self.set(|settings| settings.json_objects = true)
    }

    /// Sends all requests through another transport, which may wrap that of this client.
    #[must_use]
    pub fn layered(mut self, layer: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>) -> Self {
        self.transport = layer(self.transport);
        self
    }

    /// The transport.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Whether both clients send through one transport, because they are clones of one client.
    /// Their settings may differ. Clients of different clusters never share a transport.
    pub fn shares_transport(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.transport, &other.transport)
    }

    /// Whether both clients send through one transport and impersonate the same user, so that the
    /// server gives both the same answers.
    pub fn has_same_identity(&self, other: &Client) -> bool {
        self.shares_transport(other) && self.settings.impersonation == other.settings.impersonation
    }

    /// The user that requests impersonate, if any.
    pub fn impersonated(&self) -> Option<&Impersonation> {
        self.settings.impersonation.as_deref()
    }

    /// The namespace of requests without one: that of the kubeconfig's context, or of the pod.
    #[inline]
    pub fn default_namespace(&self) -> &str {
        &self.settings.default_namespace
    }

    pub(crate) fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    pub(crate) fn negotiation(&self) -> &Negotiation {
        &self.negotiation
    }

    fn set(mut self, change: impl FnOnce(&mut ClientSettings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl TryFrom<Config> for Client {
    type Error = ConfigError;

    /// A client of the server in `config`. Connections are opened on demand.
    fn try_from(config: Config) -> Result<Self, ConfigError> {
        let mut client = Client::over(config.connect()?).namespace(config.default_namespace.as_str());
        client = client.set(|settings| settings.user_agent = config.user_agent.as_str().into());
        if let Some(qps) = config.qps.filter(|qps| *qps > 0.0) {
            client = client.rate_limit(TokenBucket::new(qps, config.burst));
        }
        Ok(client.set(|settings| (settings.timeout, settings.transport_timeout) = (config.timeout, config.timeout)))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("default_namespace", &self.settings.default_namespace).finish_non_exhaustive()
    }
}
