//! Checks of the authorizer library.

use std::sync::Arc;

use kubewright_core::Str;

/// A question to the authorizer, as far as an expression has built it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationCheck {
    /// The CEL type of the check, which determines the fields that are set.
    pub kind: CheckKind,
    /// Namespace and name of the service account to check, instead of the user of the request.
    pub service_account: Option<(Str, Str)>,
    /// The path of a non-resource request.
    pub path: Str,
    /// The API group.
    pub group: Str,
    /// The plural name of the resource.
    pub resource: Str,
    /// The subresource, empty for the object itself.
    pub subresource: Str,
    /// The namespace, empty for all namespaces.
    pub namespace: Str,
    /// The name of the object, empty for all objects.
    pub name: Str,
    /// The field selector of a request on a collection, as text that may be malformed. Often empty.
    pub field_selector: Str,
    /// The label selector of a request on a collection, as text that may be malformed. Often empty.
    pub label_selector: Str,
    /// The check that `authorizer.requestResource` returns.
    pub request: Option<Arc<AuthorizationCheck>>,
}

/// The CEL type of an [`AuthorizationCheck`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CheckKind {
    /// `Authorizer`: neither path nor group is set.
    #[default]
    Authorizer,
    /// `PathCheck`.
    Path,
    /// `GroupCheck`: the group is set, the resource is not.
    Group,
    /// `ResourceCheck`.
    Resource,
}

/// The answer of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationDecision {
    /// Whether the action is allowed.
    pub is_allowed: bool,
    /// The reason, which may be empty.
    pub reason: Str,
}
