//! The object model: what all objects have in common, and objects of any kind.

pub mod condition;
mod dynamic;
pub mod finalizer;
pub(crate) mod impls;
#[cfg(feature = "k8s-openapi")]
mod k8s_openapi;
pub mod owner;
mod resource;
mod scope;
mod traits;

pub use dynamic::{DynamicObject, PathError};
pub use resource::{ColumnInfo, ResourceInfo, SubresourceInfo};
pub use scope::{
    AllNamespaces, CanBeClusterScoped, CanBeNamespaced, ClusterScoped, NamespaceScope, Namespaced, ResourceScope,
    RuntimeScope,
};
pub use traits::{EncodedMap, Kind, Object, StringMap};
