//! The policy: how much of each request is recorded.

use std::fmt;

use kubewright_auth::User;
use kubewright_auth::authorization::{Action, ResourceAction};
use kubewright_core::{Str, Value};
use kubewright_objects::object::tree;

/// How much of a request is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    /// Nothing.
    None,
    /// Caller, action and time.
    Metadata,
    /// Also the object of the request.
    Request,
    /// Also the object of the response.
    RequestResponse,
}

impl AuditLevel {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "None" => AuditLevel::None,
            "Metadata" => AuditLevel::Metadata,
            "Request" => AuditLevel::Request,
            "RequestResponse" => AuditLevel::RequestResponse,
            _ => return None,
        })
    }

    /// The name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            AuditLevel::None => "None",
            AuditLevel::Metadata => "Metadata",
            AuditLevel::Request => "Request",
            AuditLevel::RequestResponse => "RequestResponse",
        }
    }
}

/// A stage of a request, at which an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The caller is known; nothing is decided yet.
    RequestReceived,
    /// The head of a long response, such as a watch, has been sent.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
}

impl Stage {
    /// The name in policies and events.
    pub fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
        }
    }
}

/// The rules of a policy file. The first one that matches a request decides about it.
#[derive(Debug, Clone)]
pub struct AuditPolicy {
    rules: Vec<AuditRule>,
    omit_stages: Vec<Str>,
    omit_managed_fields: bool,
}

/// The decision of a policy about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    pub(crate) level: AuditLevel,
    pub(crate) omit_managed_fields: bool,
    omit_stages: Vec<Str>,
}

impl AuditDecision {
    pub(crate) fn records(&self, stage: Stage) -> bool {
        self.level != AuditLevel::None && !self.omit_stages.iter().any(|omitted| omitted == stage.name())
    }
}

/// Empty lists match everything.
#[derive(Debug, Clone)]
struct AuditRule {
    level: AuditLevel,
    users: Vec<Str>,
    user_groups: Vec<Str>,
    verbs: Vec<Str>,
    namespaces: Vec<Str>,
    resources: Vec<ResourceRule>,
    non_resource_urls: Vec<Str>,
    omit_stages: Vec<Str>,
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone)]
struct ResourceRule {
    group: Str,
    resources: Vec<Str>,
    names: Vec<Str>,
}

/// Why a policy was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the audit policy cannot be used: {}", self.0)
    }
}

impl std::error::Error for PolicyError {}

impl AuditPolicy {
    /// Reads a `Policy` of `audit.k8s.io/v1`, in YAML or JSON.
    ///
    /// # Errors
    ///
    /// The text is no such policy, has no rules, or a level that does not exist.
    pub fn from_yaml(text: &str) -> Result<Self, PolicyError> {
        let refused = |why: String| PolicyError(why);
        let policy = kubewright_yaml::parse(text).map_err(|error| refused(error.to_string()))?.value;
        let kind = (tree::text(&policy, &["apiVersion"]), tree::text(&policy, &["kind"]));
        if kind != ("audit.k8s.io/v1", "Policy") {
            return Err(refused(format!("it is {kind:?}, and must be (\"audit.k8s.io/v1\", \"Policy\")")));
        }
        let rules: Result<Vec<AuditRule>, PolicyError> = tree::items(&policy, &["rules"])
            .iter()
            .enumerate()
            .map(|(index, rule)| AuditRule::read(index, rule))
            .collect();
        let rules = rules?;
        if rules.is_empty() {
            return Err(refused("it has no rules".to_owned()));
        }
        Ok(AuditPolicy {
            rules,
            omit_stages: texts(&policy, "omitStages"),
            omit_managed_fields: tree::is_true(&policy, &["omitManagedFields"]),
        })
    }

    /// Decides about a request. Without a matching rule nothing is recorded.
    pub(crate) fn decide(&self, user: &User, action: Action<'_>) -> AuditDecision {
        let rule = self.rules.iter().find(|rule| rule.matches(user, action));
        let mut omit_stages = self.omit_stages.clone();
        omit_stages.extend(rule.into_iter().flat_map(|rule| rule.omit_stages.iter().cloned()));
        AuditDecision {
            level: rule.map_or(AuditLevel::None, |rule| rule.level),
            omit_managed_fields: rule.and_then(|rule| rule.omit_managed_fields).unwrap_or(self.omit_managed_fields),
            omit_stages,
        }
    }
}

impl AuditRule {
    fn read(index: usize, rule: &Value) -> Result<Self, PolicyError> {
        let level = tree::text(rule, &["level"]);
        let level = AuditLevel::of(level).ok_or_else(|| {
            PolicyError(format!(
                "rules[{index}].level is {level:?}, and must be None, Metadata, Request or RequestResponse"
            ))
        })?;
        let resource = |rule: &Value| ResourceRule {
            group: tree::text(rule, &["group"]).into(),
            resources: texts(rule, "resources"),
            names: texts(rule, "resourceNames"),
        };
        Ok(AuditRule {
            level,
            users: texts(rule, "users"),
            user_groups: texts(rule, "userGroups"),
            verbs: texts(rule, "verbs"),
            namespaces: texts(rule, "namespaces"),
            resources: tree::items(rule, &["resources"]).iter().map(resource).collect(),
            non_resource_urls: texts(rule, "nonResourceURLs"),
            omit_stages: texts(rule, "omitStages"),
            omit_managed_fields: tree::get(rule, &["omitManagedFields"]).map(|omit| *omit == Value::Bool(true)),
        })
    }

