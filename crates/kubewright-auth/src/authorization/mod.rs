//! Authorization: `system:masters` may do everything, all others what the modes of the server
//! allow; by default, what their RBAC roles allow.
//!
//! Roles and bindings are ordinary objects, and are read for each decision. An index by subject
//! finds the bindings of a user without a scan.

mod action;
mod escalation;
mod mode;
mod node;
mod opinion;
mod rbac;
mod rule;
mod webhook;

use kubewright_core::Value;

pub use action::{Action, ResourceAction, ReviewSelectors};
pub use escalation::{check as check_escalation, check_change as check_escalation_by};
pub use mode::{AuthorizationMode, AuthorizationModes, AuthorizationReader};
pub use node::node_term;
pub use rbac::subject_terms;
pub use webhook::{AuthorizationWebhook, AuthorizationWebhookOptions};

use opinion::Opinion;

use crate::{MASTERS, User};
use kubewright_objects::lookup::ObjectReader;
use kubewright_objects::rejection::Rejection;

/// A decision and its reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the action is allowed.
    pub is_allowed: bool,
    /// Empty if there is nothing to report.
    pub reason: String,
}

/// Returns 403 unless the action is allowed, and [`Rejection::NeedsAuthorization`] if a webhook has
/// to be asked first.
pub fn authorize(objects: &dyn AuthorizationReader, user: &User, action: Action<'_>) -> Result<(), Rejection> {
    decide(objects, user, action)?.check(user, action)
}

impl Decision {
    fn allowed(reason: impl Into<String>) -> Self {
        Decision { is_allowed: true, reason: reason.into() }
    }

    /// Returns 403 unless the action is allowed.
    pub fn check(&self, user: &User, action: Action<'_>) -> Result<(), Rejection> {
        if self.is_allowed {
            return Ok(());
        }
        let more = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        Err(action.forbidden(user, &more).into())
    }
}

/// Decides whether a user may perform an action: the first mode with an opinion does.
///
/// # Errors
/// Only [`Rejection::NeedsAuthorization`], if a webhook has to be asked first.
pub fn decide(objects: &dyn AuthorizationReader, user: &User, action: Action<'_>) -> Result<Decision, Rejection> {
    if user.is_in(MASTERS) {
        return Ok(Decision::allowed(""));
    }
    let mut reasons = Vec::new();
    for mode in objects.authorization_modes().iter() {
        let opinion = match mode {
            AuthorizationMode::AlwaysAllow => Opinion::Allow(String::new()),
            AuthorizationMode::AlwaysDeny => Opinion::None("Everything is forbidden.".to_owned()),
            AuthorizationMode::Rbac => rbac::decide(objects, user, action),
            AuthorizationMode::Node => node::decide(objects, user, action),
            AuthorizationMode::Webhook(webhook) => webhook.decide(user, action)?,
        };
        match opinion {
            Opinion::Allow(reason) => return Ok(Decision::allowed(reason)),
            Opinion::Deny(reason) => {
                reasons.push(reason);
                break;
            }
            Opinion::None(reason) => reasons.push(reason),
        }
    }
    reasons.retain(|reason| !reason.is_empty());
    Ok(Decision { is_allowed: false, reason: reasons.join("\n") })
}

/// The wanted rules that `have` does not cover.
pub fn missing_rules(have: &[Value], wanted: &[Value]) -> Vec<Value> {
    let is_covered = |single: &rule::Single<'_>| have.iter().any(|have| single.is_covered_by(rule::PolicyRule(have)));
    let is_missing = |wanted: &&Value| !rule::PolicyRule(wanted).single_actions().iter().all(is_covered);
    wanted.iter().filter(is_missing).cloned().collect()
}

/// All rules of a user in a namespace.
pub fn rules_of(objects: &dyn ObjectReader, user: &User, namespace: &str) -> Vec<Value> {
    let mut rules = rbac::rules_of(objects, user, namespace);
    if user.is_in(MASTERS) {
        let all = || kubewright_objects::object::tree::list(["*"]);
        rules.insert(0, kubewright_objects::object::tree::map([("verbs", all()), ("nonResourceURLs", all())]));
        rules.insert(
            0,
            kubewright_objects::object::tree::map([("verbs", all()), ("apiGroups", all()), ("resources", all())]),
        );
    }
    rules
}
