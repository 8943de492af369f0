//! The scope of requests.

use kubewright_core::Str;

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
