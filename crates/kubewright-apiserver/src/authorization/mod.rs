//! Who may do what: members of `system:masters` everything, all others what roles say that are bound to them.
//!
//! Roles and bindings are objects like any others, read anew for each decision: there are few of them, and only requests
//! of users who are no masters pay for it.

mod action;
mod aggregation;
mod escalation;
mod rbac;
mod rule;
mod signer;

use kubewright_core::Value;

pub(crate) use action::Action;
pub(crate) use aggregation::collect_rules;
pub(crate) use escalation::{check as check_escalation, check_change as check_escalation_by};
pub(crate) use signer::check as check_signer;

use crate::authentication::{MASTERS, User};
use crate::registry::Registry;
use crate::rejection::Rejection;

/// What was decided, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) is_allowed: bool,
    /// Empty where there is nothing to say.
    pub(crate) reason: String,
}

/// Lets an action pass, or says why not.
pub(crate) fn authorize(registry: &Registry, user: &User, action: Action<'_>) -> Result<(), Rejection> {
    let decision = decide(registry, user, action);
    if decision.is_allowed {
        return Ok(());
    }
    let more = if decision.reason.is_empty() { String::new() } else { format!(": {}", decision.reason) };
    Err(action.forbidden(user, &more).into())
}

/// Whether a user may do this.
pub(crate) fn decide(registry: &Registry, user: &User, action: Action<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision { is_allowed: true, reason: String::new() };
    }
    rbac::decide(registry, user, action)
}

/// All rules that a user has in a namespace.
pub(crate) fn rules_of(registry: &Registry, user: &User, namespace: &str) -> Vec<Value> {
    let mut rules = rbac::rules_of(registry, user, namespace);
    if user.is_in(MASTERS) {
        let all = || crate::object::tree::list(["*"]);
        rules.insert(0, crate::object::tree::map([("verbs", all()), ("nonResourceURLs", all())]));
        rules.insert(0, crate::object::tree::map([("verbs", all()), ("apiGroups", all()), ("resources", all())]));
    }
    rules
}
