//! Authorization modes: RBAC, and the modes without rules.

use std::str::FromStr;

use kubewright_objects::lookup::ObjectReader;

/// An authorization mode, by its name in kube-apiserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Every user may do everything. Requests without credentials are rejected with 401.
    AlwaysAllow,
    /// Only `system:masters` may do anything.
    AlwaysDeny,
    /// Users may do what their roles allow.
    Rbac,
}

impl FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "AlwaysAllow" => Ok(AuthorizationMode::AlwaysAllow),
            "AlwaysDeny" => Ok(AuthorizationMode::AlwaysDeny),
            "RBAC" => Ok(AuthorizationMode::Rbac),
            other => Err(format!("unknown authorization mode {other:?}; there are AlwaysAllow, AlwaysDeny and RBAC")),
        }
    }
}

/// Authorization modes. The first one with an opinion decides. RBAC alone by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationModes(Vec<AuthorizationMode>);

impl AuthorizationModes {
    /// These modes, in this order.
    pub fn new(modes: impl IntoIterator<Item = AuthorizationMode>) -> Self {
        AuthorizationModes(modes.into_iter().collect())
    }

    /// Whether every user may do everything.
    pub fn always_allow(&self) -> bool {
        self.0.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// The modes in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = AuthorizationMode> {
        self.0.iter().copied()
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
