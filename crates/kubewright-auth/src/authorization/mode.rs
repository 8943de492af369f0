//! Authorization modes.

use std::str::FromStr;

use kubewright_objects::lookup::ObjectReader;

use super::webhook::AuthorizationWebhook;

/// An authorization mode, by its name in kube-apiserver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Every user may do everything. Requests without credentials are rejected with 401.
    AlwaysAllow,
    /// Only `system:masters` may do anything.
    AlwaysDeny,
    /// Users may do what their roles allow.
    Rbac,
    /// The user `system:node:NAME` of the group `system:nodes` may do what the kubelet of that node
    /// needs, for objects that the pods of the node use. Other users are decided by other modes.
    Node,
    /// A server is asked with SubjectAccessReviews.
    Webhook(AuthorizationWebhook),
}

impl FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "AlwaysAllow" => Ok(AuthorizationMode::AlwaysAllow),
            "AlwaysDeny" => Ok(AuthorizationMode::AlwaysDeny),
            "RBAC" => Ok(AuthorizationMode::Rbac),
            "Node" => Ok(AuthorizationMode::Node),
            "Webhook" => Err("the authorization mode Webhook needs the kubeconfig of its server".to_owned()),
            other => Err(format!(
                "unknown authorization mode {other:?}; there are AlwaysAllow, AlwaysDeny, Node, RBAC and Webhook"
            )),
        }
    }
}

/// Authorization modes. The first one with an opinion decides. RBAC alone by default.
#[derive(Debug, Clone)]
pub struct AuthorizationModes(Vec<AuthorizationMode>);

impl AuthorizationModes {
    /// These modes, in this order.
    pub fn new(modes: impl IntoIterator<Item = AuthorizationMode>) -> Self {
        AuthorizationModes(modes.into_iter().collect())
    }

    /// Whether every user may do everything.
    pub fn always_allow(&self) -> bool {
        self.0.iter().any(|mode| matches!(mode, AuthorizationMode::AlwaysAllow))
    }

    /// Whether a webhook is among them.
    pub fn has_webhook(&self) -> bool {
        self.0.iter().any(|mode| matches!(mode, AuthorizationMode::Webhook(_)))
    }

    /// The modes in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &AuthorizationMode> {
        self.0.iter()
    }
}

impl Default for AuthorizationModes {
    fn default() -> Self {
        AuthorizationModes::new([AuthorizationMode::Rbac])
    }
}

/// The inputs of authorization: the modes, and the objects of RBAC.
pub trait AuthorizationReader: ObjectReader {
    /// The modes of the server.
    fn authorization_modes(&self) -> &AuthorizationModes;
}
