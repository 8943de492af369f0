//! Which objects of a resource are meant.

use kubewright_core::Str;

/// Which objects of a resource are meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Those of a resource that has no namespaces.
    Cluster,
    /// Those in all namespaces, which can be listed and watched together.
    AllNamespaces,
    /// Those in one namespace.
    Namespace(Str),
}
