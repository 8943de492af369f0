//! Role-based access: which rules a user has, by way of bindings.

use kubewright_core::Value;

use super::rule::Rule;
use super::{Action, Decision};
use crate::authentication::User;
use crate::object::{Meta, StoredObject, tree};
use crate::registry::Registry;
use crate::storage::{Entry, Key, Scope};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Decides by the roles that are bound to the user.
pub(super) fn decide(registry: &Registry, user: &User, action: Action<'_>) -> Decision {
    let mut reason = None;
    let mut errors = Vec::new();
    visit(registry, user, action.namespace(), &mut errors, |grant, rule| {
        if reason.is_none() && rule.allows(action) {
            reason = Some(grant.reason());
        }
    });
    match reason {
        Some(reason) => Decision { is_allowed: true, reason },
        None if errors.is_empty() => Decision::default(),
        None => Decision { is_allowed: false, reason: format!("RBAC: {}", list_of(&errors)) },
    }
}

/// All rules that a user has in a namespace, those for the whole cluster included.
pub(super) fn rules_of(registry: &Registry, user: &User, namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    visit(registry, user, namespace, &mut Vec::new(), |_, rule| rules.push(rule.0.clone()));
    rules
}

/// The rules of the role that a binding refers to.
pub(super) fn rules_of_reference(registry: &Registry, binding: &Value) -> Result<Vec<Value>, String> {
    let role = role_of(registry, binding)?;
    Ok(tree::items(role.object.value(), &["rules"]).to_vec())
}

/// By which binding a rule applies to a user.
struct Grant<'a> {
    binding: &'a Value,
    subject: &'a Value,
}

impl Grant<'_> {
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

/// Calls `found` with each rule that applies, those of the cluster first.
fn visit(
    registry: &Registry,
    user: &User,
    namespace: &str,
    errors: &mut Vec<String>,
    mut found: impl FnMut(&Grant<'_>, Rule<'_>),
) {
    let mut bindings = registry.all(&Scope::resource(format!("clusterrolebindings.{GROUP}")));
    if !namespace.is_empty() {
        bindings.extend(registry.all(&Scope::namespace(format!("rolebindings.{GROUP}"), namespace)));
    }
    for entry in &bindings {
        let binding = entry.object.value();
        let subjects = tree::items(binding, &["subjects"]);
        let Some(subject) = subjects.iter().find(|subject| is_meant(binding, subject, user)) else { continue };
        match role_of(registry, binding) {
            Ok(role) => {
                for rule in tree::items(role.object.value(), &["rules"]) {
                    found(&Grant { binding, subject }, Rule(rule));
                }
            }
            Err(error) => errors.push(error),
        }
    }
}

fn is_meant(binding: &Value, subject: &Value, user: &User) -> bool {
    let name = tree::text(subject, &["name"]);
    match tree::text(subject, &["kind"]) {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = account_namespace(binding, subject);
            let account = user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
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

fn role_of(registry: &Registry, binding: &Value) -> Result<Entry<StoredObject>, String> {
    let name = tree::text(binding, &["roleRef", "name"]);
    let (kind, key) = match tree::text(binding, &["roleRef", "kind"]) {
        "Role" => ("role", Key::namespaced(format!("roles.{GROUP}"), binding.namespace(), name)),
        _ => ("clusterrole", Key::cluster(format!("clusterroles.{GROUP}"), name)),
    };
    registry.store.get(&key).ok_or_else(|| format!("{kind}.{GROUP} {name:?} not found"))
}

/// Several errors as Go shows them together.
fn list_of(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
