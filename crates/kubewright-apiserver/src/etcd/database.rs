//! The connection of a server to etcd, shared by its parts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kubewright_core::meta::v1::Status;
use kubewright_etcd::{Client, Encryption, EtcdError, Leadership, RevisionReader, SharedLeases};
use kubewright_net::task::BoxFuture;
use kubewright_objects::etcd::Layout;
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_resources::catalog::Catalog;
use kubewright_storage::{Key, KeyRange, Store};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::EtcdOptions;
use crate::registry::{PastPage, SharedDatabase};

/// How long the store may take to reach a revision that etcd has.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server that stops waits for etcd to take the leadership back.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);
/// The first pause before the follower requests a progress notification. Usually the revision is
/// that of an event, which arrives sooner.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Later pauses. kube-apiserver requests progress in this interval.
const PAUSE: Duration = Duration::from_millis(100);

/// The connection of a server to etcd.
pub(crate) struct EtcdDatabase {
    pub(super) client: Client,
    pub(super) layout: Layout,
    pub(super) encryption: Encryption,
    pub(super) leases: SharedLeases,
    /// The time to live of events. Zero keeps them forever.
    pub(super) event_ttl: Duration,
    pub(super) in_flight: InFlightWrites,
    /// The objects that are not encrypted as new ones are.
    outdated: Mutex<HashSet<Key>>,
    /// Set before the first request.
    store: OnceLock<Store<StoredObject>>,
    revisions: RevisionReader,
    leadership: Leadership,
    /// Notified when a request waits for a revision without an event.
    pub(super) wants_progress: Notify,
    failure: Mutex<Option<Arc<str>>>,
    pub(super) runtime: Handle,
}

impl EtcdDatabase {
    pub(super) fn connect(options: &EtcdOptions, event_ttl: Duration) -> std::io::Result<Arc<Self>> {
        let client = Client::new(options.client.clone())?;
        let layout = Layout::new(&options.prefix);
        Ok(Arc::new(EtcdDatabase {
            revisions: RevisionReader::new(client.clone()),
            client,
            // No resource has this folder, so that kube-apiserver does not see the key.
            leadership: Leadership::new(format!("{}kubewright/housekeeping", layout.prefix())),
            layout,
            encryption: options.encryption.clone(),
            leases: SharedLeases::default(),
            event_ttl,
            in_flight: InFlightWrites::default(),
            outdated: Mutex::default(),
            store: OnceLock::new(),
            wants_progress: Notify::new(),
            failure: Mutex::default(),
            runtime: Handle::current(),
        }))
    }

    /// Connects the store that follows this database.
    pub(crate) fn attach(&self, store: Store<StoredObject>) {
        // There is one store.
        let _ = self.store.set(store);
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the store has reached a revision of etcd.
    pub(super) async fn reach(&self, revision: u64) -> Result<(), EtcdError> {
        let Some(store) = self.store.get() else { return Ok(()) };
        let (deadline, mut pause) = (Instant::now() + REACH_TIMEOUT, FIRST_PAUSE);
        while timeout(pause, store.wait_until(revision)).await.is_err() {
            if Instant::now() >= deadline {
                return Err(EtcdError::TimedOut);
            }
            self.wants_progress.notify_one();
            pause = PAUSE;
        }
        Ok(())
    }

    /// Records whether an object is encrypted as new ones are.
    pub(super) fn note_encryption(&self, key: &Key, is_current: bool) {
        let mut outdated = self.outdated.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_current {
            outdated.insert(key.clone());
        } else if !outdated.is_empty() {
            outdated.remove(key);
        }
    }

    /// Records whether the follower has a connection.
    pub(super) fn set_failure(&self, failure: Option<&EtcdError>) {
        let text = failure.map(|error| chain(error).into());
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl SharedDatabase for EtcdDatabase {
    fn barrier(&self) -> BoxFuture<'_, Result<(), Rejection>> {
        Box::pin(async {
            let revision = self.revisions.revision().await.map_err(|error| rejection(&error))?;
            self.reach(revision).await.map_err(|error| rejection(&error))
        })
    }

    fn read_past<'a>(
        &'a self,
        scope: &'a KeyRange,
        revision: u64,
        after: Option<&'a Key>,
        limit: usize,
        catalog: &'a Arc<Catalog>,
    ) -> BoxFuture<'a, Result<Option<PastPage>, Rejection>> {
        Box::pin(self.list_past(scope, revision, after, limit, catalog))
    }

    fn is_outdated(&self, key: &Key) -> bool {
        self.outdated.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    fn lead(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.leadership.acquire(&self.client))
    }

    fn leadership_lost(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.leadership.hold(&self.client))
    }

    fn stop_leading(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // Without an answer, the leadership ends with its lease.
            match timeout(RELEASE_TIMEOUT, self.leadership.release(&self.client)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the leadership was not released"),
                Err(_) => tracing::debug!("the leadership was not released in time"),
            }
        })
    }

    fn failure(&self) -> Option<Arc<str>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The response to a request that needs etcd while it does not answer. As in kube-apiserver, etcd's
/// own errors are internal errors, and an unreachable etcd is a timeout.
pub(super) fn rejection(error: &EtcdError) -> Rejection {
    match error {
        EtcdError::Unreachable { .. } | EtcdError::Interrupted(_) => {
            let why = "request did not complete within the allotted timeout: etcd cannot be reached";
            Status::timeout(why, 0).into()
        }
        error => Status::internal(error.to_string()).into(),
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The values that this server is writing, so that the follower need not decode them again.
#[derive(Default)]
pub(super) struct InFlightWrites {
    of_key: Mutex<HashMap<String, InFlightWrite>>,
}

struct InFlightWrite {
    bytes: Vec<u8>,
    object: Arc<StoredObject>,
}

impl InFlightWrites {
    pub(super) fn add(&self, key: String, bytes: Vec<u8>, object: Arc<StoredObject>) {
        self.lock().insert(key, InFlightWrite { bytes, object });
    }

    /// The object of these bytes, if this server is writing them. It has another revision.
    pub(super) fn find(&self, key: &[u8], bytes: &[u8]) -> Option<Arc<StoredObject>> {
        let key = std::str::from_utf8(key).ok()?;
        let writes = self.lock();
        writes.get(key).filter(|write| write.bytes == bytes).map(|write| Arc::clone(&write.object))
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, InFlightWrite>> {
        self.of_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
