//! The authorization mode `Webhook`: another server decides about SubjectAccessReviews.
//!
//! Decisions are remembered, as in kube-apiserver. A decision that is not known yet ends the
//! attempt with [`Rejection::NeedsAuthorization`], and the attempt runs again with the answer.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_core::selector::{Operator, Requirement};
use kubewright_core::{Selector, Value};
use kubewright_net::config::ConfigError;
use kubewright_objects::generic_webhook::GenericWebhook;
use kubewright_objects::object::{to_json, tree};
use kubewright_objects::rejection::{PendingAuthorization, Rejection};
use tokio::time::Instant;

use super::action::{Action, ResourceAction};
use super::opinion::Opinion;
use crate::User;

/// Delay before the second attempt of a call, as in kube-apiserver.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
/// Maximum number of remembered decisions.
const DECISIONS_MAX: usize = 8192;
/// The attempt that asked has to find its answer, whatever the options say.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// Options of an [`AuthorizationWebhook`]. The defaults are those of kube-apiserver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthorizationWebhookOptions {
    /// The kubeconfig with the URL of the server, its authority, and the credentials for it.
    pub kubeconfig: PathBuf,
    /// The version of `authorization.k8s.io` in reviews: `v1beta1` by default, or `v1`.
    pub version: String,
    /// How long an allowed action stays allowed: five minutes by default. At least one second.
    pub authorized_ttl: Duration,
    /// How long another decision is remembered: 30 seconds by default. At least one second.
    pub unauthorized_ttl: Duration,
}

impl AuthorizationWebhookOptions {
    /// The default options, for the server of this kubeconfig.
    pub fn new(kubeconfig: impl Into<PathBuf>) -> Self {
        AuthorizationWebhookOptions {
            kubeconfig: kubeconfig.into(),
            version: "v1beta1".to_owned(),
            authorized_ttl: Duration::from_secs(5 * 60),
            unauthorized_ttl: Duration::from_secs(30),
        }
    }
}

/// A server that decides about actions. Clones share connections and remembered decisions.
#[derive(Clone)]
pub struct AuthorizationWebhook {
    shared: Arc<SharedWebhook>,
}

struct SharedWebhook {
    server: GenericWebhook,
    options: AuthorizationWebhookOptions,
    decisions: Mutex<Decisions>,
}

impl AuthorizationWebhook {
    /// Reads the kubeconfig. The server is not called yet.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read or used, or the version is unknown.
    pub fn new(options: AuthorizationWebhookOptions) -> Result<Self, ConfigError> {
        if !matches!(&*options.version, "v1" | "v1beta1") {
            let why =
                format!("unsupported authorization webhook version {:?}; there are v1 and v1beta1", options.version);
            return Err(ConfigError::Invalid(why));
        }
        let server = GenericWebhook::from_kubeconfig(&options.kubeconfig, INITIAL_BACKOFF)?;
        let shared = SharedWebhook { server, options, decisions: Mutex::default() };
        Ok(AuthorizationWebhook { shared: Arc::new(shared) })
    }

    /// The remembered decision, or the call that has to be made first.
    pub(super) fn decide(&self, user: &User, action: Action<'_>) -> Result<Opinion, Rejection> {
        let spec = review_spec(user, action);
        let key = to_json(&spec);
        if let Some(opinion) = self.shared.decisions().get(&key) {
            return Ok(opinion);
        }
        let shared = Arc::clone(&self.shared);
        let call = async move {
            let opinion = shared.ask(&spec).await;
            shared.remember(key, opinion);
        };
        Err(Rejection::NeedsAuthorization(PendingAuthorization::new(call)))
    }
}

