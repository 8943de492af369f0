//! The request builder.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kubewright_core::options::Patch;
use kubewright_core::{GroupVersion, GroupVersionResource, NamespaceScope, Object, Str};
use kubewright_net::credentials::Impersonation;

use super::client::Client;
use super::negotiation::ResponseForm;
use super::path::{RequestPath, append_parameter};
use super::warning::{Warning, WarningHandler};

/// A request under construction. The first problem is reported when it would be sent.
#[must_use = "a request does nothing until it is sent"]
pub struct Request<'a> {
    pub(super) client: Client,
    pub(super) method: Method,
    pub(super) path: RequestPath,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload<'a>,
    pub(super) form: ResponseForm,
    /// Whether a protobuf response can be decoded.
    pub(super) protobuf: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) retries: u32,
    pub(super) warnings: Option<WarningHandler>,
    /// Watches are long-lived: only reopening one waits for the rate limiter.
    pub(super) is_watch: bool,
    pub(super) problem: Option<String>,
}

/// The body of a request.
pub(super) enum Payload<'a> {
    None,
    Bytes {
        content_type: Option<&'static str>,
        bytes: Bytes,
    },
    /// Encoded in a format that the server supports.
    Object(&'a dyn Encode),
}

/// A request body: any [`Object`].
pub trait Encode: Sync {
    /// As JSON.
    fn encode_json(&self) -> Vec<u8>;
    /// As protobuf in its envelope, if supported.
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
            path: RequestPath::new(group_version),
            query: String::new(),
            headers: HeaderMap::new(),
            payload: Payload::None,
            form: ResponseForm::Object,
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

    /// Sets an absolute path, independent of the resource.
    #[doc(alias = "AbsPath")]
    #[inline]
    pub fn absolute_path(mut self, path: &str) -> Self {
        let set = self.path.set_absolute(path);
        self.note(set);
        self
    }

    /// Sets the namespace, or [`AllNamespaces`](kubewright_core::AllNamespaces).
    #[doc(alias = "Namespace")]
    pub fn namespace(mut self, namespace: impl Into<NamespaceScope>) -> Self {
        let set = self.path.set_namespace(namespace.into());
        self.note(set);
        self
    }

    /// Sets the resource (plural name).
    #[doc(alias = "Resource")]
    pub fn resource(mut self, resource: impl Into<Str>) -> Self {
        let set = self.path.set_resource(resource.into());
        self.note(set);
        self
    }

    /// Sets the object name.
    #[doc(alias = "Name")]
    pub fn name(mut self, name: impl Into<Str>) -> Self {
        let set = self.path.set_name(name.into());
        self.note(set);
        self
    }

    /// Appends a subresource, such as `status`; repeated calls append further segments.
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

    /// Adds the parameters of options.
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
            Err(_) => self.note(Err(format!("header {name} is not valid text"))),
        }
        self
    }

    /// Sets the body; the header `Content-Type` gives its type.
    #[doc(alias = "Body")]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        self.payload = Payload::Bytes { content_type: None, bytes: bytes.into() };
        self
    }

    /// Sets a JSON body.
    pub fn json(mut self, json: impl Into<Bytes>) -> Self {
        self.payload = Payload::Bytes { content_type: Some("application/json"), bytes: json.into() };
        self
    }

    /// Sets a patch as the body.
    #[inline]
    pub fn patch(mut self, patch: Patch) -> Self {
        let content_type = patch.content_type();
        self.payload = Payload::Bytes { content_type: Some(content_type), bytes: patch.into_body().into() };
        self
    }

    /// Sets an object as the body, in protobuf if both type and server support it, else in JSON.
    #[doc(alias = "Body")]
    #[inline]
    pub fn object<'b>(self, object: &'b dyn Encode) -> Request<'b>
    where
        'a: 'b,
    {
        Request { payload: Payload::Object(object), ..self }
    }

    /// Accepts and prefers a protobuf response. [`Response`](super::Response) decodes either.
    pub fn accept_protobuf(mut self) -> Self {
        self.protobuf = !self.client.settings().json_only;
        self
    }

    /// Timeout including retries, which is also sent to the server. Replaces the client's
    /// [limit](Client::request_timeout), even if it is longer.
    #[doc(alias = "Timeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Maximum number of retries.
    ///
    /// Any request is retried when the server answers 429 or 503 with `Retry-After`, because it was
    /// not executed then. After other failures only reads are retried: the server may have executed
    /// a write, and another client may have written since.
    #[doc(alias = "MaxRetries")]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Impersonates another user for this request.
    #[inline]
    pub fn impersonate(mut self, who: &Impersonation) -> Self {
        let applied = who.replace(&mut self.headers).map_err(|error| error.to_string());
        self.note(applied);
        self
    }

    /// Passes warnings of this response to `handler` instead of the client's.
    #[doc(alias = "WarningHandler")]
    pub fn on_warning(mut self, handler: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.warnings = Some(Arc::new(handler));
        self
    }

    pub(crate) fn form(mut self, form: ResponseForm) -> Self {
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

    pub(super) fn key(&self) -> Option<GroupVersionResource> {
        self.path.key()
    }

    /// Records the first problem.
    pub(super) fn note(&mut self, result: Result<(), String>) {
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
