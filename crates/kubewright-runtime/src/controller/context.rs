//! What a reconciler is given besides the object.

use std::fmt;
use std::sync::Arc;

use kubewright_cache::{InformerHandle, Lister};
use kubewright_client::{Api, Client};
use kubewright_core::{Kind, Object, ObjectKey, Str};
use tokio_util::sync::CancellationToken;

use super::health::ControllerHealth;
use super::reason::Reasons;
use super::shared::Shared;
use crate::consistency::OwnApi;

/// One run of a reconciler: for which key, why, and with which means. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) key: ObjectKey,
    pub(super) reasons: Reasons,
    pub(super) attempt: u32,
    pub(super) reconcile_id: u64,
    pub(super) means: Arc<Means>,
}

/// What all runs of a controller have in common, so that a run takes one reference.
pub(super) struct Means {
    pub(super) client: Client,
    pub(super) shared: Arc<Shared>,
    pub(super) stop: CancellationToken,
}

impl Context {
    #[inline]
    pub(super) fn new(inner: Inner) -> Self {
        Context { inner: Arc::new(inner) }
    }

    /// The key of the object that is reconciled.
    #[doc(alias = "Request")]
    pub fn key(&self) -> &ObjectKey {
        &self.inner.key
    }

    /// Everything that happened since the run before, because of which this one runs.
    pub fn reasons(&self) -> &Reasons {
        &self.inner.reasons
    }

    /// Which try this is: 1, and one more for each failure in a row.
    pub fn attempt(&self) -> u32 {
        self.inner.attempt
    }

    /// Names this run in logs.
    #[doc(alias = "ReconcileIDFromContext")]
    pub fn reconcile_id(&self) -> String {
        format!("{:016x}", self.inner.reconcile_id)
    }

    /// Cancelled when the controller is to stop; the run in hand may be finished.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.means.stop
    }

    /// The client as it is, whose writes nobody keeps account of.
    pub fn client(&self) -> &Client {
        &self.inner.means.client
    }

    /// The objects of a type in a namespace, with account kept of what is written: the next run for this key waits until the
    /// cache has it.
    pub fn api<K: Kind>(&self, namespace: impl Into<Str>) -> OwnApi<K> {
        self.own(Api::namespaced(&self.inner.means.client, namespace))
    }

    /// The same for objects of the cluster.
    pub fn cluster_api<K: Kind>(&self) -> OwnApi<K> {
        self.own(Api::all(&self.inner.means.client))
    }

    /// The same over any `api`.
    pub fn own<K: Object>(&self, api: Api<K>) -> OwnApi<K> {
        OwnApi::new(api, self.clone())
    }

    /// What reads the cache of a type that this controller watches; `None` if it does not.
    pub fn cached<K: Object>(&self) -> Option<Lister<K>> {
        self.informer::<K>().map(|informer| informer.lister())
    }

    /// Whether the cache of a type that this controller watches is complete. If not, what is missing there may exist.
    pub fn has_synced<K: Object>(&self) -> bool {
        let relations = self.shared().relations();
        let mut of_type = relations.iter().filter(|relation| relation.informer().is::<InformerHandle<K>>());
        of_type.next().is_some_and(|relation| relation.has_synced())
    }

    /// How the controller is doing.
    pub fn health(&self) -> ControllerHealth {
        self.shared().health()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.inner.means.shared
    }

    pub(crate) fn informer<K: Object>(&self) -> Option<InformerHandle<K>> {
        let relations = self.shared().relations();
        relations.iter().find_map(|relation| relation.informer().downcast_ref::<InformerHandle<K>>().cloned())
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