impl fmt::Debug for AuthorizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationWebhook").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl SharedWebhook {
    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: Vec<u8>, opinion: Opinion) {
        let ttl = match opinion {
            Opinion::Allow(_) => self.options.authorized_ttl,
            _ => self.options.unauthorized_ttl,
        };
        self.decisions().insert(key, opinion, ttl.max(SHORTEST_TTL));
    }

    /// Sends a review. As with the flags of kube-apiserver, a server that fails has no opinion.
    async fn ask(&self, spec: &Value) -> Opinion {
        let review = tree::map([
            ("kind", "SubjectAccessReview".into()),
            ("apiVersion", format!("authorization.k8s.io/{}", self.options.version).into()),
            ("metadata", tree::map([])),
            ("spec", spec.clone()),
            ("status", tree::map([("allowed", false.into())])),
        ]);
        match self.server.post(to_json(&review).into()).await {
            Ok(answer) => match Value::from_json(&answer) {
                Ok(review) => opinion_of(&review),
                Err(error) => failed(&format!("the answer is not JSON: {error}")),
            },
            Err(why) => failed(&why),
        }
    }
}

fn failed(why: &str) -> Opinion {
    tracing::warn!(why, "the authorization webhook failed and has no opinion");
    Opinion::None(String::new())
}

/// The opinion in the status of a review.
fn opinion_of(review: &Value) -> Opinion {
    let is_set = |field: &str| tree::get(review, &["status", field]) == Some(&Value::Bool(true));
    let reason = tree::text(review, &["status", "reason"]).to_owned();
    match (is_set("allowed"), is_set("denied")) {
        (true, true) => failed("the answer both allows and denies"),
        (true, false) => Opinion::Allow(reason),
        (false, true) => Opinion::Deny(reason),
        (false, false) => Opinion::None(reason),
    }
}

/// The specification of the review of an action.
fn review_spec(user: &User, action: Action<'_>) -> Value {
    let attributes = match action {
        Action::Path { verb, path } => {
            ("nonResourceAttributes", tree::map([("path", path.into()), ("verb", verb.into())]))
        }
        Action::Resource(action) => ("resourceAttributes", resource_attributes(action)),
    };
    let mut spec = tree::map([attributes, ("user", user.name.clone().into())]);
    if !user.groups.is_empty() {
        tree::set(&mut spec, &["groups"], tree::list(user.groups.iter().map(|group| group.as_str())));
    }
    if !user.uid.is_empty() {
        tree::set(&mut spec, &["uid"], user.uid.clone());
    }
    if let Some(extra) = user.extra() {
        tree::set(&mut spec, &["extra"], extra);
    }
    spec
}

fn resource_attributes(action: ResourceAction<'_>) -> Value {
    let mut attributes = tree::map([]);
    for (field, text) in [
        ("namespace", action.namespace),
        ("verb", action.verb),
        ("group", action.group),
        ("version", action.version),
        ("resource", action.resource),
        ("subresource", action.subresource),
        ("name", action.name),
    ] {
        if !text.is_empty() {
            tree::set(&mut attributes, &[field], text);
        }
    }
    if let Some(selector) = action.field_selector.filter(|selector| !selector.is_everything()) {
        let requirements = selector.requirements().iter().map(|requirement| {
            let operator = if requirement.negated { "NotIn" } else { "In" };
            tree::map([
                ("key", requirement.field.clone().into()),
                ("operator", operator.into()),
                ("values", tree::list([requirement.value.as_str()])),
            ])
        });
        tree::set(&mut attributes, &["fieldSelector", "requirements"], Value::Array(requirements.collect()));
    }
    let labels = action.label_selector.and_then(Selector::requirements).unwrap_or_default();
    if !labels.is_empty() {
        let requirements = labels.iter().filter_map(label_requirement);
        tree::set(&mut attributes, &["labelSelector", "requirements"], Value::Array(requirements.collect()));
    }
    attributes
}

/// `None` for an operator that reviews do not have.
fn label_requirement(requirement: &Requirement) -> Option<Value> {
    let operator = match requirement.operator() {
        Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
        Operator::NotEquals | Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        _ => return None,
    };
    let mut value = tree::map([("key", requirement.key().clone().into()), ("operator", operator.into())]);
    if !requirement.values().is_empty() {
        tree::set(&mut value, &["values"], tree::list(requirement.values().iter().map(|value| value.as_str())));
    }
    Some(value)
}

