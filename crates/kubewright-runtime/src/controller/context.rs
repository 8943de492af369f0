//! The context of a reconcile.

use std::fmt;
use std::sync::Arc;

use kubewright_cache::{InformerHandle, Lister};
use kubewright_client::Client;
use kubewright_core::{Object, ObjectKey};
use kubewright_net::observation;
use tokio_util::sync::CancellationToken;

use super::health::ControllerHealth;
use super::reason::Reasons;
use super::relation::Relation;
use super::shared::SharedController;

/// The context of one reconcile: key, reasons, client and caches. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<ContextInner>,
}

pub(super) struct ContextInner {
    pub(super) key: ObjectKey,
    pub(super) reasons: Reasons,
    pub(super) attempt: u32,
    pub(super) reconcile_id: u64,
    pub(super) shared_context: Arc<SharedContext>,
}

/// State shared by all reconciles of a controller, so that each takes one reference.
pub(super) struct SharedContext {
    pub(super) client: Client,
    pub(super) shared: Arc<SharedController>,
    pub(super) stop: CancellationToken,
}

/// Why [`Context::cached`] returns no lister.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheLookupError {
    /// The controller does not watch the type.
    #[error("the controller does not watch {kind}")]
    NotWatched {
        /// The name of the type.
        kind: &'static str,
    },
    /// The controller has several caches of the type.
    #[error("the controller has several caches of {kind}")]
    Ambiguous {
        /// The name of the type.
        kind: &'static str,
    },
}

impl Context {
    #[inline]
    pub(super) fn new(inner: ContextInner) -> Self {
        Context { inner: Arc::new(inner) }
    }

    /// The key of the reconciled object.
    #[doc(alias = "Request")]
    pub fn key(&self) -> &ObjectKey {
        &self.inner.key
    }

    /// The reasons of this reconcile: everything that happened since the previous one.
    pub fn reasons(&self) -> &Reasons {
        &self.inner.reasons
    }

    /// The attempt: 1, plus one for each preceding retry with back-off.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// An id of this reconcile, for logs.
    #[doc(alias = "ReconcileIDFromContext")]
    pub fn reconcile_id(&self) -> String {
        format!("{:016x}", self.inner.reconcile_id)
    }

    /// The id as a number.
    pub(super) fn random_id(&self) -> u64 {
        self.inner.reconcile_id
    }

    /// A random number. In contrast to other sources of random numbers, a recording has it, and a
    /// replay draws it again. The time of day is [`clock::now`](kubewright_client::clock::now),
    /// which is recorded too.
    pub fn random(&self) -> u64 {
        observation::random(self.shared().random.next())
    }

    /// Cancelled when the controller is to stop; this reconcile may be finished.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.shared_context.stop
    }

    /// The client. Its writes are not tracked.
    pub fn client(&self) -> &Client {
        &self.inner.shared_context.client
    }

    /// A lister over the cache of a watched type.
    ///
    /// # Errors
    /// If the controller does not watch the type, or has several caches of it, for example with
    /// different selectors or of two clusters. Then keep the lister of the wanted informer, or read
    /// through [`own`](Self::own).
    pub fn cached<K: Object>(&self) -> Result<Lister<K>, CacheLookupError> {
        let kind = std::any::type_name::<K>();
        let relations = self.shared().relations();
        let mut informers =
            relations.iter().filter_map(|relation| relation.informer().downcast_ref::<InformerHandle<K>>());
        let first = informers.next().ok_or(CacheLookupError::NotWatched { kind })?;
        if informers.any(|other| !other.shares_informer(first)) {
            return Err(CacheLookupError::Ambiguous { kind });
        }
        Ok(first.lister())
    }

    /// Whether all caches of a watched type have synced. If not, an object that they lack may
    /// exist.
    pub fn has_synced<K: Object>(&self) -> bool {
        let relations = self.shared().relations();
        let is_of_type = |relation: &&Arc<dyn Relation>| relation.informer().is::<InformerHandle<K>>();
        let mut of_type = relations.iter().filter(is_of_type).peekable();
        of_type.peek().is_some() && of_type.all(|relation| relation.has_synced())
    }

    /// The health of the controller.
    pub fn health(&self) -> ControllerHealth {
        self.shared().health()
    }

    pub(crate) fn shared(&self) -> &SharedController {
        &self.inner.shared_context.shared
    }
}

impl fmt::Debug for Context {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown.field("key", &self.inner.key).field("attempt", &self.inner.attempt);
        shown.field("reasons", &self.inner.reasons).finish_non_exhaustive()
    }
}
