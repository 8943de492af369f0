//! A use of an informer that a factory shares.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kubewright_core::{FieldSelector, Object, Selector, Str};
use tokio_util::sync::CancellationToken;

use crate::informer::{EventHandler, HandlerOptions, HandlerRegistration, InformerStopped, SharedIndexInformer};
use crate::lister::Lister;

/// A use of an informer. The informer stops when the last use has gone: this, a handler, or a lister.
///
/// Behaves as the [`SharedIndexInformer`] that it stands for.
pub struct InformerHandle<T> {
    informer: SharedIndexInformer<T>,
    lease: Arc<Lease>,
}

/// Held by all who use an informer; stops it when dropped.
pub(super) struct Lease {
    pub(super) stop: CancellationToken,
    /// Where the informer looks; none for everywhere.
    pub(super) namespaces: Vec<Str>,
    /// Whether that is wherever the factory looks.
    pub(super) is_all: bool,
    pub(super) label_selector: Selector,
    pub(super) field_selector: FieldSelector,
    /// Whether it lists through something that may leave objects out.
    pub(super) is_filtered: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<T> Clone for InformerHandle<T> {
    fn clone(&self) -> Self {
        InformerHandle { informer: self.informer.clone(), lease: self.lease.clone() }
    }
}

impl<T: Object> InformerHandle<T> {
    pub(super) fn new(informer: SharedIndexInformer<T>, lease: Arc<Lease>) -> Self {
        InformerHandle { informer, lease }
    }

    /// The informer; using it does not keep it running.
    #[doc(alias = "Informer")]
    pub fn informer(&self) -> &SharedIndexInformer<T> {
        &self.informer
    }

    /// The namespaces whose objects it has, in order; none if it has those of all, or of the cluster.
    pub fn namespaces(&self) -> &[Str] {
        &self.lease.namespaces
    }

    /// Whether it has the objects of this namespace; of the empty one, whether it has those of all that the factory looks into.
    pub fn covers(&self, namespace: &str) -> bool {
        let Lease { namespaces, is_all, .. } = &*self.lease;
        namespaces.is_empty() || namespaces.iter().any(|one| *one == *namespace) || namespace.is_empty() && *is_all
    }

    /// The labels that objects must have to be in the cache.
    pub fn label_selector(&self) -> &Selector {
        &self.lease.label_selector
    }

    /// The fields that objects must have to be in the cache.
    pub fn field_selector(&self) -> &FieldSelector {
        &self.lease.field_selector
    }

    /// Whether it lists and watches [through](crate::Scoped::through) something that may leave
    /// objects out.
    pub fn is_filtered(&self) -> bool {
        self.lease.is_filtered
    }

    /// What reads the cache; keeps the informer running.
    pub fn lister(&self) -> Lister<T> {
        self.informer.lister().keeping(self.lease.clone())
    }

    /// Adds a handler, which keeps the informer running until it is removed.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn add_handler(&self, handler: impl EventHandler<T>) -> Result<HandlerRegistration, InformerStopped> {
        self.add_handler_with(handler, HandlerOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// If the informer has stopped.
    pub fn add_handler_with(
        &self,
        handler: impl EventHandler<T>,
        options: HandlerOptions,
    ) -> Result<HandlerRegistration, InformerStopped> {
        self.informer.add(Box::new(handler), options, Some(self.lease.clone()))
    }
}

impl<T> Deref for InformerHandle<T> {
    type Target = SharedIndexInformer<T>;

    fn deref(&self) -> &SharedIndexInformer<T> {
        &self.informer
    }
}

impl<T: Object> fmt::Debug for InformerHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerHandle").field(&self.informer).finish()
    }
}
