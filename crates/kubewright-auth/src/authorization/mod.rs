//! Authorization: `system:masters` may do everything, all others what the modes of the server
//! allow; by default, what their RBAC roles allow.
//!
//! Roles and bindings are ordinary objects, and are read for each decision. An index by subject
//! finds the bindings of a user without a scan.

mod action;
mod escalation;
mod mode;
mod rbac;
mod rule;

use kubewright_core::Value;

pub use action::Action;
pub use escalation::{check as check_escalation, check_change as check_escalation_by};
pub use mode::{AuthorizationMode, AuthorizationModes, AuthorizationReader};
pub use rbac::subject_terms;

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

/// Returns 403 unless the action is allowed.
pub fn authorize(objects: &dyn AuthorizationReader, user: &User, action: Action<'_>) -> Result<(), Rejection> {
    decide(objects, user, action).check(user, action)
}

impl Decision {
    /// Returns 403 unless the action is allowed.
    pub fn check(&self, user: &User, action: Action<'_>) -> Result<(), Rejection> {
        if self.is_allowed {
            return Ok(());
        }
        let more = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        Err(action.forbidden(user, &more).into())
    }
}

/// Decides whether a user may perform an action.
pub fn decide(objects: &dyn AuthorizationReader, user: &User, action: Action<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision { is_allowed: true, reason: String::new() };
    }
    let mut decision = Decision::default();
    for mode in objects.authorization_modes().iter() {
        match mode {
            AuthorizationMode::AlwaysAllow => return Decision { is_allowed: true, reason: String::new() },
            AuthorizationMode::AlwaysDeny => {
                decision.reason = "Everything is forbidden.".to_owned();
            }
            AuthorizationMode::Rbac => {
                decision = rbac::decide(objects, user, action);
                if decision.is_allowed {
                    break;
                }
            }
        }
    }
    decision
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
