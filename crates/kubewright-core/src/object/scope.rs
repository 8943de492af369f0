//! The scope of objects: namespaced or cluster-scoped.
//!
//! [`Object::Scope`](crate::Object::Scope) is a type, as in kube-rs, so that a namespace of a
//! cluster-scoped kind is a compile error. [`NamespaceScope`] is what functions take that read one
//! namespace or all: a name converts to it, and so does [`AllNamespaces`]. An empty name selects
//! nothing, because it is usually a value that was never set: the request fails.

use crate::Str;

/// The scope of namespaced kinds, such as `Pod`.
#[derive(Debug, Clone, Copy)]
pub enum Namespaced {}

/// The scope of cluster-scoped kinds, such as `Node`.
#[derive(Debug, Clone, Copy)]
pub enum ClusterScoped {}

/// The scope of types whose kind is only known at run time, such as
/// [`DynamicObject`](crate::DynamicObject).
#[derive(Debug, Clone, Copy)]
pub enum RuntimeScope {}

/// [`Namespaced`], [`ClusterScoped`] or [`RuntimeScope`].
pub trait ResourceScope: sealed::Sealed + 'static {}

impl ResourceScope for Namespaced {}
impl ResourceScope for ClusterScoped {}
impl ResourceScope for RuntimeScope {}

/// The scope of objects that have, or may have, a namespace.
#[diagnostic::on_unimplemented(
    message = "objects of this kind are cluster-scoped and have no namespace",
    label = "a cluster-scoped kind has no namespace",
    note = "use `client.cluster_api::<K>()` or `Api::<K>::all(&client)`; in a reconciler, `context.cluster_api::<K>()`"
)]
pub trait CanBeNamespaced: ResourceScope {}

impl CanBeNamespaced for Namespaced {}
impl CanBeNamespaced for RuntimeScope {}

/// The scope of objects that have, or may have, no namespace.
#[diagnostic::on_unimplemented(
    message = "objects of this kind are namespaced",
    label = "a namespaced kind needs a namespace",
    note = "use `api::<K>(\"name\")`, or `api::<K>(AllNamespaces)`"
)]
pub trait CanBeClusterScoped: ResourceScope {}

impl CanBeClusterScoped for ClusterScoped {}
impl CanBeClusterScoped for RuntimeScope {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Namespaced {}
    impl Sealed for super::ClusterScoped {}
    impl Sealed for super::RuntimeScope {}
}

/// All namespaces, as an argument.
///
/// ```
/// # use kubewright_core::{AllNamespaces, NamespaceScope};
/// assert_eq!(NamespaceScope::from(AllNamespaces), NamespaceScope::All);
/// assert_ne!(NamespaceScope::from(""), NamespaceScope::All);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "NamespaceAll")]
pub struct AllNamespaces;

/// One namespace, or all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamespaceScope {
    /// All namespaces, for lists and watches.
    All,
    /// The namespace of this name. The empty name is none: requests with it fail.
    Named(Str),
}

impl From<AllNamespaces> for NamespaceScope {
    fn from(_: AllNamespaces) -> Self {
        NamespaceScope::All
    }
}

macro_rules! from_names {
    ($($name:ty),*) => {$(
        impl From<$name> for NamespaceScope {
            #[inline]
            fn from(name: $name) -> Self {
                NamespaceScope::Named(name.into())
            }
        }
    )*};
}

from_names!(&str, &String, String, Str);

impl From<&Str> for NamespaceScope {
    #[inline]
    fn from(name: &Str) -> Self {
        NamespaceScope::Named(name.clone())
    }
}
