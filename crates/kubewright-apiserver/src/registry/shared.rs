//! Objects in a database that several servers share.
//!
//! The store then follows the database (`following`), and its writes block until they are
//! executed there. So everything that writes runs on threads that may block.

use std::sync::Arc;

use kubewright_net::task::BoxFuture;

use super::Registry;
use crate::admission::quota::QuotaPermit;
use kubewright_core::Value;
use kubewright_core::meta::v1::Status;
use kubewright_objects::object::StoredObject;
use kubewright_objects::rejection::Rejection;
use kubewright_objects::service_numbers::{Allocations, allocation_writes, missing_allocations};
use kubewright_resources::catalog::{Catalog, Resource};
use kubewright_storage::{EventKind, Key, KeyRange, PrimaryWrite, WriteError};

/// Maximum number of writes that wait for the database at a time.
pub(super) const CONCURRENT_WRITES: usize = 256;

/// A part of the objects of a scope at a past revision.
pub(crate) struct PastPage {
    /// Objects that cannot be decoded are missing.
    pub(crate) entries: Vec<(Key, Option<Arc<StoredObject>>)>,
    /// The number of objects from the first one to the end of the scope.
    pub(crate) count: usize,
}

/// A database that several servers share.
pub(crate) trait SharedDatabase: Send + Sync {
    /// Waits until the store shows all writes that were acknowledged before, by any server.
    fn barrier(&self) -> BoxFuture<'_, Result<(), Rejection>>;

    /// Reads a part of a scope at a revision before those of the log. `None` if the database does
    /// not have it any more.
    fn read_past<'a>(
        &'a self,
        scope: &'a KeyRange,
        revision: u64,
        after: Option<&'a Key>,
        limit: usize,
        catalog: &'a Arc<Catalog>,
    ) -> BoxFuture<'a, Result<Option<PastPage>, Rejection>>;

    /// Whether an object has to be stored again although it is unchanged, for another encryption.
    fn is_outdated(&self, key: &Key) -> bool;

    /// Waits until this server may do the background work of all servers.
    fn lead(&self) -> BoxFuture<'_, ()>;

    /// Waits until another server may do it. Only while this one [leads](Self::lead).
    fn leadership_lost(&self) -> BoxFuture<'_, ()>;

    /// Lets another server lead at once, because this one stops.
    fn stop_leading(&self) -> BoxFuture<'_, ()>;

    /// Why the database cannot be followed at present, if it cannot.
    fn failure(&self) -> Option<Arc<str>>;
}

impl Registry {
    /// The writes that are executed together with a change from `before` to `after`, so that no
    /// other server gives the same addresses and ports, or uses the same quota. `None` if another
    /// server has just taken a number.
    ///
    /// # Errors
    ///
    /// The stored node ports cannot be read.
    pub(super) fn companions(
        &self,
        resource: &Resource,
        before: Option<&Value>,
        after: Option<&Value>,
        permit: Option<&QuotaPermit<'_>>,
    ) -> Result<Option<Vec<PrimaryWrite<StoredObject>>>, Rejection> {
        if self.database.is_none() {
            return Ok(Some(Vec::new()));
        }
        let mut writes = permit.map(|permit| permit.charges().to_vec()).unwrap_or_default();
        if resource.is("", "services") {
            match allocation_writes(self, || self.indices.services(), before, after)? {
                Allocations::Writes(allocations) => writes.extend(allocations),
                Allocations::Taken => return Ok(None),
            }
        }
        Ok(Some(writes))
    }

    /// Stores the allocations of Services that have none, because an older server stored them.
    ///
    /// # Errors
    ///
    /// The database cannot execute the writes.
    pub(crate) fn store_missing_allocations(&self) -> Result<(), Rejection> {
        if self.database.is_none() {
            return Ok(());
        }
        loop {
            let mut is_complete = true;
            for (key, expected, draft) in missing_allocations(self, || self.indices.services())? {
                let kind = if expected.is_some() { EventKind::Modified } else { EventKind::Created };
                match self.store.write_together(kind, &key, expected, draft, Vec::new()) {
                    Err(WriteError::Backend(error)) => return Err(Status::internal(error.to_string()).into()),
                    // Another server writes it. Then this one looks again.
                    written => is_complete &= written.is_ok(),
                }
            }
            if is_complete {
                return Ok(());
            }
        }
    }

    /// Runs work that writes. If writes wait for a database, it runs on threads that may block.
    ///
    /// # Errors
    ///
    /// 500 if the work panics there.
    pub(crate) async fn run_writes<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Rejection> {
        if self.database.is_none() { Ok(work.await) } else { self.writes.drive(work).await }
    }
}
