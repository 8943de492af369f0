//! Prevents privilege escalation: users can only grant permissions that they have.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;

use super::rule::{PolicyRule, RuleDisplay, Single};
use super::{AuthorizationReader, ResourceAction, decide, rbac};
use crate::User;
use kubewright_objects::object::{Meta, tree};
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Resource;

/// Maximum number of single permissions that a writer without the verb `escalate` may grant. A rule
/// expands to the product of its verbs, groups, resources and names, so a small role could exhaust
/// the memory.
const MAX_ACTIONS: usize = 20_000;

/// Maximum number of missing permissions in an error message.
const MAX_MISSING: usize = 256;

/// Like [`check`], for an update. An update that only serves garbage collection grants nothing.
pub fn check_change(
    objects: &dyn AuthorizationReader,
    user: &User,
    resource: &Resource,
    old: &Value,
    new: &Value,
) -> Result<(), Rejection> {
    if resource.is_custom() || resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let rest = |value: &Value| {
        let mut rest = value.clone();
        for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion"] {
            rest.remove_meta(field);
        }
        rest
    };
    if rest(old) == rest(new) {
        return Ok(());
    }
    // Without its aggregation rule, a role keeps the aggregated rules for now. They count as
    // granted.
    let mut new = new.clone();
    if let (Some(rule), None) = (old.get("aggregationRule"), new.get("aggregationRule")) {
        tree::set(&mut new, &["aggregationRule"], rule.clone());
    }
    check(objects, user, resource, &new)
}

/// Checks a role or binding: the user has all its rules, or the verb `escalate` or `bind`.
pub fn check(
    objects: &dyn AuthorizationReader,
    user: &User,
    resource: &Resource,
    value: &Value,
) -> Result<(), Rejection> {
    if resource.is_custom() || resource.group != "rbac.authorization.k8s.io" {
        return Ok(());
    }
    let (verb, granted, about) = match &*resource.plural {
        "roles" | "clusterroles" => ("escalate", rules_in(value), (&*resource.plural, value.name())),
        "rolebindings" | "clusterrolebindings" => {
            let referred = match tree::text(value, &["roleRef", "kind"]) {
                "Role" => "roles",
                _ => "clusterroles",
            };
            let Ok(rules) = rbac::rules_of_reference(objects, value) else {
                // A missing role grants nothing yet, so only the verb `bind` allows a binding to
                // it.
                let name = tree::text(value, &["roleRef", "name"]);
                if may(objects, user, "bind", referred, value.namespace(), name)? {
                    return Ok(());
                }
                return Err(missing_role(value));
            };
            ("bind", rules, (referred, tree::text(value, &["roleRef", "name"])))
        }
        _ => return Ok(()),
    };
    let namespace = value.namespace();
    if may(objects, user, verb, about.0, namespace, about.1)? {
        return Ok(());
    }
    let actions = granted.iter().fold(0_usize, |sum, rule| sum.saturating_add(PolicyRule(rule).count_single_actions()));
    if actions > MAX_ACTIONS {
        let why = format!(
            "the rules grant {actions} single permissions, and at most {MAX_ACTIONS} can be compared with those held. \
             Split the role, or use the verb {verb:?}"
        );
        return Err(Status::forbidden(&resource.group_resource(), value.name(), why).into());
    }
    let owned = rbac::rules_of(objects, user, namespace);
    let missing: Vec<Single<'_>> = granted
        .iter()
        .flat_map(|rule| PolicyRule(rule).single_actions())
        .filter(|single| !owned.iter().any(|rule| single.is_covered_by(PolicyRule(rule))))
        .take(MAX_MISSING)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{:?}", group.as_str())).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:{}",
        user.name.as_str(),
        groups.join(" "),
        RuleDisplay(&missing)
    );
    Err(Status::forbidden(&resource.group_resource(), value.name(), why).into())
}

fn rules_in(value: &Value) -> Vec<Value> {
    let mut rules = tree::items(value, &["rules"]).to_vec();
    if tree::get(value, &["aggregationRule"]).is_some() {
        // An aggregation rule may collect any permission.
        rules.push(tree::map([
            ("verbs", tree::list(["*"])),
            ("apiGroups", tree::list(["*"])),
            ("resources", tree::list(["*"])),
        ]));
        rules.push(tree::map([("verbs", tree::list(["*"])), ("nonResourceURLs", tree::list(["*"]))]));
    }
    rules
}

fn may(
    objects: &dyn AuthorizationReader,
    user: &User,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<bool, Rejection> {
    let group = "rbac.authorization.k8s.io";
    let action = ResourceAction { verb, group, resource, namespace, name, ..ResourceAction::default() };
    Ok(decide(objects, user, action.into())?.is_allowed)
}

fn missing_role(binding: &Value) -> Rejection {
    let name = tree::text(binding, &["roleRef", "name"]);
    let plural = if tree::text(binding, &["roleRef", "kind"]) == "Role" { "roles" } else { "clusterroles" };
    let resource = kubewright_core::GroupResource::new("rbac.authorization.k8s.io", plural);
    Status::not_found(&resource, name).into()
}