    fn matches(&self, user: &User, action: Action<'_>) -> bool {
        let has = |list: &[Str], value: &str| list.is_empty() || list.iter().any(|have| have == value);
        if !has(&self.users, &user.name) || !has(&self.verbs, action.verb()) {
            return false;
        }
        if !self.user_groups.is_empty() && !self.user_groups.iter().any(|group| user.is_in(group)) {
            return false;
        }
        match action {
            _ if self.namespaces.is_empty() && self.resources.is_empty() && self.non_resource_urls.is_empty() => true,
            Action::Resource(ResourceAction { group, resource, subresource, namespace, name, .. }) => {
                let is_about_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
                is_about_resources
                    && has(&self.namespaces, namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|rule| rule.matches(group, (resource, subresource), name)))
            }
            Action::Path { path, .. } => {
                let is_about_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
                !is_about_resources && self.non_resource_urls.iter().any(|pattern| path_matches(pattern, path))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, group: &str, (resource, subresource): (&str, &str), name: &str) -> bool {
        if self.group != group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.names.is_empty() && !self.names.iter().any(|have| have == name) {
            return false;
        }
        self.resources.iter().any(|pattern| match pattern.split_once('/') {
            Some(("*", part)) => !subresource.is_empty() && part == subresource,
            Some((whole, "*")) => whole == resource,
            Some((whole, part)) => whole == resource && part == subresource,
            None => pattern == "*" || (pattern == resource && subresource.is_empty()),
        })
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}

fn texts(value: &Value, field: &str) -> Vec<Str> {
    tree::texts(tree::get(value, &[field]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: ['system:kube-proxy'], verbs: [watch]}
- {level: RequestResponse, omitManagedFields: false, resources: [{group: '', resources: [pods]}]}
- {level: Metadata, resources: [{group: '', resources: ['pods/log', '*/status', 'services/*']}]}
- {level: Request, namespaces: [kube-system], resources: [{group: '', resources: [configmaps], resourceNames: [one]}]}
- {level: Metadata, nonResourceURLs: ['/api*', /version], omitStages: [ResponseStarted]}
- {level: Request, userGroups: [dev], resources: [{group: apps}]}
";

    fn resource<'a>(group: &'a str, path: &'a str, namespace: &'a str, name: &'a str) -> Action<'a> {
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        Action::Resource(ResourceAction {
            verb: "get",
            group,
            resource,
            subresource,
            namespace,
            name,
            ..ResourceAction::default()
        })
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = AuditPolicy::from_yaml(POLICY).expect("a policy");
        let dev = User::authenticated("jane", "", vec!["dev".into()]);
        let level = |action| policy.decide(&dev, action).level;
        for (path, expected) in [
            ("pods", AuditLevel::RequestResponse),
            ("pods/log", AuditLevel::Metadata),
            ("nodes/status", AuditLevel::Metadata),
            ("services", AuditLevel::Metadata),
            ("services/proxy", AuditLevel::Metadata),
            ("nodes", AuditLevel::None),
        ] {
            assert_eq!(level(resource("", path, "", "")), expected, "{path}");
        }
        assert_eq!(level(resource("", "configmaps", "kube-system", "one")), AuditLevel::Request);
        assert_eq!(level(resource("", "configmaps", "kube-system", "two")), AuditLevel::None);
        assert_eq!(level(resource("", "configmaps", "default", "one")), AuditLevel::None);
        assert_eq!(level(resource("apps", "deployments", "default", "web")), AuditLevel::Request);
        assert_eq!(policy.decide(&User::anonymous(), resource("apps", "deployments", "", "")).level, AuditLevel::None);
        let path = |path| policy.decide(&dev, Action::Path { verb: "get", path });
        assert_eq!(path("/apis/apps").level, AuditLevel::Metadata);
        assert_eq!(path("/versions").level, AuditLevel::None);
        assert!(!path("/version").records(Stage::RequestReceived) && !path("/version").records(Stage::ResponseStarted));
        assert!(path("/version").records(Stage::ResponseComplete) && path("/version").omit_managed_fields);
        assert!(!policy.decide(&dev, resource("", "pods", "", "")).omit_managed_fields);
    }

    #[test]
    fn unusable_policies_are_refused_with_a_reason() {
        let refused = |text: &str| AuditPolicy::from_yaml(text).expect_err("no policy").to_string();
        assert!(refused("kind: Policy").contains("audit.k8s.io/v1"));
        assert!(refused("{apiVersion: audit.k8s.io/v1, kind: Policy}").contains("no rules"));
        let odd = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: All}]}";
        assert!(refused(odd).contains("rules[0].level is \"All\""));
    }
}
