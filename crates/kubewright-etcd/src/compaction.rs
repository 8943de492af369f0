//! Compaction of etcd, by one of the servers.
//!
//! All servers, kube-apiserver included, write the key `compact_rev_key` in each interval if it is
//! unchanged since the last one. Who succeeds compacts to the revision of one interval ago.

use std::time::Duration;

use tokio::sync::watch;

use crate::client::Client;
use crate::error::EtcdError;
use crate::messages::request::{Comparison, Operation, Transaction};

const KEY: &str = "compact_rev_key";

/// Compacts in each interval until `stop` is set. A zero interval leaves it to other servers.
pub async fn compact_regularly(client: Client, interval: Duration, mut stop: watch::Receiver<bool>) {
    if interval.is_zero() {
        return;
    }
    let mut known = Known::default();
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = stop.wait_for(|stopped| *stopped) => return,
        }
        match known.compact(&client).await {
            Ok(()) => {}
            Err(error) if error.is_compacted() => {}
            Err(error) => tracing::warn!(%error, "etcd was not compacted"),
        }
    }
}

/// The state of etcd in the last interval.
#[derive(Default)]
struct Known {
    /// The number of writes of the key.
    version: u64,
    /// The revision of etcd.
    revision: u64,
}

impl Known {
    /// Compacts to the revision known so far, if no other server has done so.
    async fn compact(&mut self, client: &Client) -> Result<(), EtcdError> {
        let Known { version, revision } = *self;
        let transaction = Transaction {
            compare: vec![Comparison::Version { key: KEY.into(), version }],
            success: vec![Operation::Put { key: KEY.into(), value: revision.to_string().into(), lease: 0 }],
            failure: vec![Operation::Get { key: KEY.into() }],
        };
        let response = client.transaction(&transaction).await?;
        self.revision = response.revision;
        if !response.has_succeeded {
            self.version = response.found.into_iter().flatten().next().map_or(0, |found| found.version);
            return Ok(());
        }
        self.version = version + 1;
        if revision == 0 { Ok(()) } else { client.compact(revision).await }
    }
}
