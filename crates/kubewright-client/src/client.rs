//! The handle that all clients stand on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use kubewright_core::Str;

use crate::config::{Config, ConfigError};
use crate::flowcontrol::{ErrorBackoff, TokenBucket};
use crate::rest::{Impersonation, Negotiation, RequestMetrics, RestClient, Warning, WarningHandler, log_warning};
use crate::task;
use crate::transport::Transport;

/// How often a request is sent again when a server asks for it.
const DEFAULT_RETRIES: u32 = 10;
/// How long an answer may be that is held whole.
const DEFAULT_ANSWER_LIMIT: usize = 1 << 30;

/// A way to one API server. A handle: clones share connections, limits and credentials.
///
/// The setters return a handle that behaves differently over the same connections, so that one program can speak
/// as several users, or give one part of itself a limit:
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
    settings: Arc<Settings>,
}

/// What a handle does its own way.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) default_namespace: Str,
    pub(crate) limiter: Option<Arc<TokenBucket>>,
    pub(crate) backoff: Option<Arc<ErrorBackoff>>,
    pub(crate) warnings: WarningHandler,
    pub(crate) metrics: Option<Arc<dyn RequestMetrics>>,
    pub(crate) retries: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) answer_timeout: Option<Duration>,
    /// What the transport allows a request that says nothing else: the limit of its configuration.
    pub(crate) transport_timeout: Option<Duration>,
    pub(crate) answer_limit: usize,
    pub(crate) impersonation: Option<Arc<Impersonation>>,
    /// The name that the transport gives, and what requests say instead.
    user_agent: Str,
    pub(crate) own_agent: Option<HeaderValue>,
    pub(crate) json_only: bool,
}

impl Client {
    /// The client that kubectl would be here: of the kubeconfig, or else of the pod that this runs in.
    ///
    /// # Errors
    /// If neither is there, or something is wrong with what is; the error names file, entry and field.
    pub async fn try_default() -> Result<Self, ConfigError> {
        task::blocking(|| Client::try_from(Config::infer()?)).await
    }

    /// A client over `transport`, whose default namespace is `default`.
    pub fn over(transport: impl Transport) -> Self {
        Client {
            transport: Arc::new(transport),
            negotiation: Arc::default(),
            settings: Arc::new(Settings {
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
            }),
        }
    }

    /// Uses this namespace for requests that name none. `default` by default.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Str>) -> Self {
        self.set(|settings| settings.default_namespace = namespace.into())
    }

    /// Waits for a token of this bucket before each request. Off by default: servers have had priority and fairness
    /// since 1.20, and a limit of the client's only hides how busy they are. Clones share the bucket.
    #[doc(alias = "QPS")]
    #[doc(alias = "Burst")]
    #[must_use]
    pub fn rate_limit(self, limiter: TokenBucket) -> Self {
        self.set(|settings| settings.limiter = Some(Arc::new(limiter)))
    }

    /// Slows down by itself after errors that the server gives no advice about. Off by default.
    #[doc(alias = "URLBackoff")]
    #[must_use]
    #[inline]
    pub fn back_off_on_errors(self, backoff: ErrorBackoff) -> Self {
        self.set(|settings| settings.backoff = Some(Arc::new(backoff)))
    }

    /// Gives warnings of the server to `handler`. By default they are logged.
    #[doc(alias = "WarningHandler")]
    #[doc(alias = "SetDefaultWarningHandler")]
    #[must_use]
    pub fn on_warning(self, handler: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.warnings = Arc::new(handler))
    }

    /// Tells `metrics` of each request. Nobody by default.
    #[must_use]
    pub fn metrics(self, metrics: impl RequestMetrics) -> Self {
        self.set(|settings| settings.metrics = Some(Arc::new(metrics)))
    }

    /// Whether requests are reported to metrics.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        self.settings().metrics.is_some()
    }

    /// Sends a request again at most so often when the server asks for it. 10 by default.
    #[doc(alias = "MaxRetries")]
    #[must_use]
    #[inline]
    pub fn retries(self, retries: u32) -> Self {
        self.set(|settings| settings.retries = retries)
    }

    /// Gives up on a request after so long, retries included; a watch, a stream or a connection to a pod only if it does not
    /// begin by then. By default the [limit of the configuration](Config::timeout), whose place this takes also where it is
    /// longer: in Go the shorter of both counts.
    #[must_use]
    #[inline]
    pub fn request_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.timeout = Some(timeout))
    }

    /// As [`request_timeout`](Self::request_timeout), unless the client has one already, and never sooner than its
    /// [`answer_timeout`](Self::answer_timeout): for who uses the client of somebody else and must not wait for ever.
    #[must_use]
    #[inline]
    pub fn default_request_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| {
            let least = settings.answer_timeout.unwrap_or_default();
            settings.timeout.get_or_insert(timeout.max(least));
        })
    }

    /// Gives up on an attempt whose answer has not begun after so long. Neither a wait for the rate limit counts nor one that the server
    /// has asked for, nor how long the answer takes then. Never by default.
    #[must_use]
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.answer_timeout = Some(timeout))
    }

    /// As [`answer_timeout`](Self::answer_timeout), unless the client has one already.
    #[must_use]
    pub fn default_answer_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| {
            settings.answer_timeout.get_or_insert(timeout);
        })
    }

    /// Refuses an answer of more bytes than this where it is held whole, counted as they are after decompression: a few of them may
    /// become any number. A gigabyte by default. Lists, watches and streams do not hold theirs whole.
    #[must_use]
    #[inline]
    pub fn answer_limit(self, bytes: usize) -> Self {
        self.set(|settings| settings.answer_limit = bytes)
    }

    /// Asks in the name of somebody else, which the server must allow. As oneself by default.
    #[must_use]
    #[inline]
    pub fn impersonate(self, who: Impersonation) -> Self {
        self.set(|settings| settings.impersonation = Some(Arc::new(who)))
    }

    /// Adds `/part` to the name by which the server knows this client, so that its logs tell the parts of a program apart.
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

    /// Speaks JSON only. By default built-in types are sent and asked for as protobuf, with JSON where the server has
    /// no other.
    #[must_use]
    #[inline]
    pub fn json_only(self) -> Self {
        self.set(|settings| settings.json_only = true)
    }

    /// What carries the requests.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// The namespace of requests that name none: the one of the kubeconfig's context, or of the pod.
    #[inline]
    pub fn default_namespace(&self) -> &str {
        &self.settings.default_namespace
    }

    /// Requests by verb and path.
    #[doc(alias = "RESTClient")]
    pub fn rest(&self) -> RestClient {
        RestClient::new(self.clone())
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn negotiation(&self) -> &Negotiation {
        &self.negotiation
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

impl TryFrom<Config> for Client {
    type Error = ConfigError;

    /// A client of the server that `config` names. Connections are made when they are needed.
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
