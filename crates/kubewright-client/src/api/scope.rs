//! The scope of requests.

use kubewright_core::{NamespaceScope, Str};

/// The scope of requests for a resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A cluster-scoped resource.
    Cluster,
    /// All namespaces, for lists and watches.
    AllNamespaces,
    /// One namespace.
    Namespace(Str),
}

impl From<NamespaceScope> for Scope {
    fn from(scope: NamespaceScope) -> Self {
        match scope {
            NamespaceScope::All => Scope::AllNamespaces,
            NamespaceScope::Named(namespace) => Scope::Namespace(namespace),
        }
    }
}
