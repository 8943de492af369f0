//! Policy rules of roles.

use std::fmt;

use kubewright_core::Value;

use super::{Action, ResourceAction};
use kubewright_objects::object::tree;

/// A policy rule in a role.
#[derive(Clone, Copy)]
pub struct PolicyRule<'a>(pub &'a Value);

impl<'a> PolicyRule<'a> {
    /// Whether the rule allows an action.
    pub fn allows(self, action: Action<'_>) -> bool {
        match action {
            Action::Path { verb, path } => self.has("verbs", verb) && self.has_path(path),
            Action::Resource(ResourceAction { verb, group, resource, subresource, name, .. }) => {
                self.has("verbs", verb)
                    && self.has("apiGroups", group)
                    && self.has_resource(resource, subresource)
                    && self.has_name(name)
            }
        }
    }

    pub fn texts(self, field: &str) -> impl Iterator<Item = &'a str> + Clone {
        tree::items(self.0, &[field]).iter().filter_map(Value::as_str)
    }

    fn has(self, field: &str, wanted: &str) -> bool {
        self.texts(field).any(|have| have == "*" || have == wanted)
    }

    /// Matches `pods`, `pods/log`, `*/scale` or `*`. The last one includes subresources.
    fn has_resource(self, resource: &str, subresource: &str) -> bool {
        self.texts("resources").any(|have| match have.split_once('/') {
            _ if have == "*" => true,
            None => subresource.is_empty() && have == resource,
            Some((of, part)) => part == subresource && (of == "*" || of == resource),
        })
    }

    fn has_name(self, name: &str) -> bool {
        let mut names = self.texts("resourceNames").peekable();
        names.peek().is_none() || names.any(|have| have == name)
    }

    /// Matches `/healthz`, `/healthz/*` or `*`.
    fn has_path(self, path: &str) -> bool {
        self.texts("nonResourceURLs").any(|have| match have.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => have == path,
        })
    }

    /// The number of [single actions](Self::single_actions), without expanding them.
    pub fn count_single_actions(self) -> usize {
        let count = |field| self.texts(field).count();
        let things = count("apiGroups").saturating_mul(count("resources"));
        let named = things.saturating_mul(count("resourceNames").max(1));
        count("verbs").saturating_mul(named.saturating_add(count("nonResourceURLs")))
    }

    /// Expands the rule to one action for each combination of its fields.
    pub fn single_actions(self) -> Vec<Single<'a>> {
        let mut singles = Vec::new();
        for verb in self.texts("verbs") {
            singles.extend(self.texts("nonResourceURLs").map(|path| Single { verb, path, ..Single::default() }));
            for group in self.texts("apiGroups") {
                for resource in self.texts("resources") {
                    let whole = Single { verb, group, resource, ..Single::default() };
                    let before = singles.len();
                    singles.extend(self.texts("resourceNames").map(|name| Single { name, ..whole }));
                    if singles.len() == before {
                        singles.push(whole);
                    }
                }
            }
        }
        singles
    }
}

/// One verb on one resource or path. Each may be a wildcard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Single<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
    pub path: &'a str,
}

impl Single<'_> {
    /// Whether a rule covers this action. Only a wildcard covers a wildcard.
    pub fn is_covered_by(&self, rule: PolicyRule<'_>) -> bool {
        if !self.path.is_empty() {
            let covers = |have: &str| match have.strip_suffix('*') {
                Some(prefix) => self.path.starts_with(prefix),
                None => have == self.path,
            };
            return rule.has("verbs", self.verb) && rule.texts("nonResourceURLs").any(covers);
        }
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let is_all = self.resource == "*";
        rule.has("verbs", self.verb)
            && rule.has("apiGroups", self.group)
            && if is_all {
                rule.texts("resources").any(|have| have == "*")
            } else {
                rule.has_resource(resource, subresource)
            }
            && rule.has_name(self.name)
    }
}

/// Formats single actions as rules like Go does, with the verbs of a resource grouped.
pub struct RuleDisplay<'a>(pub &'a [Single<'a>]);

impl fmt::Display for RuleDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen: Vec<Single<'_>> = Vec::new();
        for single in self.0 {
            let thing = Single { verb: "", ..*single };
            if seen.contains(&thing) {
                continue;
            }
            seen.push(thing);
            let verbs: Vec<String> = self
                .0
                .iter()
                .filter(|other| Single { verb: "", ..**other } == thing)
                .map(|other| format!("{:?}", other.verb))
                .collect();
            f.write_str("\n{")?;
            if !thing.path.is_empty() {
                write!(f, "NonResourceURLs:[{:?}], ", thing.path)?;
            } else {
                write!(f, "APIGroups:[{:?}], Resources:[{:?}], ", thing.group, thing.resource)?;
                if !thing.name.is_empty() {
                    write!(f, "ResourceNames:[{:?}], ", thing.name)?;
                }
            }
            write!(f, "Verbs:[{}]}}", verbs.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, action: Action<'_>) -> bool {
        PolicyRule(&Value::from_json(rule.as_bytes()).unwrap()).allows(action)
    }

    fn pods<'a>(verb: &'a str, subresource: &'a str, name: &'a str) -> Action<'a> {
        Action::Resource(ResourceAction {
            verb,
            resource: "pods",
            subresource,
            namespace: "a",
            name,
            ..ResourceAction::default()
        })
    }

    #[test]
    fn a_rule_allows_exactly_the_actions_it_names() {
        let reads = r#"{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}"#;
        assert!(allows(reads, pods("get", "", "web")));
        assert!(!allows(reads, pods("delete", "", "web")));
        assert!(!allows(reads, pods("get", "log", "web")));
        assert!(allows(reads, pods("get", "scale", "web")));
        let named = r#"{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["web"]}"#;
        assert!(allows(named, pods("evict", "log", "web")));
        assert!(!allows(named, pods("get", "", "db")));
        // A list has no name, so a rule with names does not allow it.
        assert!(!allows(named, pods("list", "", "")));
        let paths = r#"{"verbs": ["get"], "nonResourceURLs": ["/healthz/*", "/version"]}"#;
        assert!(allows(paths, Action::Path { verb: "get", path: "/healthz/etcd" }));
        assert!(!allows(paths, Action::Path { verb: "get", path: "/version/" }));
    }

    #[test]
    fn a_wildcard_is_covered_by_a_wildcard_only() {
        let value = |json: &str| Value::from_json(json.as_bytes()).unwrap();
        let all = value(r#"{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}"#);
        let some = value(r#"{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}"#);
        let covered = |servant: &Value, owner: &Value| {
            PolicyRule(servant).single_actions().iter().all(|single| single.is_covered_by(PolicyRule(owner)))
        };
        assert!(covered(&some, &all));
        assert!(!covered(&all, &some));
        assert!(covered(&all, &all));
    }

    #[test]
    fn single_actions_are_counted_without_expansion() {
        for (rule, count) in [
            (r#"{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes", "events"]}"#, 6),
            (r#"{"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["x"], "resourceNames": ["a", "b"]}"#, 4),
            (r#"{"verbs": ["get", "post"], "nonResourceURLs": ["/a", "/b"]}"#, 4),
            ("{}", 0),
        ] {
            let rule = Value::from_json(rule.as_bytes()).unwrap();
            assert_eq!(
                (PolicyRule(&rule).count_single_actions(), PolicyRule(&rule).single_actions().len()),
                (count, count)
            );
        }
    }
}
