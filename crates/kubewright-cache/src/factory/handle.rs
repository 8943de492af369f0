//! A handle to an informer shared by a factory.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kubewright_client::Client;
use kubewright_core::{FieldSelector, Object, Selector, Str};
use tokio_util::sync::CancellationToken;

use crate::informer::{EventHandler, HandlerOptions, HandlerRegistration, InformerStopped, SharedIndexInformer};
use crate::lister::Lister;

/// A handle to a shared informer. The informer stops when its last handle, handler and lister is
/// dropped.
///
/// Dereferences to [`SharedIndexInformer`].
pub struct InformerHandle<T> {
    informer: SharedIndexInformer<T>,
    lease: Arc<UsageGuard>,
}

/// Held by every user of an informer; stops it when dropped.
pub(super) struct UsageGuard {
    pub(super) stop: CancellationToken,
    /// The client that the informer lists and watches with.
    pub(super) client: Client,
    /// Namespaces that the informer watches; empty for all.
    pub(super) namespaces: Vec<Str>,
    /// Whether these are the factory's namespaces.
    pub(super) is_all: bool,
    pub(super) label_selector: Selector,
    pub(super) field_selector: FieldSelector,
    /// Whether the informer lists through a wrapper that may filter objects.
    pub(super) is_filtered: bool,
}

impl Drop for UsageGuard {
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
    pub(super) fn new(informer: SharedIndexInformer<T>, lease: Arc<UsageGuard>) -> Self {
        InformerHandle { informer, lease }
    }

    /// The informer. A reference to it does not keep it running.
    #[doc(alias = "Informer")]
    pub fn informer(&self) -> &SharedIndexInformer<T> {
        &self.informer
    }

    /// Whether both are handles to one informer.
    pub fn shares_informer(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.lease, &other.lease)
    }

    /// The client that the informer lists and watches with.
    pub fn client(&self) -> &Client {
        &self.lease.client
    }

    /// The namespaces that the informer watches, in order; empty for all namespaces or
    /// cluster-scoped objects.
    pub fn namespaces(&self) -> &[Str] {
        &self.lease.namespaces
    }

    /// Whether the informer watches `namespace`. For the empty namespace: whether it watches all
    /// namespaces of the factory.
    pub fn covers(&self, namespace: &str) -> bool {
        let UsageGuard { namespaces, is_all, .. } = &*self.lease;
        namespaces.is_empty() || namespaces.iter().any(|one| *one == *namespace) || namespace.is_empty() && *is_all
    }

    /// The label selector of the cache.
    pub fn label_selector(&self) -> &Selector {
        &self.lease.label_selector
    }

    /// The field selector of the cache.
    pub fn field_selector(&self) -> &FieldSelector {
        &self.lease.field_selector
    }

    /// Whether it lists and watches [through](crate::InformerScope::wrap) a wrapper that may filter
    /// objects.
    pub fn is_filtered(&self) -> bool {
        self.lease.is_filtered
    }

    /// A lister over the cache; it keeps the informer running.
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

    /// Like [`add_handler`](Self::add_handler), with options.
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
