//! Role-based access control: the rules that bindings give to a user.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use kubewright_core::{Str, Value};

use super::action::Action;
use super::opinion::Opinion;
use super::rule::PolicyRule;
use crate::User;
use kubewright_objects::lookup::{IndexTerm, ObjectReader};
use kubewright_objects::object::{Meta, StoredObject, tree};
use kubewright_storage::{Key, VersionedValue};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Prefix of service account user names.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Decides by the roles of the user.
pub(super) fn decide(objects: &dyn ObjectReader, user: &User, action: Action<'_>) -> Opinion {
    let mut reason = None;
    let mut errors = Vec::new();
    visit(objects, user, action.namespace(), &mut errors, |grant, rule| {
        if !rule.allows(action) {
            return ControlFlow::Continue(());
        }
        reason = Some(grant.reason());
        ControlFlow::Break(())
    });
    match reason {
        Some(reason) => Opinion::Allow(reason),
        None if errors.is_empty() => Opinion::None(String::new()),
        None => Opinion::None(format!("RBAC: {}", list_of(&errors))),
    }
}

/// All rules of a user in a namespace, including cluster-wide ones.
pub(super) fn rules_of(objects: &dyn ObjectReader, user: &User, namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    visit(objects, user, namespace, &mut Vec::new(), |_, rule| {
        rules.push(rule.0.clone());
        ControlFlow::Continue(())
    });
    rules
}

/// The rules of the role that a binding refers to.
pub(super) fn rules_of_reference(objects: &dyn ObjectReader, binding: &Value) -> Result<Vec<Value>, String> {
    let role = role_of(objects, binding)?;
    Ok(tree::items(role.object.value(), &["rules"]).to_vec())
}

/// The binding and the subject by which a rule applies.
struct RuleGrant<'a> {
    binding: &'a Value,
    subject: &'a Value,
}

impl RuleGrant<'_> {
    fn reason(&self) -> String {
        let (binding, subject) = (self.binding, self.subject);
        let role =
            format!("{} {:?}", tree::text(binding, &["roleRef", "kind"]), tree::text(binding, &["roleRef", "name"]));
        let place = match binding.namespace() {
            "" => format!("ClusterRoleBinding {:?}", binding.name()),
            namespace => format!("RoleBinding {:?}", format!("{}/{namespace}", binding.name())),
        };
        let name = tree::text(subject, &["name"]);
        let who = match tree::text(subject, &["kind"]) {
            "ServiceAccount" => {
                format!("ServiceAccount {:?}", format!("{name}/{}", account_namespace(binding, subject)))
            }
            kind => format!("{kind} {name:?}"),
        };
        format!("RBAC: allowed by {place} of {role} to {who}")
    }
}

/// Calls `found` with each applicable rule until it returns `Break`. Cluster-wide rules come first.
fn visit(
    objects: &dyn ObjectReader,
    user: &User,
    namespace: &str,
    errors: &mut Vec<String>,
    mut found: impl FnMut(&RuleGrant<'_>, PolicyRule<'_>) -> ControlFlow<()>,
) {
    for key in bindings_of(objects, user, namespace) {
        let Some(entry) = objects.durable(&key) else { continue };
        let binding = entry.object.value();
        let subjects = tree::items(binding, &["subjects"]);
        let Some(subject) = subjects.iter().find(|subject| is_meant(binding, subject, user)) else { continue };
        match role_of(objects, binding) {
            Ok(role) => {
                for rule in tree::items(role.object.value(), &["rules"]) {
                    if found(&RuleGrant { binding, subject }, PolicyRule(rule)).is_break() {
                        return;
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
}

/// The cluster bindings and those of a namespace that name the user or one of the groups.
fn bindings_of(objects: &dyn ObjectReader, user: &User, namespace: &str) -> BTreeSet<Key> {
    let namespaces = [""].into_iter().chain(Some(namespace).filter(|namespace| !namespace.is_empty()));
    let terms = objects.terms();
    let mut keys = BTreeSet::new();
    for namespace in namespaces.map(Str::from) {
        let name = user.name.clone();
        keys.extend(terms.keys(&IndexTerm::User { namespace: namespace.clone(), name }).cloned());
        for name in user.groups.iter().cloned() {
            keys.extend(terms.keys(&IndexTerm::Group { namespace: namespace.clone(), name }).cloned());
        }
    }
    keys
}

/// The users and groups that a binding names. Service accounts are users.
pub fn subject_terms(key: &Key, binding: &Value) -> Vec<IndexTerm> {
    let namespace = Str::from(key.namespace().unwrap_or_default());
    let term = |subject: &Value| {
        let (namespace, name) = (namespace.clone(), tree::text(subject, &["name"]));
        match tree::text(subject, &["kind"]) {
            "User" => Some(IndexTerm::User { namespace, name: name.into() }),
            "Group" => Some(IndexTerm::Group { namespace, name: name.into() }),
            "ServiceAccount" => {
                let name = format!("{ACCOUNT_PREFIX}{}:{name}", account_namespace(binding, subject));
                Some(IndexTerm::User { namespace, name: name.into() })
            }
            _ => None,
        }
    };
    tree::items(binding, &["subjects"]).iter().filter_map(term).collect()
}

fn is_meant(binding: &Value, subject: &Value, user: &User) -> bool {
    let name = tree::text(subject, &["name"]);
    match tree::text(subject, &["kind"]) {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = account_namespace(binding, subject);
            let account = user.name.strip_prefix(ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
            !namespace.is_empty() && account == Some((namespace, name))
        }
        _ => false,
    }
}

fn account_namespace<'a>(binding: &'a Value, subject: &'a Value) -> &'a str {
    match tree::text(subject, &["namespace"]) {
        "" => binding.namespace(),
        namespace => namespace,
    }
}

fn role_of(objects: &dyn ObjectReader, binding: &Value) -> Result<VersionedValue<StoredObject>, String> {
    let name = tree::text(binding, &["roleRef", "name"]);
    let (kind, key) = match tree::text(binding, &["roleRef", "kind"]) {
        "Role" => ("role", Key::namespaced(format!("roles.{GROUP}"), binding.namespace(), name)),
        _ => ("clusterrole", Key::cluster(format!("clusterroles.{GROUP}"), name)),
    };
    objects.durable(&key).ok_or_else(|| format!("{kind}.{GROUP} {name:?} not found"))
}

/// Formats several errors like Go's error aggregate.
fn list_of(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
