//! When nodes were last heard of.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubewright_core::{MicroTime, Str, Time};
use tokio::time::Instant;

/// The last sign of life of each node.
#[derive(Debug, Default)]
pub(super) struct Health {
    of_node: Mutex<HashMap<Str, Seen>>,
}

/// The last writes of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Heartbeat {
    /// The heartbeat time of the `Ready` condition.
    pub(super) status: Option<Time>,
    /// The time of the lease.
    pub(super) lease: Option<MicroTime>,
}

#[derive(Debug)]
struct Seen {
    uid: Str,
    heartbeat: Heartbeat,
    since: Instant,
}

impl Health {
    /// How long a node has been silent. The clock of the node does not matter: time counts from
    /// when this controller saw the heartbeat.
    pub(super) fn silence(&self, name: &str, uid: &str, heartbeat: Heartbeat) -> Duration {
        let mut of_node = self.of_node.lock().unwrap_or_else(PoisonError::into_inner);
        match of_node.get(name) {
            Some(seen) if seen.uid == uid && seen.heartbeat == heartbeat => seen.since.elapsed(),
            _ => {
                let seen = Seen { uid: uid.into(), heartbeat, since: Instant::now() };
                of_node.insert(name.into(), seen);
                Duration::ZERO
            }
        }
    }

    /// Removes a deleted node.
    pub(super) fn forget(&self, name: &str) {
        self.of_node.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn any_new_heartbeat_ends_the_silence() {
        let health = Health::default();
        let (status, lease) = (Some(Time::now()), Some(MicroTime::now()));
        let silence = |uid: &str, status, lease| health.silence("a", uid, Heartbeat { status, lease }).as_secs();
        assert_eq!(silence("1", status, None), 0);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!((silence("1", status, None), silence("1", status, lease)), (30, 0));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!((silence("1", status, lease), silence("2", status, lease)), (30, 0));
    }
}
