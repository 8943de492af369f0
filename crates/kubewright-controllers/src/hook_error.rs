//! Errors of declared controllers.

use kubewright_client::config::ConfigError;

/// Why a declared controller does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The URL of a hook is invalid.
    #[error("{0:?} is no URL of a hook")]
    Url(String),
    /// The certificate authorities of a hook are invalid.
    #[error("caBundle is not PEM in base64")]
    Bundle,
    /// The connection options of a hook are invalid.
    #[error("the hook cannot be used")]
    Config(#[source] ConfigError),
    /// A resource is not served.
    #[error("the server has no resource {0}")]
    UnknownResource(String),
    /// Discovery failed.
    #[error("the server does not say which resources it has")]
    Discovery(#[source] kubewright_client::Error),
    /// A hook failed.
    #[error("the hook failed")]
    Call(#[source] kubewright_client::Error),
    /// The response of a hook is invalid.
    #[error("the answer of the hook makes no sense: {0}")]
    Answer(String),
    /// A hook returned a child of an undeclared kind.
    #[error("the hook wants a child of {0}, which is not among childResources")]
    UnknownChild(String),
    /// A hook returned a child in another namespace, where the parent cannot own it.
    #[error("the hook wants {0} outside the namespace of its parent")]
    Place(String),
    /// A desired child belongs to another owner.
    #[error("{0} exists and has another controller")]
    Taken(String),
}
