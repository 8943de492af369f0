//! Permissions of a program, as the rules of a role.
//!
//! Controllers declare their permissions ([`Controller::permissions`](crate::Controller)), a
//! manager [collects](crate::Manager::permissions) them, and `kubewright rbac` writes the role. It
//! also compares the role with the requests that tests have sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubewright_core::{Kind, List, Str, Value, json};

/// The verbs that a cache needs.
const WATCH_VERBS: [&str; 3] = ["get", "list", "watch"];

/// The order in which verbs are written. Others follow in alphabetical order.
const VERB_ORDER: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Permissions on resources: verbs by group and resource.
///
/// ```
/// use kubewright_api::{apps, core};
/// use kubewright_runtime::Permissions;
///
/// let permissions = Permissions::new()
///     .allow::<apps::v1::Deployment>(&["get", "list", "watch", "create"])
///     .allow::<core::v1::Secret>(&["create"])
///     .allow_subresource::<apps::v1::Deployment>("scale", &["patch"]);
/// assert_eq!(permissions.to_string(), "\
/// core secrets: create
/// apps deployments: get, list, watch, create
/// apps deployments/scale: patch
/// ");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    verbs_of: BTreeMap<(Str, Str), BTreeSet<Str>>,
}

impl Permissions {
    /// No permissions.
    pub fn new() -> Self {
        Permissions::default()
    }

    /// Adds verbs on a kind.
    #[must_use]
    pub fn allow<K: Kind>(mut self, verbs: &[&str]) -> Self {
        self.insert(K::RESOURCE.kind.group, K::RESOURCE.plural, verbs);
        self
    }

    /// Adds verbs on a subresource of a kind, such as `status`.
    #[must_use]
    pub fn allow_subresource<K: Kind>(mut self, subresource: &str, verbs: &[&str]) -> Self {
        self.insert(K::RESOURCE.kind.group, &format!("{}/{subresource}", K::RESOURCE.plural), verbs);
        self
    }

    /// Adds verbs on a resource, by its plural name and its group. The group `core` has the empty
    /// name.
    pub fn insert(&mut self, group: &str, resource: &str, verbs: &[&str]) {
        let key = (Str::from(group), Str::from(resource));
        self.verbs_of.entry(key).or_default().extend(verbs.iter().map(|verb| Str::from(*verb)));
    }

    /// Adds what a cache of a resource needs; `name` is `deployments.apps`, or `pods`.
    pub(crate) fn insert_watch(&mut self, name: &str) {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        self.insert(group, plural, &WATCH_VERBS);
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: &Permissions) {
        for (key, verbs) in &other.verbs_of {
            self.verbs_of.entry(key.clone()).or_default().extend(verbs.iter().cloned());
        }
    }

    /// Whether nothing is permitted.
    pub fn is_empty(&self) -> bool {
        self.verbs_of.values().all(BTreeSet::is_empty)
    }

    /// The permissions that `granted` lacks. Wildcards in `granted` count.
    #[must_use]
    pub fn missing_from(&self, granted: &Permissions) -> Permissions {
        let mut missing = Permissions::new();
        for ((group, resource), verbs) in &self.verbs_of {
            for verb in verbs.iter().filter(|verb| !granted.covers(group, resource, verb)) {
                missing.insert(group, resource, &[verb]);
            }
        }
        missing
    }

    /// Whether this verb is permitted.
    pub fn covers(&self, group: &str, resource: &str, verb: &str) -> bool {
        let matches = |pattern: &str, name: &str| pattern == "*" || pattern == name;
        let matches_resource = |pattern: &str| {
            let any_parent = pattern
                .strip_prefix("*/")
                .is_some_and(|wanted| resource.split_once('/').is_some_and(|(_, subresource)| subresource == wanted));
            any_parent || matches(pattern, resource)
        };
        self.verbs_of.iter().any(|((in_group, of_resource), verbs)| {
            matches(in_group, group)
                && matches_resource(of_resource)
                && verbs.iter().any(|permitted| matches(permitted, verb))
        })
    }

