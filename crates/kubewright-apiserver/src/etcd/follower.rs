//! Follows etcd: applies all writes under the prefix to the store, in order.
//!
//! A broken watch goes on at the next member, after the last revision that was applied. If that has
//! been compacted, all objects are read again, and all watches of clients end with 410.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kubewright_etcd::{EtcdError, WatchEvent, WatchRequest, WatchResponse, prefix_end};
use kubewright_objects::object::StoredObject;
use kubewright_storage::{FollowedChange, Key};
use tokio::sync::watch;
use tokio::time::sleep;

use super::database::{EtcdDatabase, chain};
use crate::registry::Registry;

/// The pause before a broken watch is started again. It doubles up to the second value.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// The oldest versions whose progress notifications never come before earlier events, by minor
/// version. Newer minor versions are right from the start. kube-apiserver trusts the same ones.
const TRUSTED: [(u32, u32, u32); 2] = [(3, 4, 31), (3, 5, 13)];

/// Follows etcd until `stop` is set.
pub(crate) async fn follow(database: Arc<EtcdDatabase>, registry: Arc<Registry>, mut stop: watch::Receiver<bool>) {
    let follower = Follower { database, registry };
    tokio::select! {
        () = follower.run() => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
}

struct Follower {
    database: Arc<EtcdDatabase>,
    registry: Arc<Registry>,
}

/// Why a watch ended without an error.
enum WatchEnd {
    /// Its next revision has been compacted.
    Compacted,
    /// etcd ended it for another reason.
    Canceled(String),
}

impl Follower {
    async fn run(&self) {
        let mut pause = BACKOFF.0;
        loop {
            let before = self.registry.store.current_revision();
            let end = match self.watch().await {
                Ok(WatchEnd::Compacted) => self.list().await,
                Ok(WatchEnd::Canceled(reason)) => {
                    tracing::warn!(reason, "etcd ended the watch");
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = end {
                tracing::warn!(error = chain(&error), "the watch of etcd broke, and is started again");
                self.database.set_failure(Some(&error));
                self.database.client.switch_member().await;
            }
            pause = if self.registry.store.current_revision() > before { BACKOFF.0 } else { pause };
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
    }

    /// Watches until the watch ends.
    async fn watch(&self) -> Result<WatchEnd, EtcdError> {
        let client = &self.database.client;
        let has_progress = has_reliable_progress(&client.status().await?.version);
        let prefix = self.database.layout.prefix().as_bytes();
        // The last revision is sent again, and skipped. Otherwise a deletion right after it would
        // be lost if it is the compacted revision: etcd before 3.5.18 does not send it then.
        let start_revision = self.registry.store.current_revision();
        let request = if has_progress {
            WatchRequest { key: prefix.to_vec(), end: prefix_end(prefix), start_revision }
        } else {
            // Every revision then has an event.
            WatchRequest { key: vec![0], end: vec![0], start_revision }
        };
        let mut watch = client.watch(&request).await?;
        loop {
            tokio::select! {
                response = watch.next() => {
                    let response = response?;
                    self.database.set_failure(None);
                    if response.is_canceled {
                        return Ok(match response.compact_revision {
                            0 => WatchEnd::Canceled(response.cancel_reason),
                            _ => WatchEnd::Compacted,
                        });
                    }
                    self.apply(response, has_progress);
                }
                () = self.database.wants_progress.notified(), if has_progress => watch.request_progress()?,
            }
        }
    }

    fn apply(&self, response: WatchResponse, has_progress: bool) {
        if response.events.is_empty() {
            if has_progress && !response.is_created {
                self.registry.store.follow(response.revision, Vec::new());
            }
            return;
        }
        // All events of a revision are in one response.
        for events in response.events.chunk_by(|one, other| one.entry.mod_revision == other.entry.mod_revision) {
            self.apply_transaction(events);
        }
    }

    /// Applies the events of one revision.
    fn apply_transaction(&self, events: &[WatchEvent]) {
        let Some(revision) = events.first().map(|event| event.entry.mod_revision) else { return };
        let mut changes = Vec::with_capacity(events.len());
        for event in events {
            // A transaction may write a key once.
            changes.extend(self.change(event));
        }
        let keys: HashSet<Key> = changes.iter().map(|change| change.key.clone()).collect();
        self.registry.store.follow(revision, changes);
        keys.iter().for_each(|key| self.registry.followed(key));
    }

    /// The change of an object. `None` if the key is not that of an object, or cannot be decoded.
    fn change(&self, WatchEvent { is_deletion, entry }: &WatchEvent) -> Option<FollowedChange<StoredObject>> {
        let database = &self.database;
        if *is_deletion {
            let key = database.layout.decode(&entry.key)?;
            self.registry.unreadable.remove(&key);
            database.note_encryption(&key, true);
            return Some(FollowedChange { key, value: None });
        }
        if let Some(object) = database.in_flight.find(&entry.key, &entry.value) {
            let value = Some(Arc::new(object.with_revision(entry.mod_revision)));
            let key = database.layout.decode(&entry.key)?;
            database.note_encryption(&key, true);
            return Some(FollowedChange { key, value });
        }
        let (key, decoded) = database.decode(entry, &self.registry.catalog())?;
        match decoded {
            Ok(entry) => {
                self.registry.unreadable.remove(&key);
                Some(FollowedChange { key, value: Some(entry.object) })
            }
            Err(reason) => {
                self.registry.unreadable.add(key, reason);
                None
            }
        }
    }

    /// Reads all objects again.
    async fn list(&self) -> Result<(), EtcdError> {
        tracing::warn!("etcd was compacted beyond the last event seen, so all objects are read again");
        let listed = self.database.list().await?;
        self.registry.follow_list(listed);
        Ok(())
    }
}

/// Whether progress notifications on request never come before earlier events.
fn has_reliable_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor), Some(patch)) = (numbers.next(), numbers.next(), numbers.next()) else {
        return false;
    };
    match TRUSTED.iter().find(|(a, b, _)| (*a, *b) == (major, minor)) {
        Some((_, _, oldest)) => patch >= *oldest,
        None => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_of_etcd_have_no_reliable_progress() {
        for version in ["3.4.23", "3.4.30", "3.5.12", "3.3.99", "2.3.8", "", "unknown"] {
            assert!(!has_reliable_progress(version), "{version}");
        }
        for version in ["3.4.31", "3.5.13", "3.5.16-debian", "3.6.0", "4.0.0"] {
            assert!(has_reliable_progress(version), "{version}");
        }
    }
}
