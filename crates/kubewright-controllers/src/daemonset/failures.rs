//! Back-off of failed pods: the first failed pod of a node is replaced immediately, later ones with
//! exponential back-off, since a node that rejects a pod would reject the next one. A succeeded pod
//! is replaced immediately.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubewright_api::apps::v1::DaemonSet;
use kubewright_api::core::v1::Pod;
use kubewright_core::{Object, ObjectKey, Str};
use tokio::time::Instant;

/// Minimum and maximum back-off.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15 * 60));

/// Failed pods of daemon sets, by the key of the set. One worker handles a key at a time; it
/// removes the entry of a deleted set.
#[derive(Debug, Default)]
#[doc(alias = "failedPodsBackoff")]
pub(super) struct PodFailures {
    records: Mutex<HashMap<ObjectKey, Record>>,
}

#[derive(Debug, Default)]
struct Record {
    /// The uid of the set: another set of its name starts over.
    uid: Str,
    last_of_node: HashMap<String, PodFailure>,
}

/// The last failed pod of a node.
#[derive(Debug)]
struct PodFailure {
    pod: Str,
    at: Instant,
    /// The back-off after that.
    wait: Duration,
}

impl PodFailures {
    /// The remaining back-off of a failed pod; `None` if it is to be replaced.
    pub(super) fn wait(&self, set: &DaemonSet, node: &str, pod: &Pod) -> Option<Duration> {
        let (mut records, now) = (self.lock(), Instant::now());
        let record = records.entry(set.key()).or_default();
        if record.uid != set.uid() {
            *record = Record { uid: set.uid().into(), ..Record::default() };
        }
        // After twice the maximum back-off without a failure, a node starts over.
        let before = record.last_of_node.get(node).filter(|failure| now.duration_since(failure.at) <= 2 * BACKOFF.1);
        if let Some(failure) = before {
            // It was to be deleted and may still be in the cache, or on the server.
            if failure.pod == pod.uid() {
                return None;
            }
            let left = (failure.at + failure.wait).saturating_duration_since(now);
            if !left.is_zero() {
                return Some(left);
            }
        }
        let wait = before.map_or(BACKOFF.0, |failure| (2 * failure.wait).min(BACKOFF.1));
        record.last_of_node.insert(node.to_owned(), PodFailure { pod: pod.uid().into(), at: now, wait });
        None
    }

    /// Removes the entry of a deleted set.
    pub(super) fn forget(&self, set: &ObjectKey) {
        self.lock().remove(set);
    }

    /// Whether there is no entry of a set.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self, set: &ObjectKey) -> bool {
        !self.lock().contains_key(set)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_pods_of_a_node_are_deleted_with_exponential_back_off() {
        let failures = PodFailures::default();
        let mut set = DaemonSet::default();
        let pod = |uid: &str| {
            let mut pod = Pod::default();
            pod.metadata.uid = Some(uid.into());
            pod
        };
        let seconds = Duration::from_secs;
        assert_eq!(failures.wait(&set, "node", &pod("a")), None);
        assert_eq!(failures.wait(&set, "node", &pod("a")), None, "it still is to go");
        assert_eq!(failures.wait(&set, "node", &pod("b")), Some(seconds(1)));
        assert_eq!(failures.wait(&set, "other", &pod("c")), None);
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(failures.wait(&set, "node", &pod("b")), None);
        assert_eq!(failures.wait(&set, "node", &pod("d")), Some(seconds(2)));
        // A pod that ran for a while is replaced immediately too.
        tokio::time::sleep(seconds(60)).await;
        assert_eq!(failures.wait(&set, "node", &pod("d")), None);
        assert_eq!(failures.wait(&set, "node", &pod("e")), Some(seconds(4)));
        for number in 0..20 {
            tokio::time::sleep(BACKOFF.1).await;
            assert_eq!(failures.wait(&set, "node", &pod(&number.to_string())), None);
        }
        assert_eq!(failures.wait(&set, "node", &pod("f")), Some(BACKOFF.1));
        tokio::time::sleep(3 * BACKOFF.1).await;
        assert_eq!(failures.wait(&set, "node", &pod("f")), None);
        assert_eq!(failures.wait(&set, "node", &pod("g")), Some(seconds(1)), "it was fine for long");
        set.metadata.uid = Some("another".into());
        assert_eq!(failures.wait(&set, "node", &pod("h")), None, "one that was deleted had its name");
        failures.forget(&set.key());
        assert_eq!(failures.wait(&set, "node", &pod("i")), None);
    }
}