    /// The `rules` of a Role or ClusterRole. Resources of a group with the same verbs share a rule.
    pub fn rules(&self) -> Value {
        let mut resources_of: BTreeMap<(&Str, Vec<&str>), List<Value>> = BTreeMap::new();
        for ((group, resource), verbs) in &self.verbs_of {
            let resources = resources_of.entry((group, in_order(verbs))).or_default();
            resources.push(Value::from(resource.as_str()));
        }
        let rule = |((group, verbs), resources): ((&Str, Vec<&str>), List<Value>)| {
            let verbs: List<Value> = verbs.into_iter().map(Value::from).collect();
            json!({
                "apiGroups": [group.as_str()], "resources": Value::Array(resources), "verbs": Value::Array(verbs),
            })
        };
        Value::Array(resources_of.into_iter().map(rule).collect())
    }

    /// A ClusterRole with these permissions.
    pub fn cluster_role(&self, name: &str) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": self.rules(),
        })
    }

    /// The permissions that a Role or ClusterRole grants on all objects. Rules with `resourceNames`
    /// and for URLs are ignored.
    pub fn of_role(role: &Value) -> Self {
        let mut permissions = Permissions::new();
        for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let texts = |name: &str| -> Vec<&str> {
                rule.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
            };
            if !texts("resourceNames").is_empty() {
                continue;
            }
            for group in texts("apiGroups") {
                for resource in texts("resources") {
                    permissions.insert(group, resource, &texts("verbs"));
                }
            }
        }
        permissions
    }
}

/// Verbs in the order in which people write them.
fn in_order(verbs: &BTreeSet<Str>) -> Vec<&str> {
    let mut verbs: Vec<&str> = verbs.iter().map(Str::as_str).collect();
    let place = |verb: &&str| VERB_ORDER.iter().position(|known| known == verb).unwrap_or(VERB_ORDER.len());
    verbs.sort_by_key(place);
    verbs
}

impl fmt::Display for Permissions {
    /// One line for each resource.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((group, resource), verbs) in &self.verbs_of {
            let group = if group.is_empty() { "core" } else { group.as_str() };
            writeln!(f, "{group} {resource}: {}", in_order(verbs).join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(all: &[(&str, &str, &[&str])]) -> Permissions {
        let mut permissions = Permissions::new();
        all.iter().for_each(|(group, resource, verbs)| permissions.insert(group, resource, verbs));
        permissions
    }

    #[test]
    fn a_role_is_read_as_it_was_written() {
        let written = permissions(&[
            ("apps", "deployments", &["watch", "delete", "get"]),
            ("apps", "replicasets", &["get", "watch", "delete"]),
            ("", "secrets", &["create"]),
        ]);
        let role = written.cluster_role("shop");
        let rules = role.get("rules").and_then(Value::as_array).expect("a list");
        assert_eq!(rules.len(), 2, "{role}");
        assert_eq!(
            rules[1].to_string(),
            r#"{"apiGroups":["apps"],"resources":["deployments","replicasets"],"verbs":["get","watch","delete"]}"#
        );
        assert_eq!(Permissions::of_role(&role), written);
    }

    #[test]
    fn wildcards_of_a_role_cover_and_names_do_not() {
        let used = permissions(&[("apps", "deployments/status", &["update"]), ("", "pods", &["list"])]);
        for granted in [
            permissions(&[("*", "*", &["*"])]),
            permissions(&[("apps", "*/status", &["update"]), ("", "pods", &["*"])]),
        ] {
            assert!(used.missing_from(&granted).is_empty(), "{granted}");
        }
        let granted = permissions(&[("apps", "deployments", &["update"]), ("", "pods", &["get"])]);
        assert_eq!(used.missing_from(&granted), used);
        let role = json!({"rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"], "resourceNames": ["a"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        assert!(Permissions::of_role(&role).is_empty());
    }
}
