//! Nobody grants what they do not have.

use kubewright_core::Value;
use kubewright_core::meta::v1::Status;

use super::rule::{Rule, Shown, Single};
use super::{Action, decide, rbac};
use crate::authentication::User;
use crate::catalog::Resource;
use crate::object::{Meta, tree};
use crate::registry::Registry;
use crate::rejection::Rejection;

/// As [`check`], for a change. One that is only about collecting the object grants nothing.
pub(crate) fn check_change(
    registry: &Registry,
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
    // A role that collected rules still has them, until they are collected anew.
    let mut new = new.clone();
    if let (Some(rule), None) = (old.get("aggregationRule"), new.get("aggregationRule")) {
        tree::set(&mut new, &["aggregationRule"], rule.clone());
    }
    check(registry, user, resource, &new)
}

/// Lets a role or binding pass whose rules the user has, or may hand out by the verbs `escalate` and `bind`.
pub(crate) fn check(registry: &Registry, user: &User, resource: &Resource, value: &Value) -> Result<(), Rejection> {
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
            let Ok(rules) = rbac::rules_of_reference(registry, value) else {
                // A role that is not there grants nothing yet; only who may bind it may speak of it.
                return may(
                    registry,
                    user,
                    "bind",
                    referred,
                    value.namespace(),
                    tree::text(value, &["roleRef", "name"]),
                )
                .then_some(())
                .ok_or_else(|| missing_role(value));
            };
            ("bind", rules, (referred, tree::text(value, &["roleRef", "name"])))
        }
        _ => return Ok(()),
    };
    let namespace = value.namespace();
    if may(registry, user, verb, about.0, namespace, about.1) {
        return Ok(());
    }
    let owned = rbac::rules_of(registry, user, namespace);
    let missing: Vec<Single<'_>> = granted
        .iter()
        .flat_map(|rule| Rule(rule).single_actions())
        .filter(|single| !owned.iter().any(|rule| single.is_covered_by(Rule(rule))))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{:?}", group.as_str())).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:{}",
        user.name.as_str(),
        groups.join(" "),
        Shown(&missing)
    );
    Err(Status::forbidden(&resource.group_resource(), value.name(), why).into())
}

fn rules_in(value: &Value) -> Vec<Value> {
    let mut rules = tree::items(value, &["rules"]).to_vec();
    if tree::get(value, &["aggregationRule"]).is_some() {
        // Whatever may be collected there is granted as well.
        rules.push(tree::map([
            ("verbs", tree::list(["*"])),
            ("apiGroups", tree::list(["*"])),
            ("resources", tree::list(["*"])),
        ]));
        rules.push(tree::map([("verbs", tree::list(["*"])), ("nonResourceURLs", tree::list(["*"]))]));
    }
    rules
}

fn may(registry: &Registry, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let group = "rbac.authorization.k8s.io";
    decide(registry, user, Action::Resource { verb, group, resource, subresource: "", namespace, name }).is_allowed
}

fn missing_role(binding: &Value) -> Rejection {
    let name = tree::text(binding, &["roleRef", "name"]);
    let plural = if tree::text(binding, &["roleRef", "kind"]) == "Role" { "roles" } else { "clusterroles" };
    let resource = kubewright_core::GroupResource::new("rbac.authorization.k8s.io", plural);
    Status::not_found(&resource, name).into()
}
