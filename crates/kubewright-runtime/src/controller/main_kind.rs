//! The main kind of a controller.

use kubewright_cache::InformerHandle;
use kubewright_core::{GroupKind, Str};

use super::predicate::Predicate;

/// The kind whose objects a controller reconciles. Public only as a part of the sealed
/// [`Subject`](super::Subject).
pub struct MainKind<T> {
    pub(super) kind: GroupKind,
    pub(super) resource: Str,
    pub(super) is_namespaced: bool,
    pub(super) informer: InformerHandle<T>,
    pub(super) filter: Option<Predicate<T>>,
    /// Whether the controller starts without it.
    pub(super) is_optional: bool,
}
