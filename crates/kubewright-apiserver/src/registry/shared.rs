//! Objects in a database that several servers share.
//!
//! The store then follows the database (`following`), and its writes block until they are
//! executed there. So everything that writes runs on threads that may block.

use std::sync::Arc;

use kubewright_net::task::BoxFuture;

use super::Registry;
use kubewright_objects::rejection::Rejection;

/// Maximum number of writes that wait for the database at a time.
pub(super) const CONCURRENT_WRITES: usize = 256;

/// A database that several servers share.
pub(crate) trait SharedDatabase: Send + Sync {
    /// Waits until the store shows all writes that were acknowledged before, by any server.
    fn barrier(&self) -> BoxFuture<'_, Result<(), Rejection>>;

    /// Waits until this server may do the background work of all servers.
    fn lead(&self) -> BoxFuture<'_, ()>;

    /// Waits until another server may do it. Only while this one [leads](Self::lead).
    fn leadership_lost(&self) -> BoxFuture<'_, ()>;

    /// Why the database cannot be followed at present, if it cannot.
    fn failure(&self) -> Option<Arc<str>>;
}

impl Registry {
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
