//! Records requests for the audit log, while the service handles them.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::request::Parts;
use kubewright_audit::{AuditTrail, AuditedRequest, Auditor};
use kubewright_auth::User;
use kubewright_core::json::Writer;
use kubewright_core::protobuf::Envelope;
use kubewright_core::{Decoder, Str, Value};
use kubewright_net::clock;
use kubewright_objects::random;
use kubewright_resources::accept::Format;
use kubewright_resources::{catalog, decoding};

use crate::request::{RequestInfo, RequestSelectors};

/// The header with the ID of a request.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The record of a request so far.
#[derive(Default)]
pub(crate) struct RequestAudit {
    /// `None` if the server records nothing.
    started: Option<(Arc<Auditor>, AuditedRequest)>,
    /// `None` if the policy records nothing of this request.
    trail: Option<AuditTrail>,
}

impl RequestAudit {
    /// Begins with what arrived. `id` is in the response, too.
    pub(crate) fn new(
        auditor: Option<&Arc<Auditor>>,
        id: &HeaderValue,
        parts: &Parts,
        address: Option<IpAddr>,
    ) -> Self {
        let Some(auditor) = auditor else { return RequestAudit::default() };
        let text = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let mut source_ips: Vec<String> = text(FORWARDED_FOR)
            .into_iter()
            .flat_map(|all| all.split(','))
            .chain(text(REAL_IP))
            .filter_map(|ip| ip.trim().parse::<IpAddr>().ok())
            .map(|ip| ip.to_string())
            .collect();
        source_ips.extend(address.map(|ip| ip.to_canonical().to_string()));
        source_ips.dedup();
        let request = AuditedRequest {
            id: id.to_str().map(Str::from).unwrap_or_default(),
            uri: parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            source_ips,
            user_agent: text(USER_AGENT).unwrap_or_default().to_owned(),
            received: clock::now_micros(),
        };
        RequestAudit { started: Some((Arc::clone(auditor), request)), trail: None }
    }

    /// The caller is known.
    pub(crate) fn authenticated(&mut self, user: &User, info: &RequestInfo, selectors: &RequestSelectors) {
        let Some((auditor, request)) = &self.started else { return };
        let version = info.target.as_ref().map_or("", |target| &*target.version);
        self.trail = auditor.begin(request, user, info.action(selectors), version);
    }

    /// The record, if there is one.
    pub(crate) fn trail(&mut self) -> Option<&mut AuditTrail> {
        self.trail.as_mut()
    }

    /// The body of the request.
    pub(crate) fn request_body(&mut self, info: &RequestInfo, headers: &HeaderMap, body: &Bytes) {
        if let Some(trail) = &mut self.trail
            && trail.wants_request()
            && info.target.is_some()
            && let Some(object) = object(headers.get(CONTENT_TYPE), body)
        {
            trail.request_object(object);
        }
    }

    /// The response: its code, and its body if it is whole.
    pub(crate) fn responded(&mut self, code: u16, content_type: Option<&HeaderValue>, body: Option<&Bytes>) {
        let Some(trail) = &mut self.trail else { return };
        let wanted = trail.wants_response() || code >= 400;
        let object = body.filter(|_| wanted).and_then(|body| object(content_type, body));
        trail.status(code, object.as_ref().filter(|_| code >= 400));
        if trail.wants_response()
            && let Some(object) = object
        {
            trail.response_object(object);
        }
    }

    /// The record, which ends with the response.
    pub(crate) fn into_trail(self) -> Option<AuditTrail> {
        self.trail
    }
}

/// The ID of a request: the client's, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let new = || HeaderValue::from_str(&random::uid()).unwrap_or(HeaderValue::from_static(""));
    headers.get(AUDIT_ID).filter(|id| !id.is_empty()).cloned().unwrap_or_else(new)
}

/// The object in a body. `None` if it has none that can be read.
fn object(content_type: Option<&HeaderValue>, body: &[u8]) -> Option<Value> {
    if body.is_empty() {
        return None;
    }
    match decoding::format_of(content_type.and_then(|value| value.to_str().ok())) {
        Ok(Format::Yaml) => Some(kubewright_yaml::parse(std::str::from_utf8(body).ok()?).ok()?.value),
        Ok(Format::Protobuf) => {
            let envelope = Envelope::decode(body).ok()?;
            if envelope.content_type == "application/json" {
                return Value::from_json(envelope.raw).ok();
            }
            let mut message = (catalog::type_entry(&envelope.api_version, &envelope.kind)?.new)();
            Decoder::new().protobuf_message_into(&mut *message, envelope.raw).ok()?;
            let mut json = Vec::new();
            Writer::new(&mut json).as_server().object(&*message);
            Value::from_json(&json).ok()
        }
        // Patches have types of their own, and are JSON or YAML.
        Ok(Format::Json) | Err(_) => Value::from_json(body)
            .ok()
            .or_else(|| Some(kubewright_yaml::parse(std::str::from_utf8(body).ok()?).ok()?.value)),
    }
}
