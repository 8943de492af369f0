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
    fn write(&self, writes: Vec<PrimaryWrite<StoredObject>>) -> Result<u64, PrimaryError> {
        if !offload::may_block() {
            // On a worker of the runtime, it could block the follower that it waits for.
            let why = "a write to etcd was attempted on a thread that must not wait";
            return Err(PrimaryError::Unavailable(io::Error::other(why)));
        }
        let database = Arc::clone(&self.0);
        let (mut compare, mut success) = (Vec::new(), Vec::new());
        let is_of_events = |write: &PrimaryWrite<_>| write.key.resource() == "events";
        let is_event = writes.first().is_some_and(is_of_events) && !database.event_ttl.is_zero();
        let keys: Vec<String> = writes.iter().map(|write| database.layout.encode(&write.key)).collect();
        let in_flight = InFlight { database: &database, keys: &keys };
        for (write, key) in writes.into_iter().zip(&keys) {
            compare.push(Comparison::ModifiedAt { key: key.clone().into(), revision: write.expected });
            success.push(database.operation(write, key)?);
        }
        let (reply, answer) = mpsc::sync_channel(1);
        let (runtime, executor) = (database.runtime.clone(), Arc::clone(&database));
        runtime.spawn(async move {
            let transaction = Transaction { compare, success, failure: Vec::new() };
            let result = executor.execute(transaction, is_event).await;
            // The writer waits, unless its thread has panicked.
            let _ = reply.send(result);
        });
        let stopped = |_| PrimaryError::Unavailable(io::Error::other("the server is stopping"));
        let result = answer.recv().map_err(stopped);
        drop(in_flight);
        result?
    }

    fn stamp(&self, value: &StoredObject, revision: u64) -> StoredObject {
        value.with_revision(revision)
    }
}

/// Forgets the values in flight at the end of a write.
struct InFlight<'a> {
    database: &'a EtcdDatabase,
    keys: &'a [String],
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.keys.iter().for_each(|key| self.database.in_flight.remove(key));
    }
}

impl EtcdDatabase {
    /// The operation that writes a key.
    fn operation(&self, write: PrimaryWrite<StoredObject>, key: &str) -> Result<Operation, PrimaryError> {
        if write.kind == EventKind::Deleted {
            return Ok(Operation::Delete { key: key.into() });
        }
        let is_custom = self.layout.is_custom(write.key.resource());
        let unavailable = |problem: String| PrimaryError::Unavailable(io::Error::other(problem));
        let plain = etcd::encode(&write.value, is_custom).map_err(unavailable)?;
        let value = self.encryption.encrypt(write.key.resource(), key.as_bytes(), plain);
        let value = value.map_err(|error| unavailable(error.to_string()))?;
        self.in_flight.add(key.to_owned(), value.clone(), write.value);
        Ok(Operation::Put { key: key.into(), value, lease: 0 })
    }

    /// Executes a transaction, and waits until the store shows its result.
    async fn execute(&self, mut transaction: Transaction, is_event: bool) -> Result<u64, PrimaryError> {
        let mut lease = 0;
        if let Some(Operation::Put { lease: of_event, .. }) = transaction.success.first_mut()
            && is_event
        {
            lease = self.leases.lease(&self.client, self.event_ttl).await.map_err(unavailable)?;
            *of_event = lease;
        }
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