/// Remembered decisions, by the JSON text of the specification of their review.
#[derive(Default)]
struct Decisions(HashMap<Vec<u8>, (Opinion, Instant)>);

impl Decisions {
    fn get(&self, key: &[u8]) -> Option<Opinion> {
        let (opinion, expires) = self.0.get(key)?;
        (*expires > Instant::now()).then(|| opinion.clone())
    }

    fn insert(&mut self, key: Vec<u8>, opinion: Opinion, ttl: Duration) {
        let now = Instant::now();
        if self.0.len() >= DECISIONS_MAX {
            self.0.retain(|_, (_, expires)| *expires > now);
        }
        // Full of fresh ones: callers ask again for what they still need.
        if self.0.len() >= DECISIONS_MAX {
            self.0.clear();
        }
        self.0.insert(key, (opinion, now + ttl));
    }
}

#[cfg(test)]
mod tests {
    use kubewright_core::FieldSelector;

    use super::*;

    #[test]
    fn a_review_says_who_wants_what() {
        let user = User::authenticated("jane", "7", vec!["devs".into()]).with_extra("scopes", "a");
        let field: FieldSelector = "spec.nodeName=n1,metadata.name!=x".parse().expect("a selector");
        let label: Selector = "app in (a,b),!old".parse().expect("a selector");
        let action = ResourceAction {
            verb: "list",
            version: "v1",
            resource: "pods",
            namespace: "default",
            field_selector: Some(&field),
            label_selector: Some(&label),
            ..ResourceAction::default()
        };
        let want = r#"{"extra":{"scopes":["a"]},"groups":["devs","system:authenticated"],"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"NotIn","values":["x"]},{"key":"spec.nodeName","operator":"In","values":["n1"]}]},"labelSelector":{"requirements":[{"key":"app","operator":"In","values":["a","b"]},{"key":"old","operator":"DoesNotExist"}]},"namespace":"default","resource":"pods","verb":"list","version":"v1"},"uid":"7","user":"jane"}"#;
        assert_eq!(String::from_utf8_lossy(&to_json(&review_spec(&user, action.into()))), want);
        let path = review_spec(&User::anonymous(), Action::Path { verb: "get", path: "/healthz" });
        let want = r#"{"groups":["system:unauthenticated"],"nonResourceAttributes":{"path":"/healthz","verb":"get"},"user":"system:anonymous"}"#;
        assert_eq!(String::from_utf8_lossy(&to_json(&path)), want);
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_expire_and_are_bounded() {
        let mut decisions = Decisions::default();
        decisions.insert(b"a".to_vec(), Opinion::Allow("why".to_owned()), Duration::from_secs(5));
        assert_eq!(decisions.get(b"a"), Some(Opinion::Allow("why".to_owned())));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(decisions.get(b"a"), None);
        for key in 0..3 * DECISIONS_MAX {
            decisions.insert(key.to_be_bytes().to_vec(), Opinion::None(String::new()), Duration::from_secs(5));
            assert!(decisions.0.len() <= DECISIONS_MAX);
        }
    }

    #[test]
    fn an_answer_is_an_opinion() {
        let opinion = |status: &str| {
            let review = format!(r#"{{"status":{status}}}"#);
            opinion_of(&Value::from_json(review.as_bytes()).expect("JSON"))
        };
        assert_eq!(opinion(r#"{"allowed":true,"reason":"r"}"#), Opinion::Allow("r".to_owned()));
        assert_eq!(opinion(r#"{"allowed":false,"denied":true,"reason":"r"}"#), Opinion::Deny("r".to_owned()));
        assert_eq!(opinion(r#"{"allowed":false,"reason":"r"}"#), Opinion::None("r".to_owned()));
        assert_eq!(opinion(r#"{"allowed":true,"denied":true}"#), Opinion::None(String::new()));
    }
}
