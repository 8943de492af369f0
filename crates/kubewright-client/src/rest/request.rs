//! A request as it is built.

use std::fmt::Display;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kubewright_core::options::Patch;
use kubewright_core::{GroupVersion, GroupVersionResource, Object, Str};
use tokio::time::Instant;

use super::attempt::Attempts;
use super::negotiation::Form;
use super::path::{Path, append_parameter};
use super::{Impersonation, Response, Streaming, Warning, WarningHandler};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::transport::{TransportError, TransportErrorKind};

/// A request that is being built. The first thing that is wrong with it is reported when it would be sent.
#[must_use = "a request does nothing until it is sent"]
pub struct Request<'a> {
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) path: Path,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload<'a>,
    pub(super) form: Form,
    /// Whether an answer in protobuf can be understood.
    pub(super) protobuf: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) warnings: Option<WarningHandler>,
    /// A watch lasts long and is opened seldom: it waits for the rate limit only when it is opened again.
    pub(super) is_watch: bool,
    problem: Option<String>,
}

/// The body of a request.
pub(super) enum Payload<'a> {
    None,
    Bytes {
        content_type: Option<&'static str>,
        bytes: Bytes,
    },
    /// Written in whichever encoding the server understands.
    Object(&'a dyn Encode),
}

/// Something that can be the body of a request: any [`Object`].
pub trait Encode: Sync {
    /// As JSON.
    fn encode_json(&self) -> Vec<u8>;
    /// As protobuf in its envelope, if it has that form.
    fn encode_protobuf(&self) -> Option<Vec<u8>>;
}

impl<T: Object> Encode for T {
    fn encode_json(&self) -> Vec<u8> {
        self.to_json()
    }

    fn encode_protobuf(&self) -> Option<Vec<u8>> {
        self.to_protobuf()
    }
}

impl<'a> Request<'a> {
    pub(super) fn new(client: Client, method: Method, group_version: GroupVersion) -> Self {
        let settings = client.settings();
        let (timeout, retries) = (settings.timeout, settings.retries);
        let mut request = Request {
            method,
            path: Path::new(group_version),
            query: String::new(),
            headers: HeaderMap::new(),
            payload: Payload::None,
            form: Form::Object,
            protobuf: false,
            timeout,
            retries,
            warnings: None,
            is_watch: false,
            problem: None,
            client: client.clone(),
        };
        if let Some(agent) = &settings.own_agent {
            request.headers.insert(http::header::USER_AGENT, agent.clone());
        }
        if let Some(who) = &settings.impersonation {
            let applied = who.replace(&mut request.headers).map_err(|error| error.to_string());
            request.note(applied);
        }
        request
    }

    /// Goes to this path, whatever the resource.
    #[doc(alias = "AbsPath")]
    #[inline]
    pub fn absolute_path(mut self, path: &str) -> Self {
        let set = self.path.set_absolute(path);
        self.note(set);
        self
    }

    /// In this namespace; the empty one stands for all.
    #[doc(alias = "Namespace")]
    pub fn namespace(mut self, namespace: impl Into<Str>) -> Self {
        let set = self.path.set_namespace(namespace.into());
        self.note(set);
        self
    }

    /// The resource, plural.
    #[doc(alias = "Resource")]
    pub fn resource(mut self, resource: impl Into<Str>) -> Self {
        let set = self.path.set_resource(resource.into());
        self.note(set);
        self
    }

    /// The object.
    #[doc(alias = "Name")]
    pub fn name(mut self, name: impl Into<Str>) -> Self {
        let set = self.path.set_name(name.into());
        self.note(set);
        self
    }

    /// A part of the object, such as `status`; called again, a part of that.
    #[doc(alias = "SubResource")]
    #[doc(alias = "Suffix")]
    pub fn subresource(mut self, subresource: impl Into<Str>) -> Self {
        let set = self.path.push_subresource(subresource.into());
        self.note(set);
        self
    }

    /// Adds a parameter.
    #[doc(alias = "Param")]
    pub fn parameter(mut self, name: &str, value: impl Display) -> Self {
        append_parameter(&mut self.query, name, &value.to_string());
        self
    }

    /// Adds parameters that options write themselves.
    ///
    /// ```
    /// # use kubewright_client::rest::Request;
    /// # use kubewright_core::options::ListOptions;
    /// # fn example(request: Request<'_>) -> Request<'_> {
    /// let options = ListOptions::default().limit(500);
    /// request.options(|query| options.append_query(query))
    /// # }
    /// ```
    #[doc(alias = "VersionedParams")]
    pub fn options(mut self, append: impl FnOnce(&mut String)) -> Self {
        append(&mut self.query);
        self
    }

