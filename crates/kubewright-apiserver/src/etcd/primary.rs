//! Writes, as transactions that compare the revision of the key.

use std::io;
use std::sync::{Arc, mpsc};

use kubewright_etcd::{Comparison, EtcdError, Operation, Transaction};
use kubewright_objects::etcd;
use kubewright_objects::object::StoredObject;
use kubewright_storage::{EventKind, Primary, PrimaryError, PrimaryWrite};

use super::database::{EtcdDatabase, chain};
use crate::offload;

/// Executes the writes of the store in etcd.
pub(crate) struct EtcdPrimary(pub(crate) Arc<EtcdDatabase>);

impl Primary<StoredObject> for EtcdPrimary {
    fn write(&self, write: PrimaryWrite<StoredObject>) -> Result<u64, PrimaryError> {
        if !offload::may_block() {
            // On a worker of the runtime, it could block the follower that it waits for.
            let why = "a write to etcd was attempted on a thread that must not wait";
            return Err(PrimaryError::Unavailable(io::Error::other(why)));
        }
        let database = Arc::clone(&self.0);
        let key = database.layout.encode(&write.key);
        let operation = match write.kind {
            EventKind::Deleted => Operation::Delete { key: key.clone().into() },
            EventKind::Created | EventKind::Modified => {
                let is_custom = database.layout.is_custom(write.key.resource());
                let unavailable = |problem: String| PrimaryError::Unavailable(io::Error::other(problem));
                let plain = etcd::encode(&write.value, is_custom).map_err(unavailable)?;
                let value = database.encryption.encrypt(write.key.resource(), key.as_bytes(), plain);
                let value = value.map_err(|error| unavailable(error.to_string()))?;
                database.in_flight.add(key.clone(), value.clone(), write.value);
                Operation::Put { key: key.clone().into(), value, lease: 0 }
            }
        };
        let is_event = write.key.resource() == "events" && !database.event_ttl.is_zero();
        let (reply, answer) = mpsc::sync_channel(1);
        let (runtime, expected, written) = (database.runtime.clone(), write.expected, key.clone());
        runtime.spawn(async move {
            let result = database.execute(key, operation, expected, is_event).await;
            // The writer waits, unless its thread has panicked.
            let _ = reply.send(result);
        });
        let stopped = |_| PrimaryError::Unavailable(io::Error::other("the server is stopping"));
        let result = answer.recv().map_err(stopped);
        self.0.in_flight.remove(&written);
        result?
    }

    fn stamp(&self, value: &StoredObject, revision: u64) -> StoredObject {
        value.with_revision(revision)
    }
}

impl EtcdDatabase {
    /// Executes a write, and waits until the store shows its result.
    async fn execute(
        &self,
        key: String,
        mut operation: Operation,
        expected: u64,
        is_event: bool,
    ) -> Result<u64, PrimaryError> {
        if let Operation::Put { lease, .. } = &mut operation
            && is_event
        {
            *lease = self.leases.lease(&self.client, self.event_ttl).await.map_err(unavailable)?;
        }
        let lease = if let Operation::Put { lease, .. } = &operation { *lease } else { 0 };
        let transaction = Transaction {
            compare: vec![Comparison::ModifiedAt { key: key.into(), revision: expected }],
            success: vec![operation],
            failure: Vec::new(),
        };
        let response = match self.client.transaction(&transaction).await {
            Err(error) if error.is_lease_not_found() => {
                self.leases.forget(lease).await;
                return Err(unavailable(error));
            }
            response => response.map_err(unavailable)?,
        };
        self.reach(response.revision).await.map_err(unavailable)?;
        if response.has_succeeded { Ok(response.revision) } else { Err(PrimaryError::Conflict) }
    }
}

fn unavailable(error: EtcdError) -> PrimaryError {
    let kind = if error.is_transient() { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
    PrimaryError::Unavailable(io::Error::new(kind, chain(&error)))
}
