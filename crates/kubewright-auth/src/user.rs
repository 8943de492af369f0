//! The identity of a caller.

use std::collections::BTreeMap;

use kubewright_core::{Str, Value};

use kubewright_objects::object::tree;

/// The group whose members have all rights.
pub const MASTERS: &str = "system:masters";

/// The user who sent a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The name.
    pub name: Str,
    /// The UID. Empty if unknown.
    pub uid: Str,
    /// The names of the groups.
    pub groups: Vec<Str>,
    /// Extra attributes, by domain-qualified names.
    pub extra: BTreeMap<Str, Vec<Str>>,
}

impl User {
    /// A user with valid credentials.
    pub fn authenticated(name: impl Into<Str>, uid: impl Into<Str>, mut groups: Vec<Str>) -> Self {
        groups.push("system:authenticated".into());
        User { name: name.into(), uid: uid.into(), groups, extra: BTreeMap::new() }
    }

    /// A caller without credentials.
    pub fn anonymous() -> Self {
        User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
    }

    /// The administrator, for connections that only the owner of the server can open.
    pub fn admin() -> Self {
        User::authenticated("kubernetes-admin", "", vec![MASTERS.into()])
    }

    /// Adds an extra attribute.
    pub fn with_extra(mut self, name: &str, value: impl Into<Str>) -> Self {
        self.extra.entry(name.into()).or_default().push(value.into());
        self
    }

    /// The user as a `UserInfo`.
    pub fn info(&self) -> Value {
        let mut info = tree::map([("username", self.name.clone().into())]);
        if !self.uid.is_empty() {
            tree::set(&mut info, &["uid"], self.uid.clone());
        }
        tree::set(&mut info, &["groups"], tree::list(self.groups.iter().map(|group| group.as_str())));
        if let Some(extra) = self.extra() {
            tree::set(&mut info, &["extra"], extra);
        }
        info
    }

    /// The extra attributes, if there are any.
    pub fn extra(&self) -> Option<Value> {
        let texts = |values: &[Str]| tree::list(values.iter().map(|value| value.as_str()));
        let extra = self.extra.iter().map(|(name, values)| (name.clone(), texts(values)));
        (!self.extra.is_empty()).then(|| Value::Object(extra.collect()))
    }

    /// Whether the user is a member of `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }
}