    /// Sets a header.
    #[doc(alias = "SetHeader")]
    #[inline]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        match HeaderValue::from_str(value) {
            Ok(value) => drop(self.headers.insert(name, value)),
            Err(_) => self.note(Err(format!("the value of the header {name} is no text"))),
        }
        self
    }

    /// Sends these bytes, of a type that the header `Content-Type` tells.
    #[doc(alias = "Body")]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.payload = Payload::Bytes { content_type: None, bytes: bytes.into() };
        self
    }

    /// Sends JSON text.
    pub fn json(mut self, json: impl Into<Bytes>) -> Self {
        self.payload = Payload::Bytes { content_type: Some("application/json"), bytes: json.into() };
        self
    }

    /// Sends a patch.
    #[inline]
    pub fn patch(mut self, patch: Patch) -> Self {
        let content_type = patch.content_type();
        self.payload = Payload::Bytes { content_type: Some(content_type), bytes: patch.into_body().into() };
        self
    }

    /// Sends an object, in protobuf where type and server have it and else in JSON.
    #[doc(alias = "Body")]
    #[inline]
    pub fn object<'b>(self, object: &'b dyn Encode) -> Request<'b>
    where
        'a: 'b,
    {
        Request { payload: Payload::Object(object), ..self }
    }

    /// Accepts an answer in protobuf as well, and prefers it. [`Response`] decodes either.
    pub fn accept_protobuf(mut self) -> Self {
        self.protobuf = !self.client.settings().json_only;
        self
    }

    /// Gives up after so long, retries included, and tells the server so. In place of the client's
    /// [limit](Client::request_timeout), whichever is longer.
    #[doc(alias = "Timeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request again at most so often.
    ///
    /// Every request is repeated when the server answers 429 or 503 with `Retry-After`, because it
    /// has not executed it then. After other failures only a read is repeated: the server may have
    /// executed a write, and somebody else may have written since.
    #[doc(alias = "MaxRetries")]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Asks in the name of somebody else, this once.
    #[inline]
    pub fn impersonate(mut self, who: &Impersonation) -> Self {
        let applied = who.replace(&mut self.headers).map_err(|error| error.to_string());
        self.note(applied);
        self
    }

    /// Gives warnings of this answer to `handler`, in place of the client's.
    #[doc(alias = "WarningHandler")]
    pub fn on_warning(mut self, handler: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.warnings = Some(Arc::new(handler));
        self
    }

    pub(crate) fn form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    pub(crate) fn watch(mut self) -> Self {
        self.is_watch = true;
        self
    }

    #[inline]
    pub(crate) fn refuse(mut self, problem: Option<String>) -> Self {
        self.note(problem.map_or(Ok(()), Err));
        self
    }

    /// Sends the request and waits for the whole answer.
    ///
    /// # Errors
    /// When the request is invalid, the server is not reached, it answers with a failure, or with more than the
    /// [limit](Client::answer_limit).
    #[doc(alias = "Do")]
    #[doc(alias = "DoRaw")]
    pub async fn send(self) -> Result<Response> {
        let (timeout, resource, limit) = (self.timeout, self.path.key(), self.client.settings().answer_limit);
        let attempts = self.prepare(true)?;
        attempts.throttle().await;
        let collected = pin!(async {
            let answer = attempts.run().await?;
            Response::collect(answer, resource, limit).await
        });
        within(timeout, collected).await
    }

    /// Sends the request and returns when the answer begins. The time-out of the request ends there.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "Stream")]
    pub async fn stream(self) -> Result<Streaming> {
        let timeout = self.timeout;
        let attempts = self.prepare(false)?;
        attempts.throttle().await;
        within(timeout, pin!(async { Ok(Streaming::new(attempts.run().await?)) })).await
    }

    /// As [`stream`](Self::stream), for an answer that will be read to its end: also until when.
    pub(crate) async fn stream_whole(self) -> Result<(Streaming, Option<Instant>)> {
        let timeout = self.timeout;
        let attempts = self.prepare(true)?;
        attempts.throttle().await;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let answer = within(timeout, pin!(async { Ok(Streaming::new(attempts.run().await?)) })).await?;
        Ok((answer, deadline))
    }

    /// The request as HTTP, for who sends it by other means than [`send`](Self::send), without limits and retries.
    ///
    /// # Errors
    /// When the request is invalid.
    #[inline]
    pub fn into_http(self) -> Result<http::Request<Bytes>> {
        let json_only = self.client.settings().json_only;
        Ok(self.prepare(false)?.build(json_only).0)
    }

    fn prepare(mut self, tell_timeout: bool) -> Result<Attempts<'a>> {
        let checked = self.path.check(&self.method);
        self.note(checked);
        if let Some(problem) = self.problem.take() {
            return Err(Error::InvalidRequest(problem));
        }
        // No server reads more nanoseconds than these.
        let is_told = |timeout: &Duration| tell_timeout && i64::try_from(timeout.as_nanos()).is_ok();
        if let Some(timeout) = self.timeout.filter(is_told) {
            append_parameter(&mut self.query, "timeout", &format!("{}ms", timeout.as_millis()));
        }
        Attempts::new(self)
    }

    pub(super) fn key(&self) -> Option<GroupVersionResource> {
        self.path.key()
    }

    /// Keeps the first problem.
    fn note(&mut self, result: Result<(), String>) {
        if let Err(problem) = result {
            self.problem.get_or_insert(problem);
        }
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path.write())
    }
}

/// The result of `work`, unless it takes longer than allowed.
async fn within<T>(timeout: Option<Duration>, work: Pin<&mut (dyn Future<Output = Result<T>> + Send)>) -> Result<T> {
    let Some(timeout) = timeout else { return work.await };
    tokio::time::timeout(timeout, work)
        .await
        .unwrap_or_else(|elapsed| Err(TransportError::new(TransportErrorKind::Timeout, elapsed).into()))
}
