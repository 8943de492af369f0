//! The attributes that authorization decides about.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Value};

use crate::User;
use kubewright_objects::object::tree;

/// An action to authorize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// An action on a resource.
    Resource {
        /// Request verbs, or others such as `bind`, `escalate`, `impersonate` and `use`.
        verb: &'a str,
        /// The API group. Empty for the core group.
        group: &'a str,
        /// The plural name of the resource.
        resource: &'a str,
        /// Empty for the resource itself.
        subresource: &'a str,
        /// Empty for cluster-scoped objects and for all namespaces.
        namespace: &'a str,
        /// Empty for collections.
        name: &'a str,
    },
    /// An action on a non-resource URL.
    Path {
        /// The lower-case method.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

impl<'a> Action<'a> {
    /// The action of an access review.
    pub fn of_review(review: &'a Value) -> Self {
        if let Some(path) = tree::get(review, &["spec", "nonResourceAttributes"]) {
            return Action::Path { verb: tree::text(path, &["verb"]), path: tree::text(path, &["path"]) };
        }
        let text = |field: &str| tree::text(review, &["spec", "resourceAttributes", field]);
        Action::Resource {
            verb: text("verb"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
        }
    }

    /// The verb.
    pub fn verb(&self) -> &'a str {
        match self {
            Action::Resource { verb, .. } | Action::Path { verb, .. } => verb,
        }
    }

    /// The same action with another verb.
    pub fn with_verb<'b>(self, verb: &'b str) -> Action<'b>
    where
        'a: 'b,
    {
        match self {
            Action::Resource { group, resource, subresource, namespace, name, .. } => {
                Action::Resource { verb, group, resource, subresource, namespace, name }
            }
            Action::Path { path, .. } => Action::Path { verb, path },
        }
    }

    /// The namespace whose roles apply besides cluster roles.
    pub fn namespace(&self) -> &'a str {
        match self {
            Action::Resource { namespace, .. } => namespace,
            Action::Path { .. } => "",
        }
    }

    /// 403 with the message of the real server. `more` lists errors during the evaluation.
    pub fn forbidden(&self, user: &User, more: &str) -> Status {
        let who = &user.name;
        match *self {
            Action::Path { verb, path } => {
                let why = format!("User {who:?} cannot {verb} path {path:?}{more}");
                Status::forbidden(&GroupResource::default(), "", why)
            }
            Action::Resource { verb, group, resource, subresource, namespace, name } => {
                let part = match subresource {
                    "" => resource.to_owned(),
                    subresource => format!("{resource}/{subresource}"),
                };
                let place = match namespace {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                let why = format!("User {who:?} cannot {verb} resource {part:?} in API group {group:?} {place}{more}");
                Status::forbidden(&GroupResource::new(group, resource), name, why)
            }
        }
    }
}
