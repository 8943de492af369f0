//! The attributes that authorization decides about.

use kubewright_core::meta::v1::Status;
use kubewright_core::{GroupResource, Value};

use crate::request::RequestInfo;
use crate::user::User;
use kubewright_objects::object::tree;

/// An action to authorize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// An action on a resource.
    Resource {
        /// Request verbs, or others such as `bind`, `escalate`, `impersonate` and `use`.
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        /// Empty for cluster-scoped objects and for all namespaces.
        namespace: &'a str,
        /// Empty for collections.
        name: &'a str,
    },
    /// An action on a non-resource URL.
    Path { verb: &'a str, path: &'a str },
}

impl<'a> Action<'a> {
    /// The action of a request. `selected` is the name that its field selector requires.
    pub(crate) fn of_request(info: &'a RequestInfo, selected: &'a str) -> Self {
        match &info.target {
            Some(target) => Action::Resource {
                verb: info.verb,
                group: &target.group,
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: target.authorized_namespace(),
                name: info.authorized_name(selected),
            },
            None => Action::Path { verb: info.verb, path: &info.path },
        }
    }

    /// The action of an access review.
    pub(crate) fn of_review(review: &'a Value) -> Self {
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
    pub(crate) fn verb(&self) -> &'a str {
        match self {
            Action::Resource { verb, .. } | Action::Path { verb, .. } => verb,
        }
    }

    /// The same action with another verb.
    pub(crate) fn with_verb<'b>(self, verb: &'b str) -> Action<'b>
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
    pub(crate) fn namespace(&self) -> &'a str {
        match self {
            Action::Resource { namespace, .. } => namespace,
            Action::Path { .. } => "",
        }
    }

    /// 403 with the message of the real server. `more` lists errors during the evaluation.
    pub(crate) fn forbidden(&self, user: &User, more: &str) -> Status {
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
