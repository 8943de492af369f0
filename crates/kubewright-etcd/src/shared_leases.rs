//! Leases for keys that etcd deletes after a time.
//!
//! A lease costs etcd more than a key, so writes within a minute share one, as in kube-apiserver.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::EtcdError;

/// How long a lease is given to further keys.
const REUSE: Duration = Duration::from_secs(60);
/// The maximum number of keys of a lease. They end in one transaction.
const MAX_KEYS: usize = 1000;

/// The lease that the next key gets.
#[derive(Debug, Default)]
pub struct SharedLeases {
    current: Mutex<Option<Lease>>,
}

#[derive(Debug)]
struct Lease {
    id: i64,
    until: Instant,
    keys: usize,
}

impl SharedLeases {
    /// A lease that lasts at least this long, and at most a minute longer.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn lease(&self, client: &Client, time: Duration) -> Result<i64, EtcdError> {
        let mut current = self.current.lock().await;
        if let Some(lease) = current.as_mut().filter(|lease| lease.keys < MAX_KEYS && Instant::now() < lease.until) {
            lease.keys += 1;
            return Ok(lease.id);
        }
        // A short time must not be exceeded by much.
        let reuse = REUSE.min(time / 20);
        let id = client.grant_lease(time + reuse).await?;
        *current = Some(Lease { id, until: Instant::now() + reuse, keys: 1 });
        Ok(id)
    }

    /// Forgets a lease that etcd does not know.
    pub async fn forget(&self, lease: i64) {
        self.current.lock().await.take_if(|current| current.id == lease);
    }
}
