//! Election of the server that does background work: it holds a key with a lease.
//!
//! Background work is safe on two servers at a time, since all writes compare revisions. So the
//! leader needs no fencing, and may work until it notices that its lease has ended.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::error::EtcdError;
use crate::messages::request::{Comparison, Operation, RangeRequest, Transaction};

/// How long the key outlives a leader that has crashed.
const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// How often the leader extends its lease, and others try to take over.
const PERIOD: Duration = Duration::from_secs(3);

/// An election among servers.
pub struct Leadership {
    key: String,
    lease: Mutex<i64>,
}

impl Leadership {
    /// The leadership of the server that holds this key.
    pub fn new(key: impl Into<String>) -> Self {
        Leadership { key: key.into(), lease: Mutex::new(0) }
    }

    /// Waits until this server leads.
    pub async fn acquire(&self, client: &Client) {
        loop {
            match self.try_acquire(client).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "leadership was not acquired"),
            }
            sleep(PERIOD).await;
        }
    }

    async fn try_acquire(&self, client: &Client) -> Result<bool, EtcdError> {
        let key = self.key.clone().into_bytes();
        // A lease is expensive, and usually another server leads.
        if !client.range(&RangeRequest::key(key.clone())).await?.entries.is_empty() {
            return Ok(false);
        }
        let lease = client.grant_lease(TIME_TO_LIVE).await?;
        let transaction = Transaction {
            compare: vec![Comparison::ModifiedAt { key: key.clone(), revision: 0 }],
            success: vec![Operation::Put { key, value: std::process::id().to_string().into(), lease }],
            failure: Vec::new(),
        };
        let leads = client.transaction(&transaction).await?.has_succeeded;
        if leads {
            *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
        } else {
            client.revoke_lease(lease).await?;
        }
        Ok(leads)
    }

    /// Gives the leadership up, so that another server can take over at once. Does nothing if this
    /// server does not lead.
    ///
    /// # Errors
    /// [`EtcdError`]. The leadership then ends with its lease.
    pub async fn release(&self, client: &Client) -> Result<(), EtcdError> {
        let lease = std::mem::take(&mut *self.lease.lock().unwrap_or_else(PoisonError::into_inner));
        if lease == 0 { Ok(()) } else { client.revoke_lease(lease).await }
    }

    /// Extends the lease until it has ended.
    pub async fn hold(&self, client: &Client) {
        let lease = *self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let mut extended = Instant::now();
        while extended.elapsed() < TIME_TO_LIVE {
            sleep(PERIOD).await;
            match client.keep_lease_alive(lease).await {
                Ok(Some(_)) => extended = Instant::now(),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "the lease of the leader was not extended");
                    client.switch_member().await;
                }
            }
        }
    }
}
