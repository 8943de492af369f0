//! The events of one request.

use std::sync::Arc;

use kubewright_auth::User;
use kubewright_auth::authorization::{Action, ResourceAction};
use kubewright_core::{MicroTime, Str, Value};
use kubewright_net::clock;
use kubewright_objects::object::{Meta, tree};

use crate::Auditor;
use crate::policy::{AuditDecision, AuditLevel, Stage};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct AuditedRequest {
    /// The ID of the request, which the response has in its header `Audit-Id`.
    pub id: Str,
    /// Path and query.
    pub uri: String,
    /// The addresses of client and proxies.
    pub source_ips: Vec<String>,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// When it arrived.
    pub received: MicroTime,
}

/// Records one request. Each stage is written as soon as it is reached.
#[derive(Debug)]
pub struct AuditTrail {
    auditor: Arc<Auditor>,
    decision: AuditDecision,
    event: Value,
}

impl Auditor {
    /// Begins to record a request of this user. `None` if the policy records nothing of it.
    /// `version` is the API version of a resource.
    pub fn begin(
        self: &Arc<Self>,
        request: &AuditedRequest,
        user: &User,
        action: Action<'_>,
        version: &str,
    ) -> Option<AuditTrail> {
        let decision = self.policy.decide(user, action);
        if decision.level == AuditLevel::None {
            return None;
        }
        let mut event = tree::map([
            ("kind", "Event".into()),
            ("apiVersion", "audit.k8s.io/v1".into()),
            ("level", decision.level.name().into()),
            ("auditID", request.id.clone().into()),
            ("stage", "".into()),
            ("requestURI", request.uri.as_str().into()),
            ("verb", action.verb().into()),
            ("user", user.info()),
        ]);
        if !request.source_ips.is_empty() {
            tree::set(&mut event, &["sourceIPs"], tree::list(request.source_ips.iter().map(String::as_str)));
        }
        if !request.user_agent.is_empty() {
            tree::set(&mut event, &["userAgent"], request.user_agent.as_str());
        }
        if let Action::Resource(ResourceAction { group, resource, subresource, namespace, name, .. }) = action {
            for (field, value) in [
                ("resource", resource),
                ("namespace", namespace),
                ("name", name),
                ("apiGroup", group),
                ("apiVersion", version),
                ("subresource", subresource),
            ] {
                if !value.is_empty() {
                    tree::set(&mut event, &["objectRef", field], value);
                }
            }
        }
        tree::set(&mut event, &["requestReceivedTimestamp"], request.received.to_string());
        let mut trail = AuditTrail { auditor: Arc::clone(self), decision, event };
        trail.write(Stage::RequestReceived);
        Some(trail)
    }
}

impl AuditTrail {
    /// The user that the caller impersonates.
    pub fn impersonated(&mut self, user: &User) {
        tree::set(&mut self.event, &["impersonatedUser"], user.info());
    }

    /// The decision of authorization and its reason.
    pub fn authorized(&mut self, is_allowed: bool, reason: &str) {
        let decision = if is_allowed { "allow" } else { "forbid" };
        tree::set(&mut self.event, &["annotations", "authorization.k8s.io/decision"], decision);
        tree::set(&mut self.event, &["annotations", "authorization.k8s.io/reason"], reason);
    }

    /// Whether the object of the request is recorded.
    pub fn wants_request(&self) -> bool {
        self.decision.level >= AuditLevel::Request
    }

    /// Whether the object of the response is recorded.
    pub fn wants_response(&self) -> bool {
        self.decision.level >= AuditLevel::RequestResponse
    }

    /// The object of the request.
    pub fn request_object(&mut self, object: Value) {
        self.set_object("requestObject", object);
    }

    /// The object of the response.
    pub fn response_object(&mut self, object: Value) {
        self.set_object("responseObject", object);
    }

    fn set_object(&mut self, field: &str, mut object: Value) {
        if self.decision.omit_managed_fields {
            object.remove_meta("managedFields");
        }
        tree::set(&mut self.event, &[field], object);
    }

    /// The status of the response: its code, and the fields of a failure.
    pub fn status(&mut self, code: u16, failure: Option<&Value>) {
        let mut status = tree::map([("metadata", tree::map([]))]);
        for field in ["status", "message", "reason", "details"] {
            if let Some(value) = failure.and_then(|failure| failure.get(field)) {
                tree::set(&mut status, &[field], value.clone());
            }
        }
        tree::set(&mut status, &["code"], i64::from(code));
        tree::set(&mut self.event, &["responseStatus"], status);
    }

    /// The head of a long response has been sent.
    pub fn response_started(&mut self) {
        self.write(Stage::ResponseStarted);
    }

    fn write(&mut self, stage: Stage) {
        if self.decision.records(stage) {
            tree::set(&mut self.event, &["stage"], stage.name());
            tree::set(&mut self.event, &["stageTimestamp"], clock::now_micros().to_string());
            self.auditor.write(&self.event);
        }
    }
}

/// The response is complete when nothing holds the trail any more.
impl Drop for AuditTrail {
    fn drop(&mut self) {
        self.write(Stage::ResponseComplete);
    }
}
