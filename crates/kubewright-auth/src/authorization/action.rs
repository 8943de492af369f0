//! The attributes that authorization decides about.

use kubewright_core::meta::v1::Status;
use kubewright_core::{FieldSelector, GroupResource, Selector, Value};

use crate::User;
use kubewright_core::selector::Requirement;
use kubewright_objects::object::tree;

/// An action to authorize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// An action on a resource.
    Resource(ResourceAction<'a>),
    /// An action on a non-resource URL.
    Path {
        /// The lower-case method.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// The attributes of an action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(alias = "ResourceAttributes")]
pub struct ResourceAction<'a> {
    /// Request verbs, or others such as `bind`, `escalate`, `impersonate` and `use`.
    pub verb: &'a str,
    /// The API group. Empty for the core group.
    pub group: &'a str,
    /// The API version. Empty if it is unknown. Only webhooks see it.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
    /// The field selector of a request on a collection.
    pub field_selector: Option<&'a FieldSelector>,
    /// The label selector of a request on a collection.
    pub label_selector: Option<&'a Selector>,
}

impl<'a> From<ResourceAction<'a>> for Action<'a> {
    fn from(action: ResourceAction<'a>) -> Self {
        Action::Resource(action)
    }
}

impl<'a> Action<'a> {
    /// The action of an access review, with the selectors of [`ReviewSelectors::new`].
    pub fn of_review(review: &'a Value, selectors: &'a ReviewSelectors) -> Self {
        if let Some(path) = tree::get(review, &["spec", "nonResourceAttributes"]) {
            return Action::Path { verb: tree::text(path, &["verb"]), path: tree::text(path, &["path"]) };
        }
        let text = |field: &str| tree::text(review, &["spec", "resourceAttributes", field]);
        Action::Resource(ResourceAction {
            verb: text("verb"),
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            field_selector: selectors.field.as_ref(),
            label_selector: selectors.label.as_ref(),
        })
    }

    /// The verb.
    pub fn verb(&self) -> &'a str {
        match self {
            Action::Resource(ResourceAction { verb, .. }) | Action::Path { verb, .. } => verb,
        }
    }

    /// The same action with another verb.
    pub fn with_verb<'b>(self, verb: &'b str) -> Action<'b>
    where
        'a: 'b,
    {
        match self {
            Action::Resource(action) => Action::Resource(ResourceAction { verb, ..action }),
            Action::Path { path, .. } => Action::Path { verb, path },
        }
    }

    /// The namespace whose roles apply besides cluster roles.
    pub fn namespace(&self) -> &'a str {
        match self {
            Action::Resource(action) => action.namespace,
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
            Action::Resource(ResourceAction { verb, group, resource, subresource, namespace, name, .. }) => {
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

/// The selectors of an access review.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewSelectors {
    field: Option<FieldSelector>,
    label: Option<Selector>,
}

impl ReviewSelectors {
    /// The selectors of a review. As in kube-apiserver, requirements that make no sense are
    /// ignored: the review is then about more objects, and permits less.
    pub fn new(review: &Value) -> Self {
        let of = |selector: &str| tree::get(review, &["spec", "resourceAttributes", selector]);
        ReviewSelectors {
            field: of("fieldSelector").and_then(field_selector),
            label: of("labelSelector").and_then(label_selector),
        }
    }
}

fn field_selector(attributes: &Value) -> Option<FieldSelector> {
    if let Some(raw) = raw_selector(attributes) {
        return raw.parse().ok();
    }
    let requirements = tree::items(attributes, &["requirements"]).iter();
    let selector = requirements.fold(FieldSelector::everything(), |selector, requirement| {
        let key = tree::text(requirement, &["key"]);
        match (tree::text(requirement, &["operator"]), tree::items(requirement, &["values"])) {
            ("In", [Value::String(value)]) => selector.equals(key, value.clone()),
            ("NotIn", [Value::String(value)]) => selector.not_equals(key, value.clone()),
            _ => selector,
        }
    });
    (!selector.is_everything()).then_some(selector)
}

fn label_selector(attributes: &Value) -> Option<Selector> {
    if let Some(raw) = raw_selector(attributes) {
        return raw.parse().ok();
    }
    let requirements = tree::items(attributes, &["requirements"]).iter();
    let selector = requirements.fold(Selector::everything(), |selector, requirement| {
        let key = tree::text(requirement, &["key"]);
        let values = tree::items(requirement, &["values"]).iter().filter_map(Value::as_str);
        let requirement = match tree::text(requirement, &["operator"]) {
            "In" => Requirement::is_in(key, values),
            "NotIn" => Requirement::not_in(key, values),
            "Exists" => Requirement::exists(key),
            "DoesNotExist" => Requirement::does_not_exist(key),
            _ => return selector,
        };
        match requirement {
            Ok(requirement) => selector.with(requirement),
            Err(_) => selector,
        }
    });
    (!selector.is_everything()).then_some(selector)
}

/// The serialized selector. Parsed only without requirements.
fn raw_selector(attributes: &Value) -> Option<&str> {
    let raw = tree::text(attributes, &["rawSelector"]);
    (tree::items(attributes, &["requirements"]).is_empty() && !raw.is_empty()).then_some(raw)
}
